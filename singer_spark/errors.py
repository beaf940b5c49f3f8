"""Every error a user can meet, by what the operator does next.

    SingerSparkError      1   root: one line on standard error, no traceback
      SettingsError      78   edit the settings; lists every problem at once
      SourceError        69   the source, a driver or a grant is missing; fix access
      ProtocolError      76   messages out of order or not JSON; look at the tap
      DataError          65   root of what concerns the data itself
        SchemaError      65   a type or a change of schema cannot be carried
        RecordError      65   a record does not fit its schema or its table
      StateError         74   state cannot be read or stored
      TransientError     75   safe to run again unchanged; the only one that is retried

The numbers are those of sysexits(3). A message says what, where and what to do next.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable
from typing import IO, Any, ClassVar

import click
from typing_extensions import override

from singer_spark.secrets import mask
from singer_spark.text import printable

EXIT_SIGINT = 130
EXIT_SIGTERM = 143


class SingerSparkError(click.ClickException):
    """Something went wrong that the message explains."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        super().__init__(printable(" ".join(message.split())))

    @override
    def show(self, file: IO[Any] | None = None) -> None:
        """Print the one line; the traceback is for those who asked for debug logs."""
        click.echo(f"Error: {mask(self.format_message())}", file=file or sys.stderr)
        logging.getLogger("singer_spark").debug("Traceback of the error above", exc_info=self)


class SettingsError(SingerSparkError):
    """The settings contradict themselves or the machine. Edit them and run again."""

    exit_code: ClassVar[int] = 78

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))


class SourceError(SingerSparkError):
    """The source, its driver or a grant is missing. Fix access, or discover again."""

    exit_code: ClassVar[int] = 69


class ProtocolError(SingerSparkError):
    """The messages are not a Singer stream. Look at the tap upstream."""

    exit_code: ClassVar[int] = 76


class DataError(SingerSparkError):
    """The data itself is the problem."""

    exit_code: ClassVar[int] = 65


class SchemaError(DataError):
    """A type cannot be carried, or a change would lose data. Decide on the column."""


class RecordError(DataError):
    """A record does not fit. Fix the data, or divert it with on_invalid_record."""


class StateError(SingerSparkError):
    """State cannot be read or stored. Inspect it with `singer-spark state get`."""

    exit_code: ClassVar[int] = 74


class TransientError(SingerSparkError):
    """A conflict or a lost connection. Safe to run again unchanged."""

    exit_code: ClassVar[int] = 75


_UNREACHABLE = re.compile(
    r"Connection (?:refused|reset|timed out)|Connect(?:ion)? timed out|Read timed out"
    r"|UnknownHost|Unable to execute HTTP request|Service Unavailable|SlowDown"
    r"|StatusCode.UNAVAILABLE|failed to connect to all addresses"
)


def innermost_cause(error: BaseException) -> str:
    """Return the message of the innermost cause, which names the actual trouble."""
    texts = [str(error)]
    cause = getattr(error, "_cause", None) or error.__cause__
    while cause is not None:
        texts.append(str(cause))
        cause = getattr(cause, "_cause", None) or cause.__cause__
    causes = re.findall(r"^(?:Caused by|): ([\w.$]+): *(.*)$", "\n".join(texts), re.MULTILINE)
    for kind, text in reversed(causes):
        if text.strip():
            return f"{text.strip()} [{kind}]" if "NotFound" in kind else text.strip()
    first = [text.partition("JVM stacktrace:")[0].strip() for text in texts]
    return " ".join(next((text for text in reversed(first) if text), "no reason given").split())


def is_unreachable(reason: str) -> bool:
    """Say whether something did not answer, which it may do at another time."""
    return _UNREACHABLE.search(reason) is not None
