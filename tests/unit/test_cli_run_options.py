"""Other ways to run: some streams afresh, a range again, until complete, several pipelines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from singer_spark.cli.progress import LiveDisplay, make_progress
from singer_spark.runner.run import is_left
from singer_spark.runner.streams import StreamCounts
from singer_spark.state import PipelineState
from singer_spark.state.runs import list_runs
from tests.support.bench import FOREVER, is_running
from tests.support.shop import (
    SPY,
    STATE,
    TAP,
    await_pids,
    finish,
    make_folder,
    run,
    singer_spark,
    store,
    write,
    write_pipeline,
)


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    return make_folder(tmp_path, monkeypatch)


def seen():
    return json.loads(Path("tap-fake.pids").read_text())


class TestRefresh:
    @pytest.fixture(autouse=True)
    def known(self):
        store().save(PipelineState("orders", STATE))
        write("tap-fake", SPY)

    def test_only_that_bookmark_is_taken_out(self):
        result = run("orders", "--refresh", "a")

        assert result.exit_code == 0, result.output
        assert json.loads(seen()["state"]) == {"bookmarks": {"b": STATE["bookmarks"]["b"]}, "x": 1}
        assert "Refreshing a (the other streams go on)" in result.output
        assert list_runs(store(), "orders")[0]["mode"] == "refresh"

    def test_a_run_that_fails_leaves_the_bookmark(self):
        write("tap-fake", "sys.exit(3)")
        assert run("orders", "--refresh", "a", "--refresh", "b").exit_code == 3
        assert store().get("orders").watermark == STATE

    def test_a_stream_without_a_bookmark_lists_those_there_are(self):
        result = run("orders", "--refresh", "nix")
        assert result.exit_code == 78
        assert "the run has no stream nix that it knows; it has a, b" in result.output

    def test_the_name_of_a_table_is_not_that_of_its_stream(self):
        table = {"location": "x", "id": "t", "version": 1, "run_id": "r", "state_of": "a"}
        known = store().get("orders")
        store().save(replace(known, metadata={"tables": {"renamed": table}}))
        result = run("orders", "--refresh", "renamed")
        assert result.exit_code == 78
        assert "renamed is the table of stream a; name that one: --refresh a" in result.output

    @pytest.mark.parametrize("tap", ["tap-fake", "tap-spark-source"])
    def test_a_stream_that_is_not_selected_is_not_refreshed(self, tap):
        path = Path("pipelines/orders.yml")
        path.write_text(path.read_text().replace("tap: tap-fake", f"tap: {tap}, streams: [b]"))
        if tap == "tap-fake":
            # Of others' taps it is known what is a stream once that has been loaded.
            table = {"location": "x", "id": "t", "version": 1, "run_id": "r"}
            store().save(replace(store().get("orders"), metadata={"tables": {"a": table}}))
        result = run("orders", "--refresh", "a")
        assert result.exit_code == 78
        assert "source.streams leaves out a; it selects b" in result.output

    def test_others_may_name_their_bookmarks_as_they_like(self):
        path = Path("pipelines/orders.yml")
        path.write_text(path.read_text().replace("tap: tap-fake", "tap: tap-fake, streams: [aa]"))
        offers = 'print(json.dumps({"streams": [{"tap_stream_id": "aa", "metadata": []}]}))'
        write("tap-fake", f'if "--discover" in sys.argv:\n    {offers}\n    sys.exit()\n{SPY}')
        result = run("orders", "--refresh", "a")
        assert result.exit_code == 0, result.output
        assert "a" not in json.loads(seen()["state"])["bookmarks"]

    def test_only_a_state_that_is_empty_at_last_is_warned_of(self):
        empty = 'say(type="STATE", value={"bookmarks": {}})\n'
        write("tap-fake", empty + TAP)
        assert "without any bookmark" not in run("orders", "--refresh", "a").output
        write("tap-fake", TAP + empty)
        assert "without any bookmark" in run("orders").output


class TestWindow:
    def test_a_range_is_told_to_our_tap_and_the_state_stays(self):
        store().save(PipelineState("orders", STATE))
        store().save_checkpoint("orders", {"later": 1})
        text = Path("pipelines/orders.yml").read_text()
        Path("pipelines/orders.yml").write_text(text.replace("tap-fake", "tap-spark-source"))
        write("tap-spark-source", SPY.replace("note(", "open('seen', 'w').write(") + TAP)
        result = run("orders", "--from", "2026-01-01", "--to", "2026-02-01")

        assert result.exit_code == 0, result.output
        spied = json.loads(Path("seen").read_text())
        assert spied["state"] == "none"
        window = {"window_start": "2026-01-01", "window_end": "2026-02-01"}
        assert spied["config"].items() >= window.items()
        assert store().get("orders").watermark == STATE
        assert store().read_checkpoint("orders").state == {"later": 1}
        record = list_runs(store(), "orders")[0]
        assert (record["mode"], record["records"]) == ("window", 340)

    def test_another_tap_cannot_read_a_range(self):
        result = run("orders", "--from", "1")
        assert result.exit_code == 78
        assert "only tap-spark-source can read a range" in result.output


class TestUntilComplete:
    LIMITED = """
    state = json.load(open(option("--state"))) if option("--state") else {"bookmarks": {"a": 0}}
    first = state["bookmarks"]["a"]
    for n in range(first, min(first + 2, 5)): say(type="RECORD", stream="a", record={"n": n})
    say(type="STATE", value={"bookmarks": {"a": min(first + 2, 5)}})
    """

    def test_runs_follow_until_the_state_stays(self):
        write("tap-fake", self.LIMITED)
        result = run("orders", "--until-complete")

        assert result.output.endswith("Done! 5 records in 1 stream(s) by 4 runs\n  a: 5\n")
        assert store().get("orders").run_count == 4
        assert result.output.count("a: 2 records...\n") == 2

    def test_with_files_the_state_goes_round_and_each_run_is_a_line(self):
        write("tap-fake", self.LIMITED)
        code, out, _ = finish("run", "orders", "--until-complete", "--state-out", "s", "--json")

        assert code == 0
        assert [json.loads(line)["records"] for line in out.splitlines()] == [2, 2, 1, 0]
        assert json.loads(Path("s").read_text()) == {"bookmarks": {"a": 5}}

    @pytest.mark.parametrize(
        ("options", "more"), [(["--from", "1"], ""), ([], "incremental: {enabled: false}\n")]
    )
    def test_what_would_never_end_is_refused(self, options, more):
        write_pipeline("orders", more=more)
        assert run("orders", "--until-complete", *options).exit_code == 78

    @pytest.mark.parametrize(
        ("before", "after", "rows", "left"),
        [
            ({"a": 1}, {"a": 1}, 10, False),
            ({"a": 1}, {"a": 2}, 10, True),
            ({"a": 1}, {"a": 2}, 9, False),
            ({}, {"a": {"full_table": {"key": 5}}}, 3, True),
            ({"a": {"full_table": {"key": 5}}}, {"a": {}}, 12, False),
            ({"a": 1, "b": 1}, {"a": 1, "b": 2}, 10, False),
        ],
    )
    def test_with_a_known_limit_a_stream_below_it_is_done(self, before, after, rows, left):
        record = {
            "bookmarks_before": before,
            "bookmarks_after": after,
            "streams": {"a": {"records": rows, "loaded": None}, "b": {"records": 1}},
        }
        assert is_left(record, 10) == left

    @pytest.mark.parametrize("limit", [None, 10])
    def test_a_comparison_that_has_a_new_version_in_each_run_ends(self, limit):
        def compared(version: str, key: int) -> dict:
            return {"a": {"snapshot": {"version": version}, "replication_key_value": key}}

        facts = {"a": {"records": 12, "loaded": None}}
        same = {"bookmarks_before": compared("1", 5), "bookmarks_after": compared("2", 5)}
        assert not is_left({**same, "streams": facts}, limit)
        moved = {"bookmarks_before": compared("1", 5), "bookmarks_after": compared("2", 6)}
        assert is_left({**moved, "streams": facts}, limit)

    def test_a_tap_that_tells_of_its_limit_is_believed(self):
        record = {
            "bookmarks_before": {"a": 1},
            "bookmarks_after": {"a": 2},
            "streams": {"a": {"records": 3, "loaded": None, "limited": True}},
        }
        assert is_left(record, 10)


class TestSeveral:
    @pytest.fixture(autouse=True)
    def pipelines(self):
        write_pipeline("shop-a")
        write_pipeline("shop-b")

    def test_a_pattern_runs_each_pipeline_and_ends_with_a_table(self):
        fail = 'if os.environ["SINGER_SPARK_PIPELINE"] == "shop-b": sys.exit(65)\n'
        write("tap-fake", fail + TAP)
        code, out, err = finish("run", "shop-*", "--parallel", "2")

        assert code == 65
        head, first, second = out.splitlines()
        assert head.split() == ["PIPELINE", "RECORDS", "TOOK", "EXIT"]
        assert first.split()[:2] + first.split()[-1:] == ["shop-a", "340", "0"]
        assert second.split() == ["shop-b", "-", "-", "65"]
        assert "shop-a | Running: shop-a\n" in err
        assert "shop-b | Error: tap-fake failed with exit code 65" in err
        assert store().get("orders") is None

    def test_results_are_lines_of_json(self):
        code, out, _ = finish("run", "shop-*", "orders", "--json", "--full")
        assert code == 0
        results = [json.loads(line) for line in out.splitlines()]
        assert [result["pipeline"] for result in results] == ["orders", "shop-a", "shop-b"]

    def test_what_failed_is_among_the_lines_of_json(self):
        Path("pipelines/shop-a.yml").write_text("name: shop-a\n")
        fail = 'if os.environ["SINGER_SPARK_PIPELINE"] == "shop-b": sys.exit(65)\n'
        write("tap-fake", fail + TAP)
        code, out, _ = finish("run", "shop-*", "orders", "--json")

        told = {one["pipeline"]: one for one in map(json.loads, out.splitlines())}
        assert code == 78
        assert {name: one["exit_code"] for name, one in told.items()} == {
            "orders": 0, "shop-a": 78, "shop-b": 65,
        }  # fmt: skip
        assert "source.tap: is required" in told["shop-a"]["error"]

    def test_a_signal_ends_them_all(self):
        write("tap-fake", 'note(f"{os.getppid()} {os.getpid()}")\n' + FOREVER)
        process = singer_spark("run", "shop-*", stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        pids = await_pids("tap-fake")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)

        assert (process.returncode, out) == (143, "")
        assert "shop-b" not in err
        assert not any(map(is_running, pids))

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's death")
    def test_a_killed_command_takes_its_runners_with_it(self):
        write("tap-fake", 'note(f"{os.getppid()} {os.getpid()}")\n' + FOREVER)
        process = singer_spark("run", "shop-*", stderr=subprocess.DEVNULL, stdout=subprocess.PIPE)
        pids = await_pids("tap-fake")
        process.kill()
        process.communicate(timeout=30)
        until = time.monotonic() + 20
        while any(map(is_running, pids)):
            assert time.monotonic() < until
            time.sleep(0.05)

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (
                ["nix-*"],
                "no pipeline in pipelines/ matches nix-*; there are orders, shop-a, shop-b",
            ),
            (["shop-*", "--state-in", "x"], "are for one pipeline"),
            (["orders", "--parallel", "2"], "--parallel is for several"),
            (["orders", "--full", "--refresh", "x"], "--full and --refresh start in different"),
        ],
    )
    def test_what_makes_no_sense_is_78(self, arguments, told):
        result = run(*arguments)
        assert result.exit_code == 78
        assert told in result.output

    def test_two_pipelines_of_one_name_are_refused(self):
        Path("pipelines/other.yml").write_text(Path("pipelines/orders.yml").read_text())
        Path("pipelines/broken.yml").write_text("{")
        result = run("orders")

        assert result.exit_code == 78
        assert "pipelines/orders.yml and pipelines/other.yml have the same name" in result.output
        assert run("shop-a").exit_code == 0


class TestLive:
    def test_lines_move_within_eighty_columns(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        with make_progress(err=False) as progress:
            display = LiveDisplay(progress)
            display.say("Running: [red]orders")
            display.show({"public-orders": StreamCounts(5, expected=10), "x" * 99: StreamCounts(7)})
            facts = StreamCounts(10, loaded=10, commits=2, expected=9)
            display.show({"public-orders": facts})
            display.finish()

        out = capsys.readouterr().out
        assert "Running: [red]orders\n" in out
        assert "10 rows" in out
        assert "2 committed" in out
        assert all(len(line) <= 80 for line in out.splitlines())

    def test_a_terminal_gets_moving_lines_and_the_same_end(self):
        main_end, terminal = os.openpty()
        process = singer_spark("run", "orders", stdout=terminal, stderr=terminal)
        os.close(terminal)
        shown = b""
        try:
            while block := os.read(main_end, 65_536):
                shown += block
        except OSError:  # how a terminal tells its end
            pass
        assert process.wait() == 0
        assert b"340 rows" in shown
        assert b"Done! 340 records in 2 stream(s)\r\n  public-orders: 340" in shown
