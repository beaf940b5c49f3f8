"""What a run's record tells beyond the tap's counts: the target's, time, memory, lag, lateness."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from singer_spark.pipeline.plugins import version_of
from singer_spark.runner import RunOptions
from singer_spark.runner.supervisor import ChildError
from singer_spark.secrets import mask
from singer_spark.state.runs import list_runs
from tests.support.bench import FOREVER, TAP, TARGET

TELL = """
def tell(kind, stream, **facts):
    with open(os.environ["SINGER_SPARK_REPORT"], "ab", buffering=0) as file:
        file.write(json.dumps({"kind": kind, "stream": stream, **facts}).encode() + b"\\n")
"""
COMMIT = 'tell("commit", "orders", rows=%d, inserted=1, updated=1, deleted=0, milliseconds=40)\n'


def last(bench):
    return list_runs(bench.store, "p", 1)[0]


class TestCounts:
    def test_what_the_target_tells_is_added_up_by_stream(self, bench):
        second = 'tell("commit", "orders", rows=1, inserted=0, updated=0, deleted=1)\n'
        bench.write("target-fake", TARGET + TELL + COMMIT % 2 + second)
        bench.run()

        orders = last(bench)["streams"]["orders"]
        assert orders["records"] == orders["loaded"] == 3
        assert (orders["inserted"], orders["updated"], orders["deleted"]) == (1, 1, 1)
        assert (orders["quarantined"], orders["commits"]) == (0, 2)
        assert last(bench)["inserted"] == last(bench)["deleted"] == 1
        assert last(bench)["load_milliseconds"] == orders["load_milliseconds"] == 40
        assert last(bench)["mismatches"] == {}

    def test_of_a_target_that_tells_nothing_nothing_is_known(self, bench, capfd):
        bench.run()

        for facts in (last(bench), last(bench)["streams"]["orders"]):
            names = ("loaded", "inserted", "updated", "deleted", "unchanged", "quarantined", "late")
            assert [facts[name] for name in names] == [None] * 7
        assert "Warning" not in capfd.readouterr().err

    def test_rows_that_were_left_out_because_the_table_has_them_are_counted(self, bench, capfd):
        left_out = 'tell("commit", "orders", rows=3, inserted=1, updated=0, deleted=0, unchanged=2)'
        bench.write("target-fake", TARGET + TELL + left_out)
        bench.run()

        orders = last(bench)["streams"]["orders"]
        assert (orders["loaded"], orders["inserted"], orders["unchanged"]) == (3, 1, 2)
        assert last(bench)["unchanged"] == 2
        assert last(bench)["mismatches"] == {}
        assert "Warning" not in capfd.readouterr().err

    def test_facts_of_the_run_as_a_whole_are_no_streams(self, bench):
        facts = """
