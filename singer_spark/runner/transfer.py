"""One transfer: the tap's messages to the target, the target's states back.

The runner holds the write end of the target's input and closes it only after the tap exited 0,
so that end of input means success. It also holds the read end of the tap's output to the last,
so that neither side fails by losing its pipe: the first to fail is the one at fault.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any

import msgspec

from singer_spark import exact_json
from singer_spark.errors import ProtocolError, SingerSparkError
from singer_spark.runner import supervisor
from singer_spark.runner.meter import Meter
from singer_spark.runner.process import Child, Command
from singer_spark.runner.streams import StreamCounts
from singer_spark.runner.supervisor import ChildError, Children, Drained, Exited, Failed

BLOCK_BYTES = 256 * 2**10
PIPE_BYTES = 2**20  # what Linux allows everyone
_STATE = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Transfer:
    """A tap and a target joined once; what is measured, and the last state, outlive a failure."""

    def __init__(self, children: Children, meter: Meter) -> None:
        self.children = children
        self.meter = meter
        self.ended_with_empty_state = False
        self.on_source: Callable[[Mapping[str, Any]], None] | None = None  # before its first row
        self._state_line: bytes | None = None
        self._spoiled: SingerSparkError | None = None
        self._torn: SingerSparkError | None = None
        self._waits_since: float | None = None  # for the tap to write
        self._swept_at: float | None = None  # what the tap left behind
        self._is_drained = False

    @property
    def last_state(self) -> dict[str, Any] | None:
        """The last state that the target has committed to; an empty one counts as none."""
        try:
            if self._state_line is None:
                return None
            return dict(exact_json.loads(self._state_line, most=exact_json.STATE_LEVELS))
        except ValueError:
            return None  # a number or a depth beyond all reason, which `run` has reported

    def run(self, tap_command: Command, target_command: Command, env: Mapping[str, str]) -> None:
        """Run both commands to their ends; any failure is an error."""
        target = self._start(target_command, env, stdin=subprocess.PIPE)
        tap = self._start(tap_command, env, stdin=subprocess.DEVNULL)
        source, sink, states = tap.process.stdout, target.process.stdin, target.process.stdout
        self.meter.tap_started()
        self.children.stall.waits_for = lambda: self._waits_for(tap.name, target.name)
        self.children.stall.moved()
        _widen(source, sink)
        self.children.watch(target, tap)
        target.read_with(self._read_states, target.name, states)
        tap.read_with(self._pump, source, sink)
        self._await_tap(tap, target)
        if sink:
            sink.close()
        self._await_target(target)
        self.children.end(target, tap)
        if self._state_line is not None and self.last_state is None:
            raise _no_state(target.name)
        if error := self._spoiled or self._torn:
            raise error
        self.meter.show()

    def _start(self, command: Command, env: Mapping[str, str], stdin: int) -> Child:
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE}
        return self.children.start(command, env=env, **pipes)

    def _await_tap(self, tap: Child, target: Child) -> None:
        ended = drained = False
        while not (ended and drained):
            event = self._next_event(leftovers_of=tap if ended else None)
            if isinstance(event, Drained):
                drained = True
                if event.lost:
                    target.exited.wait(supervisor.GRACE_SECONDS)
                    raise _early_end(target)
            elif event.child is target:
                raise _early_end(target)
            elif tap.code:
                raise ChildError(tap)
            else:
                ended = True

    def _await_target(self, target: Child) -> None:
        while not target.exited.is_set():
            self._next_event()
        if target.code:
            raise ChildError(target)

    def _next_event(self, leftovers_of: Child | None = None) -> Exited | Drained:
        while (event := self.children.next_event(self.meter.tick_seconds)) is None:
            self.meter.tick(self.children)
            if leftovers_of and self._is_silent(supervisor.GRACE_SECONDS):
                self._end_leftovers(leftovers_of)
        return event

    def _is_silent(self, seconds: float) -> bool:
        since = self._waits_since
        return since is not None and time.monotonic() - since > seconds

    def _end_leftovers(self, tap: Child) -> None:
        """End what a tap left behind that holds its output open and writes nothing."""
        if self._swept_at is None:
            self._swept_at = time.monotonic()
            tap.send(signal.SIGTERM)
        elif time.monotonic() - self._swept_at > supervisor.GRACE_SECONDS:
            raise ProtocolError(
                f"{tap.name} ended, but a process that it started keeps its standard output open; "
                "see that the tap ends what it starts. The stored state is unchanged"
            )

    def _pump(self, source: IO[bytes], sink: IO[bytes]) -> None:
        """Forward whole blocks; counting comes after, so that the target never waits for it."""
        lost = True
        try:
            while block := self._read(source):
                self.children.stall.moved()
                self._note_source()
                _write_all(sink.fileno(), block)
                self.children.stall.moved()
                self.meter.count(block)
            self._is_drained = True
            self.meter.tap_ended()
            lost = False
        except (BrokenPipeError, ValueError):
            pass  # the target has ended, or its input was closed because the tap has failed
        except SingerSparkError as error:
            self.children.events.put(Failed(error))
        finally:
            self.children.events.put(Drained(lost))

    def _note_source(self) -> None:
        """Have the source noted that the tap names before its first SCHEMA, once it does."""
        if self.on_source and (source := self.meter.facts.find_source()):
            self.on_source(source)
            self.on_source = None

    def _read(self, source: IO[bytes]) -> bytes:
        self._waits_since = time.monotonic()
        block = os.read(source.fileno(), BLOCK_BYTES)
        self._waits_since = None
        return block

    def _waits_for(self, tap: str, target: str) -> str:
        """Say, for those who must find out why, what would have had to happen next."""
        self.meter.refresh()
        if self._waits_since is not None and not self._is_drained:
            which = "next" if self.meter.moved_bytes else "first"
            return f"the {which} message of {tap}" + self._busy(tap)
        pending = _uncommitted(self.meter.streams)
        wanted = "to end" if self._is_drained else "to read on"
        commit = f", with rows of {', '.join(pending)} to commit" if pending else ""
        return f"{target} {wanted}{commit}{self._busy(target)}"

    def _busy(self, name: str) -> str:
        doing = self.meter.facts.doing.get(name)
        return f" (busy with {doing})" if doing else ""

    def _read_states(self, name: str, states: IO[bytes]) -> None:
        for line in states:
            self.children.stall.moved()
            if not line.strip():
                continue
            try:
                state = _STATE.decode(line.decode())
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                if line.endswith(b"\n"):
                    self._spoiled = _no_state(name)
                    self.children.events.put(Failed(self._spoiled))
                else:
                    # A target that is killed in the middle of a line is judged by its end.
                    self._torn = _no_state(name)
                continue
            self.ended_with_empty_state = not _has_bookmarks(state)
            if _has_bookmarks(state):
                self._state_line = line


def _uncommitted(streams: Mapping[str, StreamCounts]) -> list[str]:
    """List the streams of which the target has not yet accounted for all that was sent."""
    return [
        name
        for name, facts in streams.items()
        if facts.records and facts.records > (facts.loaded or 0) + (facts.quarantined or 0)
    ]


def _has_bookmarks(state: Mapping[str, msgspec.Raw]) -> bool:
    """Say whether a state has a bookmark at all; one without would forget all there are."""
    bookmarks = bytes(state.get("bookmarks", b""))
    return bool(set(state) - {"bookmarks"}) or bookmarks not in (b"", b"{}", b"null")


def _no_state(name: str) -> ProtocolError:
    return ProtocolError(
        f"{name} wrote a line to its standard output that is no STATE value; the stored state is "
        "unchanged; let it write its logs to standard error, then run again: singer-spark run"
    )


def _early_end(target: Child) -> SingerSparkError:
    if target.exited.is_set() and target.code:
        return ChildError(target)
    return ProtocolError(
        f"{target.name} stopped reading before the tap had finished, yet reported no error; the "
        "stored state is unchanged; see its log above, then run again: singer-spark run"
    )


def _write_all(descriptor: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[os.write(descriptor, view) :]


def _widen(*pipes: IO[bytes] | None) -> None:
    """Enlarge pipes where the system can: fewer and larger hand-overs between the processes."""
    if sys.platform == "linux":
        for pipe in pipes:
            with suppress(OSError):
                fcntl.fcntl(pipe or -1, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
