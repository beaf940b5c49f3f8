"""Java: which one, its command line, and its archives of classes.

The command line is a file that only this user can read: arguments stand in the list of processes.
An archive holds classes that Java has loaded and checked before, and makes a start faster. Java
itself refuses one of another Java or of other jars. One that was cut or damaged it may not notice,
so the name of each says what is in it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from singer_spark.errors import SettingsError

GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
_OLDEST = 17
_ASKS_FOR_NATIVE = 24
_INSTALL = "install a Java runtime 17 or newer (such as openjdk-17-jre-headless or Temurin 17)"
# What Spark itself opens of Java's modules, as its launcher does.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    # Delta verifies every commit anew where Java's zone is another than Spark's.
    "-Duser.timezone=UTC",
    "-Dfile.encoding=UTF-8",
    "-XX:+ExitOnOutOfMemoryError",
    # Oracle's driver reads these here alone; a server that is silent must not keep a run.
    "-Doracle.net.CONNECT_TIMEOUT=30000",
    "-Doracle.jdbc.ReadTimeout=1800000",
    # Spark's generated code for a wide row is one huge method, which Java would only interpret:
    # twice as slow at nine columns.
    "-XX:-DontCompileHugeMethods",
    # A short run compiles more than it runs. The second compiler waits for what is really hot: a
    # third less CPU for a small run, and no more time for millions of rows.
    "-XX:Tier4InvocationThreshold=500000",
    "-XX:Tier4MinInvocationThreshold=60000",
    "-XX:Tier4CompileThreshold=1500000",
    "-XX:Tier4BackEdgeThreshold=4000000",
    "-XX:ReservedCodeCacheSize=512m",
)
OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_NATIVE = ("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow")


class Java(NamedTuple):
    """A Java runtime: its command, and its version."""

    command: str
    version: str

    @property
    def major(self) -> int:
        """Return the number by which Java counts its releases, 0 for one that does not work."""
        first, _, rest = self.version.partition(".")
        number = rest.partition(".")[0] if first == "1" else first
        found = re.match(r"\d+", number)
        return int(found[0]) if found else 0


def find_java() -> Java:
    """Return the machine's Java, or explain what to install."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if not command:
        where = f"JAVA_HOME ({home})" if home else "the PATH"
        raise SettingsError(f"Java is missing: no java in {where}; {_INSTALL}")
    java = Java(command, _version(command))
    if java.major < _OLDEST:
        found = f"Java {java.major}" if java.major else "no working Java"
        raise SettingsError(f"Java is too old: {command} is {found}; {_INSTALL}")
    return java


