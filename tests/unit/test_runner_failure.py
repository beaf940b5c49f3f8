"""A run that fails: whom it ends, how it exits, what it leaves."""

from __future__ import annotations

import time

import pytest

from singer_spark.errors import ProtocolError, SettingsError, TransientError
from singer_spark.runner import supervisor
from singer_spark.runner.supervisor import ChildError
from singer_spark.state import PipelineState
from singer_spark.state.runs import list_runs
from tests.support.bench import FOREVER, TAP, TARGET, is_running

# Python reads the first one, and cannot write it again; it cannot read the second one.
DEEP, VERY_DEEP = (f'{{"a": {"[" * depth}{"]" * depth}}}' for depth in (600, 100_000))


class TestFailure:
    def test_a_failing_tap_ends_the_target_before_the_end_of_its_input(self, bench):
        bench.store.save(PipelineState("p", {"old": 1}))
        bench.write("tap-fake", TAP + 'await_note("committed")\nsys.exit(3)')

        error = bench.fail(ChildError)
        assert error.exit_code == 3
        assert "tap-fake failed with exit code 3" in error.message
        assert bench.note("end-of-input") is None
        assert not is_running(bench.note("target-fake.pid"))
        state = bench.store.get("p")
        assert (state.watermark, state.run_count) == ({"old": 1}, 0)

    def test_the_checkpoint_of_a_failure_lasts_until_the_next_success(self, bench):
        bench.write("tap-fake", TAP + 'await_note("committed")\nsys.exit(3)')
        bench.fail(ChildError)
        assert bench.store.read_checkpoint("p").state == {"bookmarks": {"orders": 3}}
        assert bench.store.get("p") is None

        bench.write("tap-fake", TAP)
        bench.run()
        assert bench.store.read_checkpoint("p") is None

    def test_a_target_that_ignores_the_request_to_end_is_killed(self, bench, monkeypatch):
        monkeypatch.setattr(supervisor, "GRACE_SECONDS", 0.2)
        bench.write(
            "target-fake",
            'signal.signal(signal.SIGTERM, signal.SIG_IGN)\nnote("deaf")\n' + FOREVER,
        )
        bench.write("tap-fake", 'await_note("deaf")\nsys.exit(4)')

        assert bench.fail(ChildError).exit_code == 4
        assert not is_running(bench.note("target-fake.pid"))

    def test_a_failing_target_ends_the_tap_at_once(self, bench):
        bench.write("tap-fake", 'while True: say(type="RECORD", stream="o", record={})')
        bench.write("target-fake", "sys.stdin.readline()\nsys.exit(5)")
        started = time.monotonic()

        error = bench.fail(ChildError)
        assert error.exit_code == 5
        assert "target-fake" in error.message
        assert not is_running(bench.note("tap-fake.pid"))
        assert time.monotonic() - started < 5

    def test_a_failing_target_is_to_blame_even_if_the_tap_has_finished(self, bench):
        bench.write("target-fake", TARGET + "sys.exit(65)")

        assert bench.fail(ChildError).exit_code == 65
        assert bench.store.get("p") is None
        assert bench.store.read_checkpoint("p").state == {"bookmarks": {"orders": 3}}

    def test_a_killed_target_gives_137(self, bench):
        bench.write("tap-fake", TAP + FOREVER)
        bench.write("target-fake", "sys.stdin.readline()\nos.kill(os.getpid(), signal.SIGKILL)")

        error = bench.fail(ChildError)
        assert error.exit_code == 137
        assert "signal 9" in error.message

    def test_a_killed_tap_gives_137_though_all_was_sent(self, bench):
        bench.write("tap-fake", TAP + "os.kill(os.getpid(), signal.SIGKILL)")

        assert bench.fail(ChildError).exit_code == 137
        assert bench.note("end-of-input") is None

    @pytest.mark.parametrize("end", ["sys.exit(0)", "os.close(0)\n" + FOREVER])
    def test_a_target_that_stops_reading_early_is_no_success(self, bench, end, monkeypatch):
        monkeypatch.setattr(supervisor, "GRACE_SECONDS", 0.2)
        bench.write("tap-fake", 'while True: say(type="RECORD", stream="o", record={})')
        bench.write("target-fake", "sys.stdin.readline()\n" + end)

        assert bench.fail(ProtocolError).exit_code == 76
        assert bench.store.get("p") is None

    @pytest.mark.parametrize(
        "line", ["hello", "5", "[1]", "{", '{"a": NaN}', '"do-not-tell"', DEEP, VERY_DEEP]
    )
    def test_what_is_no_state_on_the_targets_output_is_error_76(self, bench, line):
        bench.write("target-fake", f"{TARGET}\nprint({line!r})")

        error = bench.fail(ProtocolError)
        assert error.exit_code == 76
        assert "do-not-tell" not in error.message
        assert bench.store.get("p") is None

    def test_what_a_process_of_the_target_writes_after_its_end_is_judged_too(self, bench):
        late = (
            f"trap 'echo junk; exit' TERM; touch {bench.folder}/ready; while :; do sleep 0.02; done"
        )
        bench.write(
            "target-fake",
            f'{TARGET}\nsubprocess.Popen(["sh", "-c", {late!r}])\nawait_note("ready")',
        )
        bench.fail(ProtocolError)
        assert bench.store.get("p") is None

    def test_a_run_that_takes_too_long_is_ended_with_75(self, bench):
        bench.write(
            "tap-fake", 'note("grandchild", subprocess.Popen(["sleep", "100"]).pid)\n' + FOREVER
        )

        error = bench.fail(TransientError, timeout=3)
        assert error.exit_code == 75
        assert "timeout of 3 s" in error.message
        for name in ("tap-fake.pid", "target-fake.pid", "grandchild"):
            assert not is_running(bench.note(name))

    def test_a_target_killed_in_the_middle_of_a_state_is_judged_by_its_end(self, bench):
        torn = 'os.write(1, b\'{"bookmarks": {"ord\')\nos.kill(os.getpid(), signal.SIGKILL)'
        bench.write("target-fake", TARGET + torn)

        assert bench.fail(ChildError).exit_code == 137
        assert bench.store.read_checkpoint("p").state == {"bookmarks": {"orders": 3}}

    @pytest.mark.parametrize(
        "state", ['b\'{"a": "\\xff"}\\n\'', "b'{\"a\": 1' + b'0' * 5000 + b'}\\n'"]
    )
    def test_a_state_that_cannot_be_read_is_error_76_with_a_record(self, bench, state):
        bench.write("target-fake", f"{TARGET}\nos.write(1, {state})")

        assert bench.fail(ProtocolError).exit_code == 76
        assert list_runs(bench.store, "p")[0]["exit_code"] == 76

    def test_what_a_tap_left_behind_does_not_hold_the_run_for_ever(self, bench, monkeypatch):
        monkeypatch.setattr(supervisor, "GRACE_SECONDS", 0.3)
        bench.write("tap-fake", TAP + 'note("left", subprocess.Popen(["sleep", "100"]).pid)')
        started = time.monotonic()

        assert bench.run().records == {"orders": 3}
        assert time.monotonic() - started < 15
        assert not is_running(bench.note("left"))

    def test_what_escaped_from_the_tap_and_keeps_its_output_is_error_76(self, bench, monkeypatch):
        monkeypatch.setattr(supervisor, "GRACE_SECONDS", 0.3)
        escape = 'subprocess.Popen(["sleep", "8"], start_new_session=True)'
        bench.write("tap-fake", TAP + escape)

        assert "keeps its standard output open" in bench.fail(ProtocolError).message
        assert bench.store.get("p") is None

    def test_a_target_that_is_slow_to_read_is_no_silent_tap(self, bench, monkeypatch):
        monkeypatch.setattr(supervisor, "GRACE_SECONDS", 0.2)
        bench.write("tap-fake", 'sys.stdout.write(\'{"type":"STATE","value":{}}\\n\' * 90_000)')
        bench.write("target-fake", 'time.sleep(2)\nfor line in sys.stdin: pass\nnote("all")')
        bench.run()
        assert bench.note("all") == ""

    def test_an_empty_command_file_is_error_78(self, bench):
        (bench.folder / "tap-fake").write_bytes(b"\x00\x01")

        error = bench.fail(SettingsError)
        assert error.exit_code == 78
        assert "tap-fake: cannot be started" in error.message
        assert bench.note("end-of-input") is None