tell("source", "", id=None, place="folder")
tell("progress", "", command="target-fake")
tell("table", "orders", location="x", id="i", version=3, run_id="r", key=[])
"""
        bench.write("target-fake", TARGET + TELL + facts + COMMIT % 3)
        assert list(bench.run().records) == ["orders"]

    def test_a_difference_between_both_sides_is_shouted_and_recorded(self, bench, capfd):
        bench.write("target-fake", TARGET + TELL + COMMIT % 2)
        bench.run()

        told = "the tap sent 3 records, the target accounts for 2"
        assert last(bench)["mismatches"] == {"orders": told}
        assert f"Warning: orders: COUNTS DIFFER: {told}" in capfd.readouterr().err
        assert last(bench)["status"] == "succeeded"

    def test_records_set_aside_are_accounted_for_and_warned_of(self, bench, capfd):
        aside = 'tell("quarantine", "orders", rows=1)\n'
        bench.write("target-fake", TARGET + TELL + COMMIT % 2 + aside)
        bench.run()

        assert last(bench)["quarantined"] == 1
        assert last(bench)["mismatches"] == {}
        assert "Warning: orders: 1 records were set aside" in capfd.readouterr().err

    def test_a_stream_of_which_the_target_says_nothing_is_a_difference_too(self, bench):
        other = 'tell("commit", "users", rows=0)\n'
        bench.write("target-fake", TARGET + TELL + other)
        bench.run()

        assert list(last(bench)["mismatches"]) == ["orders"]
        assert last(bench)["streams"]["users"]["records"] == 0

    def test_stream_maps_may_drop_records_and_batch_files_hide_them(self, bench, capfd):
        bench.write("target-fake", TARGET + TELL + COMMIT % 2)
        target = bench.pipeline().target
        bench.run(target=type(target)(target.command, {"stream_maps": {"orders": {}}}))
        assert last(bench)["mismatches"] == {}

        bench.write("tap-fake", 'say(type="BATCH", stream="orders", manifest=[])\n')
        assert bench.run().records == {"orders": 2}
        assert last(bench)["streams"]["orders"]["records"] is None
        assert last(bench)["records"] == 2
        assert last(bench)["mismatches"] == {}
        assert "DIFFER" not in capfd.readouterr().err

    def test_a_failed_run_is_not_compared(self, bench):
        bench.write("target-fake", TARGET + TELL + COMMIT % 2 + "sys.exit(1)")
        bench.fail(ChildError)

        assert last(bench)["loaded"] == 2
        assert last(bench)["mismatches"] == {}

    @pytest.mark.parametrize("line", ["hello", "5", "{", '{"kind": "commit", "rows": "x"}', "?"])
    def test_what_is_no_fact_is_passed_over(self, bench, line):
        junk = f'open(os.environ["SINGER_SPARK_REPORT"], "ab").write(b"""{line}\\n""")\n'
        bench.write("target-fake", TARGET + TELL + junk + COMMIT % 3)
        bench.run()
        assert last(bench)["loaded"] == 3


class TestMeasures:
    def test_time_memory_and_versions(self, bench, monkeypatch):
        monkeypatch.setattr("singer_spark.runner.meter.TICK_SECONDS", 0.02)
        monkeypatch.setattr("singer_spark.runner.meter.SAMPLE_SECONDS", 0.02)
        bench.write("tap-fake", TAP + 'x = b"x" * 50_000_000\ntime.sleep(0.3)')
        bench.run()

        record = last(bench)
        assert 300 <= record["extract_milliseconds"] <= record["milliseconds"]
        peaks = record["peak_memory_bytes"]
        assert peaks["tap"] > 50_000_000 > peaks["target"] > 1_000_000
        assert record["mode"] == "full"
        assert record["versions"]["tap"] is None

    @pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
    def test_the_memory_is_that_of_all_processes_of_a_side(self, bench, monkeypatch):
        monkeypatch.setattr("singer_spark.runner.meter.TICK_SECONDS", 0.02)
        monkeypatch.setattr("singer_spark.runner.meter.SAMPLE_SECONDS", 0.02)
        child = """
        code = "import sys; x = b'x' * 30_000_000; print(flush=True); sys.stdin.read()"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        others = [subprocess.Popen([sys.executable, "-c", code], **pipes) for _ in range(2)]
        for other in others: other.stdout.readline()
        time.sleep(0.3)
        """
        bench.write("tap-fake", child)
        bench.run()
        assert last(bench)["peak_memory_bytes"]["tap"] > 60_000_000

    def test_the_version_of_a_command_is_that_of_its_distribution(self):
        command = Path(sys.executable).with_name("tap-spark-source")
        assert version_of(command).startswith("singer-spark ")
        assert version_of(Path("/bin/sh")) is None

    def test_lag_is_told_by_stream_and_for_the_pipeline(self, bench):
        now = datetime.now(timezone.utc)
        bookmarks = {
            "orders": {"replication_key_value": (now - timedelta(hours=2)).isoformat()},
            "users": {"replication_key_value": 17},
            "gone": {"replication_key_value": "2001-01-01"},
        }
        schemas = "".join(
            f'say(type="SCHEMA", stream="{name}", schema={{}})\n' for name in ("orders", "users")
        )
        bench.write("tap-fake", f'{schemas}say(type="STATE", value={{"bookmarks": {bookmarks!r}}})')
        bench.run()

        record = last(bench)
        assert 7200 <= record["lag_seconds"] < 7300
        assert record["streams"]["orders"]["lag_seconds"] == record["lag_seconds"]
        assert record["streams"]["users"]["lag_seconds"] is None


class TestLateRows:
    LATE = 'tell("late", "orders", rows=2, seconds=%d)\n'

    def test_late_rows_are_counted_and_a_lookback_is_suggested_from_the_history(self, bench, capfd):
        bench.write("tap-fake", TELL + self.LATE % 5000 + TAP)
        bench.run()
        assert "2 rows were late, by up to 5000 s; set its lookback to 10800" in (
            capfd.readouterr().err
        )
        bench.write("tap-fake", TELL + self.LATE % 100 + self.LATE % 60 + TAP)
        bench.run()

        record = last(bench)
        orders = record["streams"]["orders"]
        assert (record["late"], orders["late"], orders["late_seconds"]) == (4, 4, 100)
        assert orders["suggested_lookback"] == 10_800

    @pytest.mark.parametrize(("lookback", "own"), [(1, 200), (200, None)])
    def test_a_lookback_that_is_wide_enough_is_left_alone(self, bench, capfd, lookback, own):
        bench.write("tap-fake", TELL + self.LATE % 100 + TAP)
        tap = bench.pipeline().tap
        wide = {"lookback": lookback, "stream_options": {"ord*": {"lookback": own}}}
        bench.run(tap=type(tap)(tap.command, wide))

        assert last(bench)["late"] == 2
        assert last(bench)["streams"]["orders"]["suggested_lookback"] is None
        assert "lookback" not in capfd.readouterr().err


class TestError:
    def test_the_record_tells_what_the_side_that_failed_logged(self, bench):
        log = 'sys.stderr.write("INFO x\\n\\x1b[31mError: no do-not-tell here\\x1b[0m\\nbye\\n")\n'
        bench.write("tap-fake", log + "sys.exit(3)")
        error = bench.fail(ChildError)

        assert last(bench)["error"] == "tap-fake failed with exit code 3: no *** here"
        assert "its log above says why" in error.message

    def test_a_long_reason_is_cut(self, bench):
        bench.write("tap-fake", 'sys.stderr.write("x" * 100_000)\nsys.exit(3)')
        bench.fail(ChildError)
        assert len(last(bench)["error"]) == 500

    def test_more_secrets_are_masked_and_the_folder_is_not(self, monkeypatch):
        monkeypatch.setenv("PWD", "/home/me/shop")
        config = {"password": 12345678}
        assert mask("cannot open /home/me/shop/x", config) == "cannot open /home/me/shop/x"
        for text, masked in (
            ("login 12345678 failed", "login *** failed"),
            ("jdbc:oracle:thin:scott/tiger99@//h:1521/x", "jdbc:oracle:thin:***@//h:1521/x"),
            ("see mysql://u:a/b@c@h/db now", "see mysql://***@h/db now"),
            ("jdbc:sqlserver://h;password={se;cret};x=1", "jdbc:sqlserver://h;password=***;x=1"),
        ):
            assert mask(text, config) == masked

    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("at postgresql://me:hidden@host/db", "at postgresql://***@host/db"),
            ("jdbc:x://h/d?user=u&password=hidden&ssl=1", "jdbc:x://h/d?user=u&password=***&ssl=1"),
            ("the hidden-key is hidden-token", "the *** is ***"),
            ("by updated_at", "by updated_at"),
        ],
    )
    def test_secrets_are_masked(self, text, masked, monkeypatch):
        monkeypatch.setenv("SOME_ACCESS_KEY", "hidden-key")
        config = {"a": [{"auth_token": "hidden-token"}], "replication_key": "updated_at"}
        assert mask(text, config) == masked

    def test_a_run_that_hangs_is_recorded_with_what_passed(self, bench):
        bench.write("tap-fake", TAP + FOREVER)
        bench.fail(Exception, timeout=3)
        assert last(bench)["records"] == 3
        assert "timeout" in last(bench)["error"]


def test_the_report_is_private_and_gone_after_the_run(bench):
    bench.write("tap-fake", 'note("report", os.environ["SINGER_SPARK_REPORT"])\n' + TAP)
    bench.run(RunOptions())
    assert not os.path.exists(bench.note("report"))  # noqa: PTH110
    assert json.loads((bench.folder / "state/p/state.json").read_text())
