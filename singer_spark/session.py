"""The only builder of Spark sessions.

It keeps three promises for everything above it: the JVM never writes to standard output, no
setting travels on a command line, and times are UTC to the microsecond.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shlex
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from singer_spark import jars
from singer_spark.errors import SettingsError, TransientError
from singer_spark.guards import GUARDS, START_GUARDS
from singer_spark.progress import RemoteTasks, report_progress, watch_tasks
from singer_spark.scratch import make_scratch
from singer_spark.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark raises: its own exceptions, and those of Java code that it does not translate.
SPARK_ERRORS = (PySparkException, Py4JError)

_SCRATCH = "singer-spark-jvm-"
_MAX_MEMORY_MB = 4096
_CONNECT_PORT = 15002
# Spark's generated code for a wide row is one huge method, which Java would only interpret:
# twice as slow at nine columns.
_JIT = "-XX:-DontCompileHugeMethods"
_lock = threading.Lock()
_session: SparkSession | None = None

# What the promises rest on; a session that runs elsewhere gets these too.
_FIXED_CONF = {key: guard.value for key, guard in GUARDS.items()}
_START_CONF = {key: guard.value for key, guard in START_GUARDS.items()}
_DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def open_session(settings: SparkSettings, *, urls: Iterable[str] = ()) -> SparkSession:
    """Return the process's session, started for the given source and table URLs if there is none.

    Args:
        settings: How to reach Spark.
        urls: What will be read and written; decides on drivers and on S3.
    """
    global _session
    with _lock:
        if _session is None:
            _session = _connect(settings) if settings.remote else _start(settings, list(urls))
        return _session


def isolated(spark: SparkSession) -> SparkSession:
    """Return a session with a configuration of its own, on the same engine.

    Commit metadata is a setting of the session, so every stream that commits needs one.
    """
    if hasattr(spark, "cloneSession"):
        session: SparkSession = spark.cloneSession()
        _follow(session)
    else:
        session = spark.newSession()
    for key, value in _FIXED_CONF.items():
        session.conf.set(key, value)
    return session


def _connect(settings: SparkSettings) -> SparkSession:
    from pyspark.sql import SparkSession

    _check_reachable(str(settings.remote))
    try:
        builder = SparkSession.builder.remote(str(settings.remote))  # noqa: TID251
        for key, value in {**settings.conf, **_FIXED_CONF}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    except ImportError as error:
        raise SettingsError(
            "spark_remote needs Spark Connect's client: pip install 'singer-spark[connect]'"
        ) from error
    _follow(session)
    return session


def _follow(session: SparkSession) -> None:
    """Report what a server has done for a session."""
    handler: Any = RemoteTasks()
    session.registerProgressHandler(handler)


def _check_reachable(remote: str) -> None:
    """Ask for a connection first: the client itself would try for ten minutes."""
    url = urlsplit(remote)
    try:
        socket.create_connection((url.hostname, url.port or _CONNECT_PORT), timeout=10).close()
    except (OSError, ValueError) as error:
        raise TransientError(
            f"spark_remote: no Spark Connect server answers at {url.hostname} ({error}); "
            "start it, or correct the address"
        ) from error


def _start(settings: SparkSettings, urls: list[str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    jars.java_command()
    if settings.is_local:
        # Spark's workers must find this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # Spark's temporary files hold rows; where the process is killed the next one removes them.
    scratch = make_scratch(_SCRATCH)
    conf = _configuration(settings, _class_path(settings, urls), scratch)
    report_progress("the start of Spark")
    # pyspark would hand the configuration over as arguments, which every process can read.
    with _properties_file(conf, scratch) as (name, descriptors), _launching(name, scratch):
        options = {"stdout": 2, "pass_fds": descriptors}
        gateway = launch_gateway(popen_kwargs=options)  # type: ignore[no-untyped-call]
        context = SparkContext(gateway=gateway, conf=SparkConf(_jvm=gateway.jvm))
    report_progress()
    watch_tasks(context)
    return SparkSession(context)


@contextmanager
def _properties_file(conf: Mapping[str, str], scratch: Path) -> Iterator[tuple[str, list[int]]]:
    """Write the configuration, which may hold passwords, into a file that has no name.

    Spark's launcher and then Spark itself open it by way of the descriptor that they inherit. Only
    Linux lets them both read it from its start; elsewhere it lies in a private folder meanwhile.
    """
    text = "".join(f"{key} {_escaped(value)}\n" for key, value in conf.items())
    if sys.platform == "linux":
        with tempfile.TemporaryFile() as file:
            file.write(text.encode())
            file.flush()
            descriptor = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)  # above the standard ones
            try:
                yield f"/dev/fd/{descriptor}", [descriptor]
            finally:
                os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile("w", dir=scratch, encoding="utf-8") as named:
            named.write(text)
            named.flush()
            yield named.name, []


@contextmanager
def _launching(properties: str, scratch: Path) -> Iterator[None]:
    """Pass pyspark its arguments by the environment, and keep its temporary files in scratch."""
    before, place = os.environ.get("PYSPARK_SUBMIT_ARGS"), tempfile.tempdir
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {shlex.quote(properties)} pyspark-shell"
    tempfile.tempdir = str(scratch)
    try:
        yield
    finally:
        tempfile.tempdir = place
        if before is None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before


def _class_path(settings: SparkSettings, urls: list[str]) -> list[str]:
    if settings.jars:
        if missing := [jar for jar in settings.jars if not Path(jar).is_file()]:
            raise SettingsError(f"spark_jars: no such file: {', '.join(missing)}; correct its path")
        return list(settings.jars)
    # The user's own come first: Java takes a class from the first jar that has it.
    groups = [settings.packages, jars.DELTA, *(jars.packages_for(url) for url in urls)]
    found = jars.resolve(groups, ivy_settings=settings.conf.get("spark.jars.ivySettings"))
    return [str(path) for path in found]


def _configuration(settings: SparkSettings, class_path: list[str], scratch: Path) -> dict[str, str]:
    """Gather the whole configuration: defaults, then the user's, then what is fixed."""
    given = {
        side: settings.conf.get(f"spark.{side}.extraJavaOptions", "")
        for side in ("driver", "executor")
    }
    conf = {
        **_tuning(settings),
        **_warehouse(settings, scratch),
        **_s3_conf(os.environ),
        **{key: value for key, value in settings.conf.items() if key != "spark.jars.ivySettings"},
        **_FIXED_CONF,
        **_START_CONF,
        **_DELTA_CONF,
        "spark.master": settings.master,
        "spark.driver.extraJavaOptions": (
            f"-Duser.timezone=UTC -Dlog4j2.configurationFile={_beside('log4j2.properties')} "
            f"-Dderby.stream.error.file={os.devnull} {_temporary_folder(scratch)} "
            f"{_JIT} {given['driver']}"
        ).strip(),
        # Drivers of databases read times by Java's own zone.
        "spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {given['executor']}".strip(),
        "spark.driver.extraClassPath": os.pathsep.join(class_path),
    }
    if not settings.is_local:
        conf["spark.jars"] = ",".join(class_path)
    return conf


