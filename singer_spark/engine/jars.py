"""The jars a session needs: which ones, and a cache of them on this machine.

A set of Maven coordinates is resolved once, by the Ivy that Spark ships, into a folder of its own;
later starts take the files from there. The folder appears whole or not at all, because the tap
and the target of a first run start together.

Jars are code: they are loaded only as they were fetched, from a cache that is the user's own. Of
the jars that we name ourselves the package knows the content. What other packages resolve to is
noted when they are fetched.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from filelock import FileLock

from singer_spark.engine.java import find_java
from singer_spark.errors import SettingsError
from singer_spark.scratch import make_scratch, remove_scratch

logger = logging.getLogger(__name__)

DELTA = ("io.delta:delta-spark_4.2_2.13:4.4.0",)
# The AWS bundle that hadoop-aws asks for weighs 686 MB; the modules that S3A uses, 18 MB.
_OF_SDK = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
S3 = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    *(f"software.amazon.awssdk:{one}:2.35.4" for one in (*_OF_SDK, "url-connection-client")),
)
_DRIVERS = {
    "postgresql": "org.postgresql:postgresql:42.7.13",
    "mysql": "com.mysql:mysql-connector-j:9.4.0",
    "mariadb": "org.mariadb.jdbc:mariadb-java-client:3.5.6",
    "sqlserver": "com.microsoft.sqlserver:mssql-jdbc:13.2.1.jre11",
    "oracle": "com.oracle.database.jdbc:ojdbc17:23.9.0.25.07",
    "sqlite": "org.xerial:sqlite-jdbc:3.50.3.0",
    "h2": "com.h2database:h2:2.4.240",
}
# The newest that Maven Central has for Spark 4; the one of 4.1 reads for Spark 4.2 as well.
AVRO = ("org.apache.spark:spark-avro_2.13:4.1.1",)
# The second is what the first needs, in a version that is published everywhere.
KAFKA = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
)
_KINDS = {"avro": AVRO, "kafka": KAFKA}
_COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


def named_groups() -> tuple[tuple[str, ...], ...]:
    """List every set of packages that is named here; what their jars are is known beforehand."""
    return (DELTA, S3, *_KINDS.values(), *((driver,) for driver in _DRIVERS.values()))


def packages_for(url: str) -> tuple[str, ...]:
    """Name the Maven packages that a source or table URL needs beside Spark's own."""
    if jdbc := re.match(r"jdbc:(\w+):", url):
        driver = _DRIVERS.get(jdbc[1])
        return (driver,) if driver else ()
    storage = S3 if "s3a://" in url or "s3://" in url else ()
    return _KINDS.get(url.partition(":")[0].lower(), ()) + storage


def resolve(groups: Sequence[Sequence[str]], *, ivy_settings: str | None = None) -> list[Path]:
    """Return the jars of each group of coordinates, from the cache where it has them."""
    jars: list[Path] = []
    for group in dict.fromkeys(tuple(group) for group in groups if group):
        for coordinate in group:
            if not _COORDINATE.fullmatch(coordinate):
                raise SettingsError(
                    f"spark_packages: {coordinate!r} is no Maven coordinate; "
                    "write group:artifact:version"
                )
        jars.extend(trusted_jars(group, _cached(group, ivy_settings)))
    return jars


