"""Engines without Spark, for tests of those who only lend and borrow them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from singer_spark.engine import keeper, registry
from singer_spark.engine.keeper import Keeper
from singer_spark.scratch import remove_scratch


class FakeJvm:
    """Spark as the keeper sees it."""

    port, token = 15002, "token"
    starts_at_once = True

    def __init__(self, _spec, _folder, **_options):
        self.did = []
        self.dies = threading.Event()
        self.may_start = threading.Event()
        if self.starts_at_once:
            self.may_start.set()
        self.may_interrupt = threading.Event()
        self.may_interrupt.set()
        self.obeys = True
        self.hangs = False
        self.reason = "Spark's process ended (code 9)"

    def start(self):
        self.may_start.wait()

    def wait(self):
        self.dies.wait()
        return self.reason

    def garbage_seconds(self):
        if self.hangs:
            raise TimeoutError("timed out")
        return 0.0

    def work_done(self, _user):
        return 0

    def users(self):
        return set()

    def dismiss(self, user):
        self.may_interrupt.wait()
        self.did.append(("dismiss", user))
        return self.obeys

    def end(self, *, at_once):
        self.did.append(("end", at_once))


class _AnySpec:
    """Serves everybody."""

    conf = {"spark.master": "local[*]"}

    def misfit(self, _client):
        return None


@contextmanager
def fake_engine(monkeypatch) -> Iterator[str]:
    """Keep an engine that serves everybody and does nothing; yields its id."""
    with monkeypatch.context() as patch:
        patch.setattr(keeper, "Jvm", FakeJvm)
        folder = registry.make_engine_folder()
        kept = Keeper(_AnySpec(), 3600.0, folder)
    listening = keeper.listen(folder, is_shared=False)
    thread = threading.Thread(target=kept.run, args=(listening,), daemon=True)
    thread.start()
    yield folder.name
    kept.end()
    thread.join()
    remove_scratch(folder)
