"""The processes of one run: threads report events, the main thread decides.

Whatever ends the block of `Children` (an error, a signal, a time limit, a run in which nothing
moves), no process outlives it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, final

from singer_spark.errors import SingerSparkError, TransientError
from singer_spark.figures import format_duration
from singer_spark.runner.process import Child, Command, pass_values

LOOK_SECONDS = 10.0  # at most so much of the time between two looks counts


@final
class Stall:
    """A clock that runs while nothing moves; without a limit it ends nothing."""

    def __init__(self, limit: float | None, report_file: Path) -> None:
        self.waits_for: Callable[[], str] = lambda: "its first process"
        self._limit = limit
        self._report_file = report_file
        self._moves = 0
        self._seen = (0, 0)
        self._still = 0.0  # seconds
        self._looked = time.monotonic()

    def moved(self) -> None:
        """Note that something moved; any thread may."""
        self._moves += 1

    def check(self) -> None:
        """Raise an error once nothing has moved for the limit.

        A runner that was stopped itself, with its machine or by a signal, has missed what moved
        meanwhile: of a long time between two looks only a part counts.
        """
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, LOOK_SECONDS), now
        seen = (self._moves, self._report_size())
        self._still = self._still + passed if seen == self._seen else 0.0
        self._seen = seen
        if self._limit and self._still >= self._limit:
            raise TransientError(
                f"nothing moved for {format_duration(self._limit)} (stall_timeout) while the run "
                f"waited for {self.waits_for()}; the stored state is unchanged. See what holds it "
                "up, then run again, or raise stall_timeout"
            )

    def _report_size(self) -> int:
        try:
            return self._report_file.stat().st_size
        except OSError:
            return 0


GRACE_SECONDS = 10.0  # between SIGTERM and SIGKILL


class ChildError(SingerSparkError):
    """A tap or target failed. Its own log says why; the exit code is its own."""

    def __init__(self, child: Child) -> None:
        self._child, code = child, child.code
        how = f"was ended by signal {code - 128}" if code > 128 else f"failed with exit code {code}"
        self._what = f"{child.name} {how}"
        super().__init__(f"{self._what}; its log above says why. The stored state is unchanged")
        vars(self)["exit_code"] = code  # click reads the instance's; the class's is a constant

    @property
    def record(self) -> str:
        """The line for those who do not see the log."""
        reason = self._child.reason
        return f"{self._what}: {reason}" if reason else self._what


class StoppedError(SingerSparkError):
    """Someone stopped the run. Safe to run again."""

    def __init__(self, signum: int, again: str) -> None:
        name = signal.Signals(signum).name
        super().__init__(
            f"stopped by {name}; the processes were ended, and the state is that of the last run "
            f"that succeeded; {again}"
        )
        vars(self)["exit_code"] = 128 + signum


@dataclass(frozen=True, slots=True)
class Exited:
    """A child has ended."""

    child: Child


@dataclass(frozen=True, slots=True)
class Drained:
    """All that the tap wrote has been forwarded, or the target stopped reading (`lost`)."""

    lost: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The run must end with this error."""

    error: SingerSparkError


Event: TypeAlias = Exited | Drained | Failed
Events: TypeAlias = "SimpleQueue[Event]"


class Children:
    """The processes of one run, ended when the block is left, the first started first."""

    def __init__(
        self,
        events: Events,
        *,
        timeout: float | None = None,
        stall: Stall | None = None,
        quiet: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.events = events
        self.stall = stall or Stall(None, Path(os.devnull))
        self._quiet = quiet or nullcontext()
        self._timeout = timeout
        self._until = time.monotonic() + (timeout or 0)
        self._children: list[Child] = []

    @property
    def alive(self) -> tuple[Child, ...]:
        """The processes that have not been ended yet."""
        return tuple(self._children)

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end(*self._children)

    def start(
        self, command: Command, *arguments: str, env: Mapping[str, str], **pipes: Any
    ) -> Child:
        """Start a command; watch it once its neighbours are started too."""
        # Forking while another thread works is unsafe; the heartbeat waits for us, and we for it.
        with pass_values(command) as (argv, descriptors), self._quiet:
            argv = (*argv, *arguments)
            child = Child(command.name, argv, env=env, pass_fds=descriptors, **pipes)
        self._children.append(child)
        return child

    def watch(self, *children: Child) -> None:
        """Begin to watch; not before, because forking once threads have started is unsafe."""
        for child in children:
            child.watch(lambda ended: self.events.put(Exited(ended)))

    def next_event(self, seconds: float) -> Exited | Drained | None:
        """Wait for what happens next; None after so many seconds."""
        if self._timeout:
            seconds = min(seconds, self._until - time.monotonic())
        try:
            event = self.events.get(timeout=max(0.0, seconds))
        except Empty:
            if self._timeout and time.monotonic() >= self._until:
                raise TransientError(
                    f"ended after the timeout of {format_duration(self._timeout)}; the stored "
                    "state is unchanged. Run again, or raise timeout"
                ) from None
            self.stall.check()
            return None
        if isinstance(event, Failed):
            raise event.error
        return event

    def await_success(self, child: Child, wanted: str) -> None:
        """Watch a command to its end, which must be a good one."""
        self.stall.waits_for = lambda: f"{wanted} of {child.name}"
        self.stall.moved()
        self.watch(child)
        while not isinstance(self.next_event(1.0), Exited):
            pass
        self.end(child)
        if child.code:
            raise ChildError(child)

    def end(self, *children: Child) -> None:
        """End children and all that they started: ask, wait, kill. A second signal hurries."""
        for child in children:
            child.send(signal.SIGTERM)
        self.watch(*children)
        until = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < until and not all(child.exited.is_set() for child in children):
            with suppress(Empty):
                event = self.events.get(timeout=0.1)
                if isinstance(event, Failed):
                    # Whoever looks next must still learn of it.
                    self.events.put(event)
                    break
        for child in children:
            if child.exited.is_set():
                child.join(max(0.0, until - time.monotonic()))
            child.reap()
            self._children.remove(child)


class _Catcher:
    """A handler that turns signals into events, its own and those of a block around."""

    def __init__(self, events: Events, outer: Any, again: str) -> None:
        self._events = events
        self._outer = outer
        self._again = again

    def __call__(self, signum: int, frame: object) -> None:
        self._events.put(Failed(StoppedError(signum, self._again)))
        if isinstance(self._outer, _Catcher):
            self._outer(signum, frame)


@contextmanager
def caught_signals(events: Events, again: str = "start it again") -> Iterator[None]:
    """Turn the signals that end a program into events, except where they are ignored (nohup).

    The error of such an event says how to do it `again`.

    Blocks may be nested; a signal is an event of each. A block that StoppedError ends leaves the
    signals ignored: on the way out another one must not change the exit code.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.getsignal(n) for n in wanted if signal.getsignal(n) != signal.SIG_IGN}
    for signum, handler in before.items():
        signal.signal(signum, _Catcher(events, handler, again))
    after = before
    try:
        yield
    except StoppedError:
        after = dict.fromkeys(before, signal.SIG_IGN)
        raise
    finally:
        for signum, handler in after.items():
            signal.signal(signum, handler)


def refuse_to_go_on(events: Events) -> None:
    """Raise what ends the run, if it has happened already."""
    with suppress(Empty):
        while True:
            event = events.get_nowait()
            if isinstance(event, Failed):
                raise event.error
