"""The settings that tap and target share, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_MASTER = "local[*]"

_REFUSED_CONF = {
    "spark.sql.extensions": "Delta's extension is always set",
    "spark.sql.catalog.spark_catalog": "Delta's catalog is always set",
    "spark.sql.session.timeZone": "times are handled in UTC",
    "spark.sql.ansi.enabled": "without ANSI mode Spark bends values silently",
    "spark.sql.variable.substitute": "it would rewrite values that look like variables",
    "spark.sql.parquet.outputTimestampType": "other types lose microseconds or years",
    "spark.databricks.delta.commitInfo.userMetadata": "commits carry the run and its state",
    "spark.driver.extraClassPath": "use spark_jars",
    "spark.jars": "use spark_jars",
    "spark.jars.packages": "use spark_packages",
    "spark.master": "use spark_master",
    "spark.remote": "use spark_remote",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How to reach Spark."""

    master: str
    remote: str | None
    conf: Mapping[str, str]
    packages: tuple[str, ...]
    jars: tuple[str, ...]

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> SparkSettings:
        """Read the Spark settings of a validated config."""
        return cls(
            master=config.get("spark_master") or DEFAULT_MASTER,
            remote=config.get("spark_remote"),
            conf={
                key: _conf_text(value) for key, value in (config.get("spark_conf") or {}).items()
            },
            packages=tuple(config.get("spark_packages") or ()),
            jars=tuple(config.get("spark_jars") or ()),
        )

    @property
    def is_local(self) -> bool:
        """Say whether driver and executors are one process on this machine."""
        return self.remote is None and self.master.startswith("local")

    @property
    def retries_tasks(self) -> bool:
        """Say whether a task that failed runs again, after it may have written some of its rows."""
        return not self.is_local or "," in self.master


def map_problems(config: Mapping[str, Any]) -> list[str]:
    """List what contradicts itself in the settings that change records."""
    if config.get("flattening_enabled") and config.get("flattening_max_depth") is None:
        return ["flattening_enabled needs flattening_max_depth"]
    return []


def spark_problems(config: Mapping[str, Any]) -> list[str]:
    """List what contradicts itself in the Spark settings."""
    problems = [
        f"spark_conf: {key} cannot be set: {reason}"
        for key, reason in _REFUSED_CONF.items()
        if key in (config.get("spark_conf") or {})
    ]
    if config.get("spark_remote") and config.get("spark_master") not in (None, DEFAULT_MASTER):
        problems.append("spark_remote and spark_master exclude each other; set one of them")
    if config.get("spark_jars") and config.get("spark_packages"):
        problems.append("spark_jars and spark_packages exclude each other; set one of them")
    problems += [
        f"spark_remote and {name} exclude each other; the server has its own packages"
        for name in ("spark_jars", "spark_packages")
        if config.get("spark_remote") and config.get(name)
    ]
    return problems


def _conf_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
