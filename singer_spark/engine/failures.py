"""Why Spark did not start or has ended: one line, and whether another try may help.

What mends by itself is a TransientError. What somebody has to change first is a SettingsError.
"""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from typing import Any

from singer_spark.causes import innermost_cause, is_unreachable
from singer_spark.errors import SettingsError, SingerSparkError, TransientError

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
    """Explain a Java that did not get as far as Spark.

    Args:
        code: How it ended; None if it is still there and says nothing.
        said: What it wrote.
    """
    reason = f"Spark did not start: {_telling_line(said)}"
    if code is not None and code > 0 and not _NO_ROOM.search(said):
        return SettingsError(
            f"{reason}; correct spark.driver.memory and spark.driver.extraJavaOptions in "
            "spark_conf, or install another Java"
        )
    return TransientError(reason)


def failed_start(error: BaseException) -> SingerSparkError:
    """Explain an error that Spark met while it started."""
    text, reason = str(error), f"Spark did not start: {_said_by(error)}"
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


def _said_by(error: BaseException) -> str:
    """Return the innermost of Java's reasons, or what Python says."""
    return innermost_cause(error) if hasattr(error, "java_exception") else first_line(error)


def _telling_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(_NOISE)]
    errors = [line for line in lines if "warning" not in line.lower()]
    return next(iter(errors or lines), "Java said nothing")
