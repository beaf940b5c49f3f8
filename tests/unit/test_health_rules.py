"""What is wrong with a pipeline: each rule at its limit, on records alone."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from singer_spark.figures import format_duration
from singer_spark.health.history import FoundLock, History
from singer_spark.health.rules import Health, Level, judge
from singer_spark.pipeline import Alerts

NOW = datetime(2026, 1, 31, 12, 0, 30, tzinfo=timezone.utc)
OFF = Alerts(spike=None, slow=None, error_rate=None)


def ago(**duration):
    return (NOW - timedelta(**duration)).isoformat()


def run(**facts):
    usual = {"exit_code": 0, "mode": "incremental", "records": 100, "milliseconds": 60_000}
    return {"started_at": ago(minutes=10), **usual, **facts}


def kinds(*runs, alerts=OFF, **more):
    history = History(pipeline="p", now=NOW, runs=runs, alerts=alerts, **more)
    return {finding.kind: finding for finding in judge(history)}


def test_all_is_well_or_new():
    assert kinds(run(), alerts=Alerts()) == {}
    assert Health.of(History(pipeline="p", now=NOW, runs=[run()])).word == "ok"
    assert Health.of(History(pipeline="p", now=NOW)).word == "new"


def test_a_failed_run_is_critical_with_its_reason_and_how_often():
    finding = kinds(run(exit_code=3, error="no table"), run(exit_code=69), run())["failed"]
    assert finding.level is Level.CRITICAL
    assert finding.reason == "the last run failed (2 in a row): no table"
    assert kinds(run(), run(exit_code=3)) == {}


def test_counts_that_differ_are_critical():
    finding = kinds(run(mismatches={"orders": "3 sent, 2 loaded"}))["counts"]
    assert (finding.level, finding.reason) == (
        Level.CRITICAL, "orders: counts differ: 3 sent, 2 loaded",
    )  # fmt: skip


class TestLag:
    RUN = {
        "streams": {"a": {}, "b": {}},
        "bookmarks_after": {
            "a": {"replication_key_value": ago(hours=3)},
            "b": {"replication_key_value": ago(hours=1)},
            "gone": {"replication_key_value": "2001-01-01"},
        },
    }

    def test_the_stream_that_is_furthest_behind_counts(self):
        finding = kinds(run(**self.RUN), alerts=Alerts(max_lag=7200))["lag"]
        assert finding.reason == "a lags 3 h behind (limit 2 h)"
        assert "lag" not in kinds(run(**self.RUN), alerts=Alerts(max_lag=3 * 3600))
        assert "lag" not in kinds(run(**self.RUN))

    def test_a_run_that_failed_early_tells_nothing_new(self):
        runs = (run(exit_code=3, streams={}, bookmarks_after={}), run(**self.RUN))
        assert kinds(*runs, alerts=Alerts(max_lag=7200))["lag"].level is Level.CRITICAL

    def test_a_failed_run_that_saw_few_streams_hides_no_other(self):
        failed = run(exit_code=3, **{**self.RUN, "streams": {"b": {}}})
        found = kinds(failed, run(**self.RUN), run(streams={"gone": {}}), alerts=Alerts(max_lag=1))
        assert found["lag"].reason == "a lags 3 h behind (limit 1 s)"


class TestEmpty:
    EMPTY = run(records=1, inserted=0, updated=0, deleted=0)

    def test_runs_without_a_change_in_a_row(self):
        runs = [self.EMPTY, run(records=0), self.EMPTY, run()]
        assert kinds(*runs, alerts=Alerts(empty_runs=3))["empty"].reason == (
            "the last 3 runs brought nothing new"
        )
        assert "empty" not in kinds(*runs, alerts=Alerts(empty_runs=4))
        assert "empty" not in kinds(*runs)

    def test_runs_aside_and_failed_ones_do_not_count(self):
        runs = [run(mode="window", records=5), self.EMPTY, run(exit_code=1), self.EMPTY]
        assert "empty" in kinds(*runs, alerts=Alerts(empty_runs=2))


class TestUsual:
    HISTORY = [run() for _ in range(5)]

    @pytest.mark.parametrize(("records", "found"), [(1000, False), (1001, True)])
    def test_a_spike_is_more_than_ten_times_the_usual(self, records, found):
        assert ("spike" in kinds(run(records=records), *self.HISTORY, alerts=Alerts())) == found

    @pytest.mark.parametrize(("milliseconds", "found"), [(300_000, False), (300_001, True)])
    def test_slow_is_more_than_five_times_the_usual(self, milliseconds, found):
        last = run(milliseconds=milliseconds)
        assert ("slow" in kinds(last, *self.HISTORY, alerts=Alerts())) == found

    def test_both_are_told_with_numbers(self):
        found = kinds(run(records=5000, milliseconds=900_000), *self.HISTORY, alerts=Alerts())
        assert found["spike"].reason == (
            "5,000 records in the last run are 50 times the usual 100 records"
        )
        assert found["slow"].reason == "15 min in the last run is 15 times the usual 60 s"

    def test_few_runs_empty_ones_and_full_ones_are_no_measure(self):
        big = run(records=10**9)
        assert kinds(big, *self.HISTORY[:4], alerts=Alerts()) == {}
        assert kinds(big, *[run(records=0)] * 50, *self.HISTORY[:4], alerts=Alerts()) == {}
        assert kinds(big, *[run(mode="full")] * 9, alerts=Alerts()) == {}
        assert kinds(run(mode="full", records=10**9), *self.HISTORY, alerts=Alerts()) == {}

    def test_runs_that_read_in_full_are_compared_with_each_other(self):
        history = [run(mode="full") for _ in range(5)]
        big = run(mode="full", records=2000, milliseconds=900_000)
        assert set(kinds(big, *self.HISTORY, *history, alerts=Alerts())) == {"spike", "slow"}
        empty = run(mode="full", records=100, inserted=0, updated=0, deleted=0)
        assert set(kinds(empty, empty, *history, alerts=Alerts(empty_runs=2))) == {"empty"}

    def test_a_limit_that_is_off_is_not_judged(self):
        assert kinds(run(records=10**9, milliseconds=10**9), *self.HISTORY) == {}


@pytest.mark.parametrize(("aside", "found"), [(1, False), (2, True)])
def test_more_than_one_percent_set_aside_is_an_error_rate(aside, found):
    last = run(records=100, quarantined=aside)
    assert ("error_rate" in kinds(run(records=0), last, alerts=Alerts())) == found


def test_a_run_that_took_or_takes_too_long():
    limits = Alerts(max_duration=59)
    assert kinds(run(), alerts=limits)["duration"].reason == "the last run took 60 s (limit 59 s)"
    active = FoundLock(NOW - timedelta(minutes=10), is_dead=False)
    found = kinds(run(milliseconds=5), alerts=limits, lock=active)
    assert found["duration"].reason == "has been running for 10 min (limit 59 s)"
    assert kinds(run(milliseconds=59_000), alerts=limits) == {}


def test_a_lock_left_behind_is_told_with_the_way_out():
    dead = FoundLock(NOW - timedelta(hours=5), is_dead=True)
    finding = kinds(run(), lock=dead)["lock"]
    assert finding.level is Level.WARNING
    assert "singer-spark unlock p" in finding.reason
    running = History(pipeline="p", now=NOW, lock=FoundLock(NOW, is_dead=False))
    assert Health.of(running).word == "running"


def test_late_rows_need_a_wider_lookback():
    streams = {"orders": {"late": 3, "suggested_lookback": 7200}}
    assert kinds(run(streams=streams))["late"].reason == (
        "orders: 3 rows were late; set its lookback to 7200"
    )


class TestSchedule:
    @pytest.mark.parametrize(
        ("cron", "started", "missed"),
        [
            ("*/15 * * * *", {"minutes": 1}, False),
            ("*/15 * * * *", {"minutes": 14}, False),  # due at 12:00, still within its grace
            ("*/15 * * * *", {"minutes": 17}, True),
            ("0 * * * *", {"minutes": 61}, False),
            ("0 * * * *", {"minutes": 62}, True),
            ("@daily", {"hours": 13}, True),
            ("@daily", {"hours": 11}, False),
        ],
    )
    def test_the_last_due_time_must_have_a_run(self, cron, started, missed):
        found = kinds(run(started_at=ago(**started)), cron=cron)
        assert ("schedule" in found) == missed

    def test_a_run_that_lasted_beyond_its_next_time_is_not_missed(self):
        long = run(started_at=ago(hours=2), finished_at=ago(minutes=40))  # due at 11:00
        assert kinds(long, cron="0 * * * *") == {}
        earlier = run(started_at=ago(hours=4), finished_at=ago(hours=2, minutes=5))
        assert "schedule" in kinds(earlier, cron="0 * * * *")

    def test_a_run_in_progress_is_not_missed_and_a_new_pipeline_only_a_warning(self):
        active = FoundLock(NOW - timedelta(hours=5), is_dead=False)
        assert kinds(run(started_at=ago(days=2)), cron="@daily", lock=active) == {}
        assert kinds(cron="@daily")["schedule"].level is Level.WARNING

    def test_it_is_told_since_when(self):
        found = kinds(run(started_at=ago(days=3)), cron="0 * * * *")["schedule"]
        assert found.reason == "should have run 60.5 min ago (0 * * * *)"
        assert found.level is Level.CRITICAL


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.25, "0.25 s"), (90, "90 s"), (600, "10 min"), (7200, "2 h"), (1e6, "11.6 d")],
)
def test_durations_have_the_unit_that_fits(seconds, told):
    assert format_duration(seconds) == told
