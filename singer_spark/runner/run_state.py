"""What a run needs of the place that keeps its state; and state in files, for orchestrators.

Files have no lock, no history, and no memory of runs that failed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from typing_extensions import override

from singer_spark import exact_json
from singer_spark.assignment import Assignment, Attempt
from singer_spark.errors import SettingsError, StateError
from singer_spark.runner.identity import NOTHING, Identities
from singer_spark.runner.record import RunRecord
from singer_spark.state.change import parse_state
from singer_spark.state.store import Checkpoint
from singer_spark.storage.folder import replace_file

if TYPE_CHECKING:
    from singer_spark.runner.start import Start  # which knows the options, and they know the files


class KeptState(ABC):
    """The state that is kept between runs."""

    state: Mapping[str, Any] = {}  # what an incremental run starts from, once it is read
    belongs: Mapping[str, Any] = {}  # the source and the tables that it belongs to

    @abstractmethod
    def read(self) -> None:
        """Read the state; what cannot be read fails the run, which is recorded then."""

    def resume(self) -> Checkpoint | None:
        """Read how far a failed run got; None where there is none."""
        return None

    def attempts(self) -> Mapping[str, Attempt]:
        """Name the runs that have not succeeded since the state was stored."""
        return {}


class RunState(KeptState):
    """What a run needs of the place that keeps its state."""

    # Keeps our own threads still while processes are started.
    quiet: AbstractContextManager[Any] = nullcontext()

    @abstractmethod
    def begin(self, start: Start) -> Assignment:
        """Note how the run begins, before anything is started; gives what its processes know."""

    def note_source(self, source: Mapping[str, Any]) -> None:
        """Note the source of the run, before the target gets a row of it."""

    def history(self) -> Sequence[Mapping[str, Any]]:
        """Read the records of the last runs, as far as they are known."""
        return ()

    @abstractmethod
    def finish(
        self, watermark: Mapping[str, Any] | None, found: Identities = NOTHING
    ) -> Mapping[str, Any]:
        """Store the final state and give it back; without one the old stays."""

    def fail(self, watermark: Mapping[str, Any] | None, found: Identities = NOTHING) -> None:
        """Note that the run failed and what the target had committed to."""


@dataclass(frozen=True, slots=True)
class StateFiles:
    """Where a run reads its state and where it leaves the new one; None is nowhere."""

    given: Path | None = None
    result: Path | None = None


@final
class StateInFiles(RunState):
    """State from a file into another, which is written after success only."""

    def __init__(self, files: StateFiles, record: RunRecord) -> None:
        self._given, self._result = files.given, files.result
        self._record = record

    @override
    def read(self) -> None:
        # First, that the new state can be kept.
        if self._result and (self._result.is_dir() or not self._result.parent.is_dir()):
            raise SettingsError(
                f"--state-out {self._result}: no file can be written there; "
                "name one in a folder that you may write to"
            )
        self.state = _read(self._given)
        self._record.state_before = self._record.state_after = self.state

    @override
    def begin(self, start: Start) -> Assignment:
        return Assignment(
            run_id=self._record.run_id,
            pipeline=self._record.pipeline,
            reload=start.reload,
            begins=start.begins,
            rereads=not start.pipeline.incremental,
        )

    @override
    def finish(
        self, watermark: Mapping[str, Any] | None, found: Identities = NOTHING
    ) -> Mapping[str, Any]:
        after = self.state if watermark is None else watermark
        if self._result:
            _write(self._result, after)
        self._record.state_after = after
        self._record.close()
        return after


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return parse_state(path.read_bytes(), f"--state-in {path}")
    except OSError as error:
        raise SettingsError(
            f"--state-in {path}: {error.strerror}; leave it out where there is no state yet"
        ) from error


def _write(path: Path, state: Mapping[str, Any]) -> None:
    body = exact_json.dumps(state, indent=2).encode() + b"\n"
    try:
        # A device or a pipe must be written to, not replaced.
        if path.exists() and not path.is_file():
            path.write_bytes(body)
        else:
            replace_file(path, body)
    except OSError as error:
        raise StateError(
            f"--state-out {path}: {error.strerror}; the new state is not kept. Run again from the "
            "old one"
        ) from error
