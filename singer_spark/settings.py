"""The settings that tap and target share, parsed once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from singer_spark.figures import parse_duration
from singer_spark.secrets import mask
from singer_spark.spark_conf import refusals

DEFAULT_MASTER = "local[*]"
ENGINE_IDLE = "SINGER_SPARK_ENGINE_IDLE"

# What says where Spark's own catalog keeps its tables, and where it keeps what it knows of them.
WAREHOUSE = "spark.sql.warehouse.dir"
_WAREHOUSES = (WAREHOUSE, "spark.hadoop.hive.metastore.warehouse.dir")
_METASTORES = ("spark.hadoop.hive.metastore.uris", "spark.hadoop.javax.jdo.option.ConnectionURL")
IMPLEMENTATION = "spark.sql.catalogImplementation"
# A database in Java's own working folder, which goes with an engine.
_PASSING = re.compile(r"jdbc:derby:(?!(;databaseName=)?/)")
OWN_CATALOG = "spark_catalog"


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
        remote, given = config.get("spark_remote"), (config.get("spark_conf") or {}).items()
        texts = {True: "true", False: "false"}
        conf = {key: texts[one] if isinstance(one, bool) else str(one) for key, one in given}
        return cls(
            master=config.get("spark_master") or DEFAULT_MASTER,
            remote=remote,
            conf=conf if remote else _placed(conf),
            packages=tuple(config.get("spark_packages") or ()),
            jars=tuple(config.get("spark_jars") or ()),
            engine_idle=engine_idle(config.get("engine_idle")),
        )

    @property
    def is_local(self) -> bool:
        """Say whether driver and executors are one process on this machine."""
        return self.remote is None and self.master.startswith("local")

    @property
    def retries_tasks(self) -> bool:
        """Say whether a task that failed runs again, after it may have written some of its rows."""
        return not self.is_local or "," in self.master


def has_warehouse(conf: Mapping[str, str]) -> bool:
    """Say whether a configuration names a place for the tables of Spark's own catalog."""
    return _names(conf, _WAREHOUSES)


def own_catalog(name: str | None) -> str | None:
    """Spell the name of Spark's own catalog in one way; Spark knows it in any case of letters."""
    is_own = isinstance(name, str) and name.casefold() == OWN_CATALOG
    return OWN_CATALOG if is_own else name


def _placed(conf: Mapping[str, str]) -> dict[str, str]:
    """Name the folders of tables in full, for Spark works in another one, and use what is named.

    Spark asks a metastore only where it is told that its catalog is one of Hive.
    """
    folders = {
        key: str(Path(conf[key]).expanduser().absolute())
        for key in _WAREHOUSES
        if conf.get(key) and not re.match(r"\w[\w+.-]*:", conf[key])
    }
    hive = {IMPLEMENTATION: "hive"} if any(key in conf for key in _METASTORES) else {}
    return {**hive, **conf, **folders}


def _names(conf: Mapping[str, str], keys: Iterable[str]) -> bool:
    """Say whether one of some settings is there; Hive may have them in a file of its own."""
    given = (conf.get(key) for key in keys)
    if any(one and not _PASSING.match(one) for one in given):
        return True
    known = (os.environ.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR"))
    sites = [Path(folder) / "hive-site.xml" for folder in known if folder]
    texts = [site.read_text(errors="replace") for site in sites if site.is_file()]
    wanted = [f">{key.removeprefix('spark.hadoop.')}<" for key in keys]
    is_hive = conf.get(IMPLEMENTATION) == "hive"
    return is_hive and any(name in text for text in texts for name in wanted)


def _catalog_problems(settings: SparkSettings) -> Iterator[str]:
    """Yield what would let tables of Spark's own catalog, or what it knows of them, go with it."""
    if settings.remote:
        return
    if not has_warehouse(settings.conf):
        yield (
            f"catalog: {OWN_CATALOG} has no place for its tables; set {WAREHOUSE} in spark_conf, "
            "or use spark_remote"
        )
    if settings.conf.get(IMPLEMENTATION) == "hive" and not _names(settings.conf, _METASTORES):
        yield (
            f"catalog: {OWN_CATALOG} of Hive has no metastore; set {_METASTORES[0]} in spark_conf, "
            f"or leave {IMPLEMENTATION} out"
        )


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
    problems = [*refusals(settings.conf), *_listed_secrets(settings)]
    if own_catalog(config.get("catalog")) == OWN_CATALOG:
        problems += _catalog_problems(settings)
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


def _listed_secrets(settings: SparkSettings) -> Iterator[str]:
    """Yield what the list of processes of Spark's workers would show to all their users."""
    if settings.remote or re.match(r"local(\[|$)", settings.master):
        return
    for key in ("spark.executor.extraJavaOptions", "spark.executor.defaultJavaOptions"):
        if (value := settings.conf.get(key, "")) != mask(value):
            yield (
                f"spark_conf: {key} holds a secret, which the list of processes of each worker "
                "would show; write such options into a file there that only Spark may read, and "
                "give @FILE"
            )
