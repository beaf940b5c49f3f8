"""State in files, for orchestrators that keep it themselves: no store, no lock, no history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

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


@dataclass(frozen=True, slots=True)
class StateFiles:
    """Where a run reads its state and where it leaves the new one; None is nowhere."""

    given: Path | None = None
    result: Path | None = None


@final
class FileBook:
    """State from a file into another, which is written after success only."""

    def __init__(self, files: StateFiles, record: RunRecord) -> None:
        self._given, self._result = files.given, files.result
        self._record = record
        self.state: Mapping[str, Any] = {}

    @property
    def quiet(self) -> AbstractContextManager[Any]:
        """There is no thread of ours."""
        return nullcontext()

    def read(self) -> None:
        """Read the state, once it is sure that the new one can be kept."""
        if self._result and (self._result.is_dir() or not self._result.parent.is_dir()):
            raise SettingsError(
                f"--state-out {self._result}: no file can be written there; "
                "name one in a folder that you may write to"
            )
        self.state = _read(self._given)
        self._record.state_before = self._record.state_after = self.state

    @property
    def belongs(self) -> Mapping[str, Any]:
        """Files do not know what the state belongs to."""
        return {}

    def resume(self) -> Checkpoint | None:
        """Files know of no failed run."""
        return None

    def attempts(self) -> Mapping[str, Attempt]:
        """Files know of no failed run."""
        return {}

    def begin(self, start: Start) -> Assignment:
        """Assign the run, which has neither lock nor memory."""
        return Assignment(
            run_id=self._record.run_id,
            pipeline=self._record.pipeline,
            reload=start.reload,
            begins=start.begins,
            rereads=not start.pipeline.incremental,
        )

    def note_source(self, source: Mapping[str, Any]) -> None:
        """Files keep no source."""

    def history(self) -> Sequence[Mapping[str, Any]]:
        """Files keep no history."""
        return ()

    def finish(
        self, watermark: Mapping[str, Any] | None, _found: Identities = NOTHING
    ) -> Mapping[str, Any]:
        """Write the final state; without one that which was given."""
        after = self.state if watermark is None else watermark
        if self._result:
            _write(self._result, after)
        self._record.state_after = after
        self._record.close()
        return after

    def fail(self, watermark: Mapping[str, Any] | None, found: Identities = NOTHING) -> None:
        """Leave the file alone: what stands there is still true."""


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
