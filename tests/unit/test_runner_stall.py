"""A run in which nothing moves is ended, and says what it was waiting for."""

from __future__ import annotations

from pathlib import Path

import pytest

from singer_spark.errors import SettingsError, TransientError
from singer_spark.pipeline.file import parse_pipeline
from singer_spark.runner.supervisor import Stall
from singer_spark.state import PipelineState
from singer_spark.state.runs import list_runs
from tests.support.bench import FOREVER, TAP, TARGET, is_running
from tests.unit.test_runner_record import TELL

RECORD = 'say(type="RECORD", stream="orders", record={})\n'


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("singer_spark.runner.meter.TICK_SECONDS", 0.05)


def stalled(bench, **changes):
    error = bench.fail(TransientError, stall_timeout=0.8, **changes)
    assert error.exit_code == 75
    assert "nothing moved for 0.8 s (stall_timeout)" in error.message
    return error.message


class TestStall:
    @pytest.mark.parametrize(
        ("tap", "target", "waited_for"),
        [
            (FOREVER, TARGET, "the first message of tap-fake;"),
            (TAP + FOREVER, TARGET, "the next message of tap-fake;"),
            ("while True: " + RECORD, FOREVER, "target-fake to read on, with rows of orders to"),
            (TAP, TARGET + FOREVER, "target-fake to end"),
            (TELL + 'tell("progress", "", command="tap-fake", doing="the start of Spark")\n'
             + FOREVER, TARGET, "the first message of tap-fake (busy with the start of Spark);"),
        ],
    )  # fmt: skip
    def test_what_holds_the_run_up_is_named(self, bench, tap, target, waited_for):
        bench.store.save(PipelineState("p", {"old": 1}))
        bench.write("tap-fake", tap)
        bench.write("target-fake", target)

        assert f"while the run waited for {waited_for}" in stalled(bench)
        assert bench.store.get("p").watermark == {"old": 1}
        assert list_runs(bench.store, "p")[0]["exit_code"] == 75
        for name in ("tap-fake.pid", "target-fake.pid"):
            assert not is_running(bench.note(name))

    def test_a_discovery_that_hangs_is_ended_too(self, bench):
        bench.write("tap-fake", "if '--discover' in sys.argv: time.sleep(100)")
        assert "the answer to --discover of tap-fake" in stalled(bench, streams=("orders",))

    @pytest.mark.parametrize(
        ("tap", "target"),
        [
            ("for _ in range(5): say(type='STATE', value={}); time.sleep(0.4)\n" + TAP, TARGET),
            (TAP, TARGET + 'for _ in range(5): say(n=1); time.sleep(0.4)\n'),
            (TAP, TARGET + TELL + 'for _ in range(5): tell("progress", ""); time.sleep(0.4)\n'),
            (TELL + 'for _ in range(5): tell("progress", ""); time.sleep(0.4)\n' + TAP, TARGET),
        ],
    )  # fmt: skip
    def test_whatever_moves_keeps_a_run_alive(self, bench, tap, target):
        bench.write("tap-fake", tap)
        bench.write("target-fake", target)
        bench.run(stall_timeout=0.8)
        assert bench.store.get("p").run_count == 1

    def test_without_a_limit_nothing_is_ended(self, bench):
        bench.write("tap-fake", "time.sleep(1.5)\n" + TAP)
        bench.run(stall_timeout=None)

    def test_a_runner_that_was_stopped_itself_judges_by_what_it_saw(self, monkeypatch, tmp_path):
        now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: now)
        stall = Stall(60, tmp_path / "no-report")
        now = 3600.0
        stall.check()
        for _ in range(4):
            now += 10
            stall.check()
        now += 10
        with pytest.raises(TransientError):
            stall.check()


class TestSetting:
    @pytest.mark.parametrize(
        ("given", "seconds"), [(None, 1800), ("2h", 7200), ("90s", 90), (0, None)]
    )
    def test_half_an_hour_unless_set_and_off_by_0(self, given, seconds):
        document = {"name": "p", "source": {"tap": "t"}, "destination": {"target": "x"}}
        if given is not None:
            document["stall_timeout"] = given
        pipeline = parse_pipeline(document, folder=Path(), env={})
        assert pipeline.stall_timeout == seconds
        assert pipeline.timeout is None

    @pytest.mark.parametrize("given", ["soon", 5, False, -1])
    def test_what_is_no_duration_is_refused(self, given):
        document = {"name": "p", "source": {"tap": "t"}, "destination": {"target": "x"}}
        with pytest.raises(SettingsError, match="stall_timeout: must be a duration"):
            parse_pipeline({**document, "stall_timeout": given}, folder=Path(), env={})
