"""Values for a child in files that have no name, so that none can be left behind.

A child inherits such a file open and finds it at /dev/fd/N; it may read it as often as it likes.
The kernel removes it with the last process that has it open, however that process ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from singer_spark import exact_json

FIRST = 3  # the lowest descriptor that is nobody's standard input, output or error


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, the name that its log lines carry, and values that it reads from files."""

    name: str
    argv: tuple[str, ...]
    values: tuple[tuple[str, Mapping[str, Any]], ...] = field(default=(), repr=False)

    def given(self, option: str, value: Mapping[str, Any]) -> Command:
        """Return the command with one more option, whose value no argument shows."""
        return replace(self, values=(*self.values, (option, value)))


class Handover(NamedTuple):
    """What starts a command: its arguments, and the open files that these name."""

    argv: tuple[str, ...]
    descriptors: tuple[int, ...]


@contextmanager
def handed_over(command: Command) -> Iterator[Handover]:
    """Write a command's values into files without a name, open until its process has started."""
    with ExitStack() as files:
        argv, descriptors = command.argv, []
        for option, value in command.values:
            # Without a name before the first byte is written.
            file = files.enter_context(TemporaryFile())
            file.write(exact_json.dumps(value).encode())
            file.seek(0)
            # Not one of the first three, which a caller may have closed: a child has its own there.
            descriptor = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, FIRST)
            files.callback(os.close, descriptor)
            descriptors.append(descriptor)
            argv = (*argv, option, f"/dev/fd/{descriptor}")
        yield Handover(argv, tuple(descriptors))