def _temporary_folder(scratch: Path) -> str:
    """Have Java use our folder, unless its locale might not let it read the name."""
    if not str(scratch).isascii():
        return ""
    return '"-Djava.io.tmpdir={}"'.format(re.sub(r'(["\\])', r"\\\1", str(scratch)))


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
        cores = str(os.cpu_count() or 2)
        tuning |= {
            "spark.scheduler.allocation.file": _beside("fairscheduler.xml"),
            "spark.driver.memory": f"{_driver_memory_mb()}m",
            "spark.driver.host": "localhost",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": cores,
            "spark.databricks.delta.snapshotPartitions": cores,
            # VACUUM would list every folder by thousands of tasks.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": cores,
        }
    return tuning


def _warehouse(settings: SparkSettings, scratch: Path) -> dict[str, str]:
    """Keep Spark from making a warehouse in the working folder, where no catalog's tables go."""
    if settings.has_warehouse:
        return {}
    return {"spark.sql.warehouse.dir": (scratch / "spark-warehouse").as_uri()}


def _beside(name: str) -> str:
    """Return the URL of a file of this package."""
    return Path(__file__).with_name(name).as_uri()


def _driver_memory_mb() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return max(512, min(machine // 4, _MAX_MEMORY_MB))


def _s3_conf(environ: Mapping[str, str]) -> dict[str, str]:
    """Translate the usual AWS variables; the keys themselves stay in the environment."""
    conf = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    if endpoint := environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL"):
        conf["spark.hadoop.fs.s3a.endpoint"] = endpoint
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if region := environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION"):
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region
    return conf


def _escaped(value: str) -> str:
    """Escape a value for a Java properties file, which knows JSON's escapes."""
    return json.dumps(value)[1:-1]