def cache_folder() -> Path:
    """Return the folder of the cache: SINGER_SPARK_CACHE, or the user's cache folder."""
    if chosen := os.environ.get("SINGER_SPARK_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "singer-spark"


def spark_jars() -> Path:
    """Return the folder of the jars that Spark itself ships."""
    found = find_spec("pyspark")  # not imported, which takes a while
    if found is None or found.origin is None:
        raise SettingsError("pyspark is missing; install singer-spark anew")
    return Path(found.origin).with_name("jars")


def _cached(group: tuple[str, ...], ivy_settings: str | None) -> Path:
    root = cache_folder() / "jars"
    folder = root / hashlib.sha256("\n".join(group).encode()).hexdigest()[:16]
    cache_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    root.mkdir(mode=0o700, exist_ok=True)
    for known in (cache_folder(), root, folder, cache_folder() / "classes"):
        _check_writers(known)
    if _is_there(group, folder):
        return folder
    with FileLock(f"{folder}.lock"):
        if not _is_there(group, folder):
            logger.info("Fetching %s and what it needs (once)", ", ".join(group))
            scratch = make_scratch("fetching-", root)
            try:
                _retrieve(group, scratch, ivy_settings)
                note_sums(scratch / "jars")
                if folder.is_dir():  # of an older version, which noted nothing
                    shutil.rmtree(folder)
                (scratch / "jars").rename(folder)
            finally:
                remove_scratch(scratch)
    return folder


def _retrieve(group: tuple[str, ...], scratch: Path, ivy_settings: str | None) -> None:
    settings = Path(ivy_settings) if ivy_settings else scratch / "ivysettings.xml"
    if not ivy_settings:
        cache = quoteattr(str(cache_folder() / "ivy"))
        settings.write_text(
            f'<ivysettings><caches defaultCacheDir={cache}/><settings defaultResolver="central"/>'
            '<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>'
        )
    (scratch / "ivy.xml").write_text(_ivy_module(group))
    (ivy,) = spark_jars().glob("ivy-*.jar")
    command = [
        find_java().command, "-cp", str(ivy), "org.apache.ivy.Main", "-error",
        "-settings", str(settings), "-ivy", str(scratch / "ivy.xml"),
        "-types", "jar", "bundle",
        "-retrieve", f"{scratch}/jars/[organisation]_[artifact]-[revision](-[classifier]).[ext]",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode or not any((scratch / "jars").glob("*.jar")):
        logger.debug("Ivy said: %s%s", done.stdout, done.stderr)
        raise SettingsError(
            f"cannot fetch {', '.join(group)} from the Maven repository; check the network, or "
            "the mirror in spark_conf spark.jars.ivySettings, or name local files in spark_jars"
        )


def _ivy_module(group: tuple[str, ...]) -> str:
    known = [[quoteattr(part) for part in coordinate.split(":")] for coordinate in group]
    conf = "conf='default->compile,runtime,master'"
    dependencies = "".join(
        f"<dependency org={org} name={name} rev={rev} {conf}/>" for org, name, rev in known
    )
    # What Spark ships is never fetched a second time, in another version.
    asked = {coordinate.split(":")[1] for coordinate in group}
    shipped = {re.sub(r"-\d.*$", "", jar.stem) for jar in spark_jars().glob("*.jar")} - asked
    excludes = "".join(
        f"<exclude org='*' module={quoteattr(name)} type='*' ext='*'/>"
        for name in sorted(shipped | {"bundle"})
    )
    # A version that is named here wins over the one that another package asks for.
    overrides = "".join(
        f"<override org={org} module={name} rev={rev}/>" for org, name, rev in known
    )
    return (
        '<ivy-module version="2.0"><info organisation="singer-spark" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{excludes}{overrides}</dependencies></ivy-module>"
    )


SUMS = "SHA256SUMS"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@cache
def known_jars() -> Mapping[str, Mapping[str, str]]:
    """Return the SHA-256 of each jar of the sets that we name ourselves."""
    path = Path(__file__).with_name("jars.json")
    known: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return known


def trusted_jars(group: tuple[str, ...], folder: Path) -> list[Path]:
    """Return the jars of a set, as they were fetched; others in the folder are not used."""
    expected = known_jars().get(" ".join(group)) or read_sums(folder)
    for name, digest in expected.items():
        path = folder / name
        _check_writers(path)
        if sha256(path) != digest:
            raise SettingsError(
                f"the jar {path} is not the one that was published; remove the folder {folder}, "
                "so that it is fetched again, and find out who changed it"
            )
    return [folder / name for name in sorted(expected)]


def _is_there(group: tuple[str, ...], folder: Path) -> bool:
    """Say whether a set was fetched, and it is known what its jars must be."""
    return folder.is_dir() and (" ".join(group) in known_jars() or (folder / SUMS).is_file())


def note_sums(folder: Path) -> None:
    """Note what was fetched, and let nobody else change it."""
    jars = sorted(folder.glob("*.jar"))
    for path in jars:
        path.chmod(path.stat().st_mode & ~_OTHERS_WRITE)
    lines = [f"{sha256(path)}  {path.name}\n" for path in jars]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")
    for path in (folder / SUMS, folder):
        path.chmod(path.stat().st_mode & ~_OTHERS_WRITE)


def read_sums(folder: Path) -> dict[str, str]:
    """Read what `note_sums` noted; names that lead out of the folder are refused."""
    found = {}
    _check_writers(folder / SUMS)
    for line in (folder / SUMS).read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        if name != Path(name).name or not name.endswith(".jar"):
            raise SettingsError(f"{folder / SUMS} is damaged; remove the folder {folder}")
        found[name] = digest
    return found


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except AttributeError:  # Python 3.10
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _check_writers(path: Path) -> None:
    try:
        known = path.stat()
    except OSError:
        return
    if known.st_uid not in (os.getuid(), 0):
        raise SettingsError(
            f"{path} holds code that Spark loads, and belongs to another user; set "
            "SINGER_SPARK_CACHE to a folder of your own"
        )
    if known.st_mode & _OTHERS_WRITE:
        raise SettingsError(
            f"{path} holds code that Spark loads, and other users may write to it; run "
            f"chmod -R go-w {path}, or set SINGER_SPARK_CACHE to a folder of your own"
        )
