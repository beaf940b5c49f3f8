"""Java: which one, and the command line of the JVM that Spark runs in.

The command line is a file that only this user can read: arguments stand in the list of processes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
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
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
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
    return "".join(f'"{_escaped(argument)}"\n' for argument in arguments)


def _escaped(argument: str) -> str:
    for sign, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        argument = argument.replace(sign, escape)
    return argument