def _version(command: str) -> str:
    """Read a Java's version from the file beside it; to ask Java itself takes longer."""
    release = Path(command).resolve().parent.parent / "release"
    with suppress(OSError):
        if noted := re.search(r'^JAVA_VERSION="(.+)"', release.read_text(), re.MULTILINE):
            return noted[1]
    try:
        asked = subprocess.run(  # noqa: S603
            [command, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except subprocess.TimeoutExpired:
        return ""
    said = re.search(r'version "(.+?)"', asked.stderr)
    return said[1] if said else ""


def arguments(
    java: Java, class_path: Sequence[str], conf: Mapping[str, str], options: Sequence[str]
) -> list[str]:
    """Write the arguments of a JVM that waits for its keeper's commands."""
    return [
        *_OPTIONS,
        *(_NATIVE if java.major >= _ASKS_FOR_NATIVE else ()),
        *options,
        *(f"-D{key}={value}" for key, value in conf.items()),
        "-cp",
        os.pathsep.join(class_path),
        GATEWAY,
    ]


def options_of_environment(environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the options that Java would take from variables: before the others, and after them.

    Java repeats such variables in its log, passwords among them, so that it gets them as arguments.
    """
    first = [*_options(environ, "JAVA_TOOL_OPTIONS"), *_options(environ, "JDK_JAVA_OPTIONS")]
    return first, _options(environ, "_JAVA_OPTIONS")


def _options(environ: Mapping[str, str], name: str) -> list[str]:
    words = shlex.shlex(environ.get(name, ""), posix=True, punctuation_chars=False)
    words.whitespace_split, words.escape, words.commenters = True, "", ""
    try:
        return list(words)
    except ValueError as error:
        raise SettingsError(f"{name}: a quotation mark is not closed; correct it") from error


def argument_file(arguments: Sequence[str]) -> str:
    """Write arguments as java reads them from a file: one a line, quoted."""
    return "".join(f'"{argument.translate(_ESCAPES)}"\n' for argument in arguments)


_KEPT = 6
_KEPT_SECONDS = 30 * 86400
_STILLBORN_SECONDS = 3600
_SAMPLES, _SAMPLE_BYTES = 64, 4096


class Archive(NamedTuple):
    """The archive of one Java and one class path, in a folder of archives."""

    folder: Path
    key: str

    @classmethod
    def of(cls, java: Java, class_path: Sequence[str], folder: Path) -> Archive:
        """Name the archive of a class path."""
        content = "\0".join([java.command, java.version, *map(_stamp, class_path)])
        return cls(folder, hashlib.sha256(content.encode()).hexdigest()[:16])

    @property
    def path(self) -> Path | None:
        """Return the archive, None if there is none; one that was changed is removed."""
        for path in self.folder.glob(f"{self.key}-*.jsa"):
            with suppress(OSError):
                if path.name == self._name(path):
                    return path
                path.unlink()
        return None

    def options(self, engine: str) -> list[str]:
        """Return Java's options: to use the archive, or to make one at an orderly end."""
        silent = ["-Xshare:auto", "-Xlog:disable"]
        path = self.path
        if path is not None:
            with suppress(OSError):
                os.utime(path)  # those that are used are kept
            return [f"-XX:SharedArchiveFile={path}", *silent]
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return [f"-XX:ArchiveClassesAtExit={self._made(engine)}", *silent]
        return silent

    def keep(self, engine: str) -> None:
        """Keep the archive that the Java of an engine has made, if it did, and few others."""
        made = self._made(engine)
        with suppress(OSError):
            if made.is_file() and self.path is None:
                made.chmod(0o600)
                with made.open("rb") as file:
                    os.fsync(file.fileno())
                made.replace(self.folder / self._name(made))
        self.drop_made(engine)
        self._prune()

    def drop_made(self, engine: str) -> None:
        """Remove what the Java of an engine has begun to make."""
        with suppress(OSError):
            self._made(engine).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the archive, which Java did not survive."""
        with suppress(OSError):
            for path in self.folder.glob(f"{self.key}-*.jsa"):
                path.unlink(missing_ok=True)

    def _made(self, engine: str) -> Path:
        return self.folder / f"{engine}.new"

    def _name(self, path: Path) -> str:
        return f"{self.key}-{_digest(path)}.jsa"

    def _prune(self) -> None:
        """Remove what was not used for long, beyond a few, and what killed engines began."""
        now = time.time()
        with suppress(OSError):
            ages = {path: now - path.stat().st_mtime for path in self.folder.iterdir()}
            done = sorted((path for path in ages if path.suffix != ".new"), key=ages.__getitem__)
            for path, age in ages.items():
                kept = _STILLBORN_SECONDS if path.suffix == ".new" else _KEPT_SECONDS
                if age > kept or path in done[_KEPT:]:
                    path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    """Sum up a file by its size and parts of it from everywhere: it has hundreds of megabytes."""
    size = path.stat().st_size
    known = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for place in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * place // (_SAMPLES - 1))
            known.update(file.read(_SAMPLE_BYTES))
    return known.hexdigest()[:16]


def _stamp(jar: str) -> str:
    """Tell a jar from another of the same name, by what Java compares as well."""
    try:
        known = Path(jar).stat()
    except OSError:
        return jar
    return f"{jar} {known.st_size} {known.st_mtime_ns}"
