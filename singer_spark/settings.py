"""The settings that tap and target share, parsed once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from singer_spark.duration import parse_duration
from singer_spark.guards import refusals

DEFAULT_MASTER = "local[*]"
ENGINE_IDLE = "SINGER_SPARK_ENGINE_IDLE"

# What says where a catalog keeps its tables.
_WAREHOUSES = (
    "spark.sql.warehouse.dir",
    "spark.hadoop.hive.metastore.warehouse.dir",
    "spark.hadoop.hive.metastore.uris",
    "spark.hadoop.javax.jdo.option.ConnectionURL",
)
_OWN_CATALOG = "spark_catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How to reach Spark."""

    master: str
    remote: str | None
    conf: Mapping[str, str]
    packages: tuple[str, ...]
    jars: tuple[str, ...]
    engine_idle: float = 0.0  # seconds that an engine outlives its last user

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
            engine_idle=engine_idle(config.get("engine_idle")),
        )

    @property
    def is_local(self) -> bool:
        """Say whether driver and executors are one process on this machine."""
        return self.remote is None and self.master.startswith("local")

    @property
    def has_warehouse(self) -> bool:
        """Say whether the settings name a place for the tables of Spark's own catalog."""
        return bool(self.remote) or has_warehouse(self.conf)

    @property
    def retries_tasks(self) -> bool:
        """Say whether a task that failed runs again, after it may have written some of its rows."""
        return not self.is_local or "," in self.master


def has_warehouse(conf: Mapping[str, str]) -> bool:
    """Say whether a configuration names a place for the tables of Spark's own catalog."""
    is_hive = conf.get("spark.sql.catalogImplementation") == "hive"
    return is_hive or any(key in conf for key in _WAREHOUSES)


def engine_idle(given: Any) -> float:
    """Return for how many seconds an engine is kept warm: as given, or by the environment."""
    return float(parse_duration(given or os.environ.get(ENGINE_IDLE)) or 0)


def map_problems(config: Mapping[str, Any]) -> list[str]:
    """List what contradicts itself in the settings that change records."""
    if config.get("flattening_enabled") and config.get("flattening_max_depth") is None:
        return ["flattening_enabled needs flattening_max_depth"]
    return []


def spark_problems(config: Mapping[str, Any]) -> list[str]:
    """List what contradicts itself in the Spark settings."""
    settings = SparkSettings.from_config(config)
    problems = list(refusals(settings.conf))
    if config.get("catalog") == _OWN_CATALOG and not settings.has_warehouse:
        problems.append(
            f"catalog: {_OWN_CATALOG} has no place for its tables; set spark.sql.warehouse.dir or "
            "spark.hadoop.hive.metastore.uris in spark_conf, or use spark_remote"
        )
    if config.get("spark_remote") and config.get("spark_master") not in (None, DEFAULT_MASTER):
        problems.append("spark_remote and spark_master exclude each other; set one of them")
    if config.get("spark_jars") and config.get("spark_packages"):
        problems.append("spark_jars and spark_packages exclude each other; set one of them")
    problems += [
        f"spark_remote and {name} exclude each other; the server has its own packages"
        for name in ("spark_jars", "spark_packages")
        if config.get("spark_remote") and config.get(name)
    ]
    if config.get("engine_idle") and parse_duration(config["engine_idle"]) is None:
        problems.append("engine_idle must be a duration with its unit, such as 15m or 1h")
    return problems


def _conf_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
