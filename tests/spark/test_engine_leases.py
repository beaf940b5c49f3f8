"""Leases of a real engine: what a client has running ends with it, and is seen while it works."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.errors import PySparkException

from singer_spark.engine import session
from singer_spark.engine.connect import EngineChannel, short_patience
from singer_spark.engine.jvm import Jvm
from singer_spark.engine.lease import hold
from singer_spark.engine.session import _opened
from singer_spark.engine.spec import Spec
from singer_spark.settings import SparkSettings
from tests.support.session import URLS, java

LONG = "select sum(hash(id)) from range(0, 400000000000, 1, 20000)"


@pytest.fixture
def jvm(spark):
    """The engine's Java, as its keeper sees it."""
    known = object.__new__(Jvm)
    known.gateway = java()
    return known


@pytest.fixture
def other(spark):
    """Another client of the same engine, as another process would be."""
    spec = Spec.of(SparkSettings.from_config({}), URLS)
    lease = hold(spec, session._lease.engine)
    assert lease.wait() is None
    yield lease
    lease.end()


def start(lease) -> tuple[threading.Thread, list[str]]:
    """Let a client ask for something that takes hours."""
    failures = []

    def ask():
        try:
            _opened(EngineChannel(lease), short_patience()).sql(LONG).collect()
        except PySparkException as error:
            failures.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread, failures


def tags_of_active_jobs(jvm):
    """Name the users of the jobs that run now."""
    store, tracker = jvm._context.statusStore(), jvm._context.statusTracker()
    for job in tracker.getActiveJobIds():
        yield str(store.job(job).jobTags())


def until(condition) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(condition())


@pytest.mark.parametrize("way", ["goodbye", "kill"])
def test_what_a_client_has_running_ends_with_its_lease(jvm, other, way):
    thread, failures = start(other)
    assert until(lambda: list(jvm._executions(other.user)))
    if way == "goodbye":
        other.end()
    else:
        other._close()
    thread.join(60)
    assert not thread.is_alive()
    assert failures
    assert until(lambda: not list(jvm._executions(other.user)) and not jvm._sessions(other.user))
    assert until(lambda: other.user not in str(list(tags_of_active_jobs(jvm)))), "none goes on"


def test_work_is_counted_for_whose_it_is(jvm, other):
    start(other)
    assert until(lambda: jvm.work_done(other.user) > 0)
    before = jvm.work_done(other.user)
    assert until(lambda: jvm.work_done(other.user) > before)
    assert jvm.work_done("nobody") == 0
