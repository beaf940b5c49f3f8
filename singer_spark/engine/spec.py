"""What an engine is made of: Java, jars, Spark's configuration, the environment.

Two processes can share one engine if theirs are equal. They are compared by content, not by path:
under Meltano tap and target live in virtual environments of their own.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec

from singer_spark.engine import jars
from singer_spark.engine.java import find_java
from singer_spark.engine.machine import cores, driver_memory_mb
from singer_spark.errors import SettingsError
from singer_spark.settings import SparkSettings
from singer_spark.spark_conf import GUARDS, START_GUARDS

# Spark prefers these to its settings: where files of a client go would hang on who started it.
PLACES = (
    *("SPARK_LOCAL_DIRS", "SPARK_EXECUTOR_DIRS", "SPARK_WORKER_DIR", "LOCAL_DIRS"),
    "MESOS_SANDBOX",
)
# Variables that change what Spark, Hadoop or a driver does.
_ENVIRONMENT = (
    *("AWS_", "AZURE_", "GOOGLE_", "HADOOP_", "SPARK_", "PYSPARK_", "JAVA_", "JDK_JAVA_", "KRB5"),
    "_JAVA_OPTIONS",
    *("TNS_ADMIN", "SSL_CERT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SINGER_SPARK_LOG_LEVEL"),
)
# Set by Spark's own client, or by whoever starts an engine: they differ without a difference.
_NO_MATTER = {
    *PLACES,
    *("JAVA_HOME", "SPARK_HOME", "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"),
    "SPARK_CONNECT_MODE_ENABLED",
}
_CONNECT = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    # Generated code is kept by class loader: a loader per session would compile everything anew.
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",
    # A lease ends a session; a target may wait for hours for its tap's first record.
    "spark.connect.session.manager.defaultSessionTimeout": "3650d",
    # Thousands of runs may pass through one engine: nothing of them is kept.
    "spark.connect.execute.manager.abandonedTombstonesSize": "100",
    "spark.sql.connect.ui.retainedSessions": "1",
    "spark.sql.connect.ui.retainedStatements": "1",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.cleaner.periodicGC.interval": "5min",
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.databricks.delta.delta.log.cacheSize": "100",
}
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What an engine has, or what a client needs."""

    version: str
    java: str
    jars: Mapping[str, str]
    own: tuple[str, ...]  # what the user names of them, which stands before all others
    options: tuple[str, ...]
    conf: Mapping[str, str]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, settings: SparkSettings, urls: Iterable[str]) -> Spec:
        """Gather what reading and writing the given URLs needs."""
        if settings.master.startswith(("yarn", "k8s")):
            raise SettingsError(
                f"spark_master: {settings.master} is not started from here; start a Spark Connect "
                "server there and name it in spark_remote"
            )
        known = _jars(settings, urls)
        return cls(
            version=f"{version('singer-spark')} {version('pyspark')} {sys.version_info[:2]}",
            java=find_java().version,
            jars=known,
            own=(*settings.packages, *(known.values() if settings.jars else ())),
            options=tuple(shlex.split(settings.conf.get(_JAVA_OPTIONS, ""))),
            conf=_configuration(settings),
            environment={**_environment(os.environ), "umask": _umask()},
        )

    @property
    def class_path(self) -> list[str]:
        """Return the jars in the order in which Java looks for a class: the user's own first."""
        shipped = sorted(str(path) for path in jars.spark_jars().glob("*.jar"))
        known = (self.environment.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR"))
        folders = [folder for folder in known if folder and Path(folder).is_dir()]
        return [*folders, *self.jars, *shipped]

    def misfit(self, client: Spec) -> str | None:
        """Say why this engine cannot serve a client, None if it can."""
        for name in ("version", "java", "own", "options", "conf", "environment"):
            if getattr(self, name) != getattr(client, name):
                return f"another {name}"
        missing = set(client.jars.values()) - set(self.jars.values())
        return f"no {', '.join(sorted(missing))}" if missing else None

    def to_json(self) -> str:
        """Write it for a keeper."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """Read what `to_json` wrote."""
        return msgspec.json.decode(text, type=cls)


def _jars(settings: SparkSettings, urls: Iterable[str]) -> dict[str, str]:
    """Map the path of each jar to its content: of those that we fetch the name says it."""
    if settings.jars:
        if missing := [jar for jar in settings.jars if not Path(jar).is_file()]:
            raise SettingsError(f"spark_jars: no such file: {', '.join(missing)}; correct its path")
        return {str(Path(jar).absolute()): jars.sha256(Path(jar)) for jar in settings.jars}
    # The user's own come first: Java takes a class from the first jar that has it.
    groups = [settings.packages, jars.DELTA, jars.S3, *(jars.packages_for(url) for url in urls)]
    found = jars.resolve(groups, ivy_settings=settings.conf.get("spark.jars.ivySettings"))
    return {str(path): path.name for path in found}


def _configuration(settings: SparkSettings) -> dict[str, str]:
    """Gather the whole configuration: defaults, then the user's, then what is fixed."""
    ours = {"spark.jars.ivySettings", _JAVA_OPTIONS}
    executor = settings.conf.get("spark.executor.extraJavaOptions", "")
    return {
        **_tuning(settings),
        **_s3_conf(os.environ),
        **{key: value for key, value in settings.conf.items() if key not in ours},
        **{key: guard.value for key, guard in {**GUARDS, **START_GUARDS}.items()},
        **_DELTA,
        **_CONNECT,
        **({"spark.authenticate": "true"} if settings.is_local else {}),
        "spark.master": settings.master,
        # Drivers of databases read times by Java's own zone.
        "spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {executor}".strip(),
    }


def _tuning(settings: SparkSettings) -> dict[str, str]:
    """Tune for small commits; everything here may be overridden."""
    tuning = {
        "spark.app.name": "singer-spark",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.maxResultSize": "0",
        "spark.scheduler.mode": "FAIR",
    }
    if settings.is_local:
        known, memory = str(cores()), settings.conf.get("spark.driver.memory")
        tuning |= {
            "spark.driver.memory": memory or f"{driver_memory_mb()}m",
            "spark.driver.host": "localhost",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": known,
            "spark.databricks.delta.snapshotPartitions": known,
            # VACUUM would list every folder by thousands of tasks.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": known,
        }
    return tuning


def _s3_conf(environ: Mapping[str, str]) -> dict[str, str]:
    """Translate the usual AWS variables; the keys themselves stay in the environment."""
    conf = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    if endpoint := environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL"):
        conf["spark.hadoop.fs.s3a.endpoint"] = endpoint
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if region := environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION"):
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region
    return conf


def _umask() -> str:
    """Return what takes rights from new files: an engine makes a client's files by its own."""
    mask = os.umask(0o077)  # there is no other way to read it
    os.umask(mask)
    return oct(mask)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(environ.items())
        if name.upper().startswith(_ENVIRONMENT) and name not in _NO_MATTER
    }
