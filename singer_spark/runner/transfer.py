"""One transfer: the tap's messages to the target, the target's states back.

The runner holds the write end of the target's input and closes it only after the tap exited 0,
so that end of input means success. It also holds the read end of the tap's output to the last,
so that neither side fails by losing its pipe: the first to fail is the one at fault.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import msgspec

from singer_spark.errors import ProtocolError, SingerSparkError
from singer_spark.runner import supervisor
from singer_spark.runner.meter import Meter
from singer_spark.runner.process import Child
from singer_spark.runner.supervisor import ChildError, Children, Drained, Exited, Failed

BLOCK_BYTES = 256 * 2**10
PIPE_BYTES = 2**20  # what Linux allows everyone
_STATE = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Command:
    """A command line and the name that its log lines carry."""

    name: str
    argv: tuple[str, ...]


class Transfer:
    """A tap and a target joined once; what is measured, and the last state, outlive a failure."""

    def __init__(self, children: Children, meter: Meter) -> None:
        self.children = children
        self.meter = meter
        self._state_line: bytes | None = None
        self._spoiled: SingerSparkError | None = None

    @property
    def last_state(self) -> dict[str, Any] | None:
        """The last state that the target has committed to."""
        return None if self._state_line is None else dict(json.loads(self._state_line))

    def run(self, tap_command: Command, target_command: Command, env: Mapping[str, str]) -> None:
        """Run both commands to their ends; any failure is an error."""
        target = self._start(target_command, env, stdin=subprocess.PIPE)
        tap = self._start(tap_command, env, stdin=subprocess.DEVNULL)
        source, sink, states = tap.process.stdout, target.process.stdin, target.process.stdout
        self.meter.tap_started()
        _widen(source, sink)
        self.children.watch(target, tap)
        target.read_with(self._read_states, target.name, states)
        tap.read_with(self._pump, source, sink)
        self._await_tap(tap, target)
        if sink:
            sink.close()
        self._await_target(target)
        self.children.end(target, tap)
        if self._spoiled:
            raise self._spoiled
        self.meter.show()

    def _start(self, command: Command, env: Mapping[str, str], stdin: int) -> Child:
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE}
        return self.children.start(command.name, command.argv, env=env, **pipes)

    def _await_tap(self, tap: Child, target: Child) -> None:
        ended = drained = False
        while not (ended and drained):
            event = self._next_event()
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

    def _next_event(self) -> Exited | Drained:
        while (event := self.children.next_event(self.meter.tick_seconds)) is None:
            self.meter.tick(self.children)
        return event

    def _pump(self, source: IO[bytes], sink: IO[bytes]) -> None:
        """Forward whole blocks; counting comes after, so that the target never waits for it."""
        lost = True
        try:
            while block := os.read(source.fileno(), BLOCK_BYTES):
                _write_all(sink.fileno(), block)
                self.meter.count(block)
            self.meter.tap_ended()
            lost = False
        except BrokenPipeError:
            pass
        finally:
            self.children.events.put(Drained(lost))

    def _read_states(self, name: str, states: IO[bytes]) -> None:
        for line in states:
            if not line.strip():
                continue
            try:
                _STATE.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self._spoiled = ProtocolError(
                    f"{name} wrote a line to its standard output that is no STATE value; "
                    "only states belong there, logs go to standard error"
                )
                self.children.events.put(Failed(self._spoiled))
            else:
                self._state_line = line


def _early_end(target: Child) -> SingerSparkError:
    if target.exited.is_set() and target.code:
        return ChildError(target)
    return ProtocolError(
        f"{target.name} stopped reading before the tap had finished, yet reported no error; "
        "the stored state is unchanged"
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
