"""Why Spark does not start, does not answer or has ended, and whether another try may help.

What mends by itself is a TransientError. What somebody has to change first is a SettingsError.
Servers are asked for a connection first: Spark's own clients would try for minutes.
"""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, final
from urllib.parse import urlsplit

from singer_spark.errors import (
    SettingsError,
    SingerSparkError,
    TransientError,
    innermost_cause,
    is_unreachable,
)

OUT_OF_MEMORY = "Spark ran out of memory; raise spark.driver.memory in spark_conf"
_OUT_OF_MEMORY_CODE = 3
# What a Java says that takes an option for an error, beside the error itself.
_NOISE = ("Error: Could not create the Java", "Error: A fatal exception", "Picked up ")
_NO_ROOM = re.compile(r"insufficient memory|Cannot allocate memory|No space left|Read-only file")
_PASSING = re.compile(
    r"^(?!\s+at ).*(java\.net\.\w+Exception|java\.io\.IOException|TimeoutException|unresponsive"
    r"|stopped SparkContext|OutOfMemoryError|Py4JNetworkError)",
    re.MULTILINE,
)
_SETTINGS = "correct spark_conf, spark_master or spark_jars"


def early_end(code: int | None, said: str) -> SingerSparkError:
    """Explain a Java that did not get as far as Spark; without a code it is still there."""
    reason = f"Spark did not start: {_telling_line(said)}"
    if code is not None and code > 0 and not _NO_ROOM.search(said):
        return SettingsError(
            f"{reason}; correct spark.driver.memory and spark.driver.extraJavaOptions in "
            "spark_conf, or install another Java"
        )
    return TransientError(reason)


def failed_start(error: BaseException) -> SingerSparkError:
    """Explain an error that Spark met while it started."""
    said = innermost_cause(error) if hasattr(error, "java_exception") else first_line(error)
    text, reason = str(error), f"Spark did not start: {said}"
    if _PASSING.search(text) or _NO_ROOM.search(text) or is_unreachable(text):
        return TransientError(reason)
    return SettingsError(f"{reason}; {_SETTINGS}")


def late_end(code: int) -> str:
    """Say how a Java ended that had Spark in it."""
    if code == _OUT_OF_MEMORY_CODE:
        return OUT_OF_MEMORY
    if code == -signal.SIGKILL:
        return "Spark's process was killed, by somebody or because the machine has no memory left"
    return f"Spark's process ended (code {code})"


def first_line(error: BaseException) -> str:
    """Return what an error says at first; of Java's, what Java says."""
    text = str(error)
    with suppress(Exception):  # Java may not answer any more
        known: Any = error
        text = str(known.java_exception.getMessage())
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def _telling_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(_NOISE)]
    errors = [line for line in lines if "warning" not in line.lower()]
    return next(iter(errors or lines), "Java said nothing")


_CONNECT_PORT, _MASTER_PORT = 15002, 7077
_SECONDS = 10.0


def check_remote(remote: str) -> None:
    """Say at once that the server of `spark_remote` does not answer."""
    url = urlsplit(remote)
    try:
        _dial(url.hostname, url.port or _CONNECT_PORT)
    except (OSError, ValueError) as error:
        raise TransientError(
            f"spark_remote: no Spark Connect server answers at {url.hostname} ({error}); "
            "start it, or correct the address"
        ) from error


def check_master(master: str) -> None:
    """Say at once that none of the masters of a standalone cluster answers."""
    scheme, _, hosts = master.partition("://")
    if scheme != "spark":
        return
    for host in hosts.split(","):
        url = urlsplit(f"spark://{host}")
        with suppress(OSError, ValueError):
            _dial(url.hostname, url.port or _MASTER_PORT)
            return
    raise TransientError(
        f"spark_master: no Spark master answers at {hosts}; start it, or correct the address"
    )


def _dial(host: str | None, port: int) -> None:
    socket.create_connection((host or "", port), timeout=_SECONDS).close()


_GARBAGE_SHARE = 0.95
_GARBAGE_LOOKS = 4


@final
class Vigil:
    """Looks again and again, and says why Spark has to be ended.

    Tasks may be silent for hours; Java itself answers in milliseconds as long as it lives. It is
    asked how long it has stood still to collect garbage.
    """

    def __init__(self, garbage_seconds: Callable[[], float]) -> None:
        self._garbage_seconds = garbage_seconds
        self._before: tuple[float, float] | None = None
        self._full_looks = 0

    def look(self) -> str | None:
        """Ask for a sign of life; a machine that slept in between is asked once more."""
        for _ in range(2):
            try:
                self._note(self._garbage_seconds())
            except Exception as error:  # noqa: BLE001 - whatever it is, that was no answer
                reason = f"Spark does not answer ({first_line(error)})"
            else:
                return OUT_OF_MEMORY if self._full_looks >= _GARBAGE_LOOKS else None
        return reason

    def _note(self, garbage: float) -> None:
        now = time.monotonic()
        if self._before is not None:
            then, collected = self._before
            is_full = garbage - collected >= _GARBAGE_SHARE * (now - then) > 0
            self._full_looks = self._full_looks + 1 if is_full else 0
        self._before = now, garbage
