"""A run that succeeds: what it stores, what it tells, how it is shown."""

from __future__ import annotations

import json

import pytest

from singer_spark.runner import PlainDisplay, run_pipeline
from singer_spark.runner.supervisor import ChildError
from singer_spark.state import PipelineState
from tests.support.bench import TAP, TARGET, is_running


class TestSuccess:
    def test_the_final_state_is_stored_and_the_run_is_noted(self, bench):
        result = bench.run()

        state = bench.store.get("p")
        assert state.watermark == {"bookmarks": {"orders": 3}}
        assert state.run_count == 1
        assert state.last_run_id == result.run_id
        assert state.last_run_at.endswith("+00:00")
        assert result.records == {"orders": 3}
        assert result.state == state.watermark
        assert bench.note("end-of-input") is not None

    def test_the_next_run_gets_the_state_and_says_so(self, bench):
        bench.run()
        assert bench.note("tap-state") == "none"
        assert "Incremental mode (using previous checkpoint)" not in bench.lines
        bench.run()

        assert json.loads(bench.note("tap-state")) == {"bookmarks": {"orders": 3}}
        assert bench.lines[-3:] == [
            "Running: p",
            "Incremental mode (using previous checkpoint)",
            "orders: 3 records...",
        ]
        assert bench.store.get("p").run_count == 2

    def test_a_full_run_starts_afresh_and_replaces_the_state(self, bench):
        bench.store.save(PipelineState("p", {"old": 1}))
        bench.run(full=True)

        assert bench.note("tap-state") == "none"
        assert bench.store.get("p").watermark == {"bookmarks": {"orders": 3}}

    def test_without_incremental_the_tap_gets_no_state_but_it_is_stored(self, bench):
        bench.store.save(PipelineState("p", {"old": 1}))
        bench.run(incremental=False)

        assert bench.note("tap-state") == "none"
        assert bench.store.get("p").watermark == {"bookmarks": {"orders": 3}}

    def test_a_failed_full_run_leaves_the_old_state(self, bench):
        bench.store.save(PipelineState("p", {"old": 1}))
        bench.write("tap-fake", TAP + "sys.exit(9)")

        bench.fail(ChildError, full=True)
        assert bench.store.get("p").watermark == {"old": 1}

    def test_a_target_without_a_state_leaves_the_old_one(self, bench):
        bench.store.save(PipelineState("p", {"old": 1}, metadata={"kept": True}))
        bench.write("target-fake", "for line in sys.stdin: pass")
        bench.run()

        state = bench.store.get("p")
        assert state.watermark == {"old": 1}
        assert state.metadata == {"kept": True}
        assert state.run_count == 1

    @pytest.mark.parametrize("full", [False, True])
    @pytest.mark.parametrize("empty", ["{}", '{"bookmarks": {}}'])
    def test_an_empty_state_does_not_wipe_the_old_one(self, bench, capfd, empty, full):
        bench.store.save(PipelineState("p", {"old": 1}))
        bench.write("target-fake", f"for line in sys.stdin: pass\nprint({empty!r})")
        bench.run(full=full)

        assert bench.store.get("p").watermark == {"old": 1}
        assert "Warning: the target wrote a state without any bookmark" in capfd.readouterr().err
        bench.write("target-fake", f"{TARGET}\nprint({empty!r})")
        bench.run(full=full)
        assert bench.store.get("p").watermark == {"bookmarks": {"orders": 3}}

    def test_the_last_of_many_states_counts(self, bench):
        bench.write("target-fake", TARGET + 'say(n=1)\nprint()\nprint(\'{"n": 2}\', end="")')
        bench.run()

        assert bench.store.get("p").watermark == {"n": 2}

    def test_both_know_the_pipeline_and_the_run(self, bench):
        names = "SINGER_SPARK_PIPELINE", "SINGER_SPARK_RUN_ID"
        tell = f'note("%s-env", "".join(map(os.environ.get, {names})))\n'
        bench.write("tap-fake", tell % "tap" + TAP)
        bench.write("target-fake", tell % "target" + TARGET)
        result = bench.run()

        assert bench.note("tap-env") == bench.note("target-env") == f"p{result.run_id}"

    def test_many_megabytes_of_messages_and_logs_pass_both_ways(self, bench, capfd):
        bench.write(
            "tap-fake",
            """
            block = '{"type":"RECORD","stream":"a-b","record":{"x":"' + "y" * 200 + '"}}\\n'
            for n in range(40):
                sys.stdout.write(block * 1000)
                sys.stderr.write("log line\\n" * 20_000)
            say(type="STATE", value={"done": 1})
            """,
        )
        bench.write("target-fake", 'sys.stderr.write("z" * 300_000)\n' + TARGET)
        result = bench.run()

        assert result.records == {"a-b": 40_000}
        assert bench.store.get("p").watermark == {"done": 1}
        errors = capfd.readouterr().err
        assert errors.count("tap-fake | log line\n") == 800_000
        assert errors.count("z") == 300_000

    def test_bytes_in_a_log_that_are_no_text_do_not_matter(self, bench, capfd):
        bench.write("tap-fake", r'os.write(2, b"bad \xff byte\n\nlast")' + "\n" + TAP)
        bench.run()

        errors = capfd.readouterr().err
        assert "tap-fake | bad � byte\ntap-fake | \ntap-fake | last\n" in errors

    def test_progress_is_told_in_plain_lines_while_it_runs(self, bench):
        bench.write(
            "tap-fake",
            'say(type="RECORD", stream="o", record={})\nawait_note("go")\n'
            'say(type="RECORD", stream="o", record={})',
        )

        def report(line):
            bench.lines.append(line)
            if line == "o: 1 records...":
                (bench.folder / "go").touch()

        run_pipeline(bench.pipeline(), display=PlainDisplay(report, interval=0.05))
        assert bench.lines == ["Running: p", "o: 1 records...", "o: 2 records..."]

    def test_a_process_that_the_target_left_behind_is_swept_away(self, bench):
        bench.write("target-fake", TARGET + 'note("left", subprocess.Popen(["sleep", "100"]).pid)')
        bench.run()

        assert bench.store.get("p").run_count == 1
        assert not is_running(bench.note("left"))
