"""How one run differs from the usual one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from singer_spark.errors import SettingsError
from singer_spark.runner.files import StateFiles


class Window(NamedTuple):
    """A range of replication keys, [start, end); None is open."""

    start: str | None
    end: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What was asked of a run.

    `full` starts afresh but keeps the old state until it succeeded, `resume` starts where a failed
    run got to, `refresh` starts some streams afresh, `window` reads a range again and leaves the
    state alone, and `files` stand for the store.
    """

    full: bool = False
    resume: bool = False
    refresh: tuple[str, ...] = ()
    window: Window | None = None
    files: StateFiles | None = None

    def check(self) -> None:
        """Refuse what contradicts itself."""
        given = {
            "--full": self.full,
            "--resume": self.resume,
            "--refresh": self.refresh,
            "--from/--to": self.window,
        }
        starts = [name for name, value in given.items() if value]
        if len(starts) > 1:
            raise SettingsError(f"{' and '.join(starts)} start in different ways; give one of them")
        if self.resume and self.files:
            raise SettingsError(
                "--resume needs the state store; leave --state-in and --state-out out"
            )
