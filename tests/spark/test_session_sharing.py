"""Sessions: work at the same time, what is fixed in each, and what is heard of its tasks."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from singer_spark import report
from singer_spark.engine.session import isolated
from singer_spark.report import REPORT_FILE, read_report
from singer_spark.spark_conf import GUARDS
from tests.support.session import java

SLEEP = "select reflect('java.lang.Thread', 'sleep', 100L) from range(0, {0}, 1, {0})"


def test_a_small_piece_of_work_does_not_wait_for_the_end_of_a_large_one(spark):
    def ended(tasks: int) -> float:
        isolated().sql(SLEEP.format(tasks)).collect()
        return time.monotonic()

    ended(1)
    with ThreadPoolExecutor() as pool:
        large = pool.submit(ended, 40)
        tracker = java().jvm.org.apache.spark.SparkContext.getOrCreate().statusTracker()
        while not tracker.getActiveStageIds():
            time.sleep(0.01)
        small = pool.submit(ended, 2)
        assert large.result() - small.result() > 1


def test_guards_hold_in_every_session_whatever_another_one_set(spark):
    bent = isolated()
    bent.conf.set("spark.sql.ansi.enabled", "false")
    for session in (spark, isolated()):
        assert {key: session.conf.get(key) for key in GUARDS} == {
            key: guard.value for key, guard in GUARDS.items()
        }


def test_finished_tasks_are_reported_where_a_runner_listens(spark, monkeypatch, tmp_path):
    monkeypatch.setenv(REPORT_FILE, str(tmp_path / "report"))
    monkeypatch.setattr(report, "INTERVAL_SECONDS", 0.05)
    isolated().sql(SLEEP.format(100)).collect()
    kinds = [fact["kind"] for _, fact in read_report(tmp_path / "report")]
    assert kinds
    assert set(kinds) == {"progress"}
