"""The runner with tiny taps and targets: what it stores, whom it ends, how it exits."""

from __future__ import annotations

import json
import os
import stat
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from singer_spark.errors import ProtocolError, SettingsError, StateError, TransientError
from singer_spark.pipeline import Alerts, Pipeline
from singer_spark.pipeline.endpoints import Plugin
from singer_spark.runner import StateFiles, find_command, run_pipeline, supervisor, transfer
from singer_spark.runner.supervisor import ChildError
from singer_spark.state import PipelineState, create_state_store
from singer_spark.state.holder import Holder
from singer_spark.state.lock import LockedError, LostLockError, locked
from singer_spark.state.objects import Expect

HELPERS = """
import json, os, signal, subprocess, sys, time
here = os.path.dirname(os.path.abspath(__file__))
def note(name, text=""):
    with open(os.path.join(here, name + ".tmp"), "w") as file: file.write(str(text))
    os.replace(os.path.join(here, name + ".tmp"), os.path.join(here, name))
def await_note(name):
    while not os.path.exists(os.path.join(here, name)): time.sleep(0.01)
def say(**message): print(json.dumps(message), flush=True)
def option(name): return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None
note(os.path.basename(__file__) + ".pid", os.getpid())
"""
TAP = """
state = option("--state")
note("tap-state", open(state).read() if state else "none")
say(type="SCHEMA", stream="orders", schema={}, key_properties=[])
for n in range(3): say(type="RECORD", stream="orders", record={"n": n})
say(type="STATE", value={"bookmarks": {"orders": 3}})
"""
TARGET = """
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "STATE":
        print(json.dumps(message["value"]), flush=True)
        note("committed")
note("end-of-input")
"""
FOREVER = "while True: time.sleep(1)\n"


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


class Bench:
    """A folder with a fake tap and target, what they noted, and the state between runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.state = str(folder / "state")
        self.write("tap-fake", TAP)
        self.write("target-fake", TARGET)

    def write(self, name, body):
        path = self.folder / name
        path.write_text(f"#!{sys.executable} -SE\n{HELPERS}\n{textwrap.dedent(body)}")
        path.chmod(0o755)

    def pipeline(self, **changes):
        pipeline = Pipeline(
            name="p",
            tap=Plugin(str(self.folder / "tap-fake"), {"password": "do-not-tell"}),
            streams=(),
            target=Plugin(str(self.folder / "target-fake"), {"password": "do-not-tell"}),
            incremental=True,
            transport="auto",
            state=self.state,
            cron=None,
            timeout=30,
            alerts=Alerts(),
        )
        return replace(pipeline, **changes)

    def run(self, *, full=False, resume=False, files=None, **changes):
        options = {"full": full, "resume": resume, "files": files}
        return run_pipeline(self.pipeline(**changes), **options, report=self.lines.append)

    def fail(self, kind, **changes):
        with pytest.raises(kind) as caught:
            self.run(**changes)
        return caught.value

    def note(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else None

    @property
    def store(self):
        return create_state_store(self.state)


def is_running(pid):
    try:
        text = Path(f"/proc/{int(pid)}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


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

    def test_progress_is_told_in_plain_lines_while_it_runs(self, bench, monkeypatch):
        monkeypatch.setattr(transfer, "PROGRESS_SECONDS", 0.05)
        bench.write(
            "tap-fake",
            'say(type="RECORD", stream="o", record={})\nawait_note("go")\n'
            'say(type="RECORD", stream="o", record={})',
        )

        def report(line):
            bench.lines.append(line)
            if line == "o: 1 records...":
                (bench.folder / "go").touch()

        run_pipeline(bench.pipeline(), report=report)
        assert bench.lines == ["Running: p", "o: 1 records...", "o: 2 records..."]

    def test_a_process_that_the_target_left_behind_is_swept_away(self, bench):
        bench.write("target-fake", TARGET + 'note("left", subprocess.Popen(["sleep", "100"]).pid)')
        bench.run()

        assert bench.store.get("p").run_count == 1
        assert not is_running(bench.note("left"))


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
        assert bench.store.get_checkpoint("p") == {"bookmarks": {"orders": 3}}
        assert bench.store.get("p") is None

        bench.write("tap-fake", TAP)
        bench.run()
        assert bench.store.get_checkpoint("p") is None

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
        assert bench.store.get_checkpoint("p") == {"bookmarks": {"orders": 3}}

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

    @pytest.mark.parametrize("line", ["hello", "5", "[1]", "{", '{"a": NaN}', '"do-not-tell"'])
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

        error = bench.fail(TransientError, timeout=1)
        assert error.exit_code == 75
        assert "timeout of 1 seconds" in error.message
        for name in ("tap-fake.pid", "target-fake.pid", "grandchild"):
            assert not is_running(bench.note(name))

    def test_an_empty_command_file_is_error_78(self, bench):
        (bench.folder / "tap-fake").write_bytes(b"\x00\x01")

        error = bench.fail(SettingsError)
        assert error.exit_code == 78
        assert "tap-fake: cannot be started" in error.message
        assert bench.note("end-of-input") is None


class TestStateStoreTrouble:
    def test_a_store_out_of_order_fails_before_anything_starts(self, bench):
        (bench.folder / "state").write_text("a file")

        assert bench.fail(StateError).exit_code == 74
        assert bench.note("tap-fake.pid") is None

    def test_a_bucket_that_does_not_exist_is_error_74(self, bench, monkeypatch):
        server = ThreadedMotoServer(port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        try:
            assert bench.fail(StateError, state="s3://nowhere/state").exit_code == 74
            boto3.client("s3").create_bucket(Bucket="lake")
            bench.run(state="s3://lake/state")
            assert create_state_store("s3://lake/state").get("p").run_count == 1
        finally:
            server.stop()

    def test_a_state_that_cannot_be_stored_fails_the_run(self, bench, capfd):
        bench.run()
        bench.write(
            "target-fake",
            TARGET + 'subprocess.run(["rm", "-r", here + "/state"])\nnote("state", "now a file")',
        )

        assert bench.fail(StateError).exit_code == 74
        assert "Warning: the checkpoint of this run is lost" in capfd.readouterr().err

    def test_a_state_changed_during_the_run_is_not_overwritten(self, bench):
        bench.run()
        bench.write("target-fake", TARGET + 'note("state/p/state.json", \'{"edited": 1}\')')

        error = bench.fail(StateError)
        assert error.exit_code == 74
        assert "changed by someone else" in error.message
        assert bench.store.get("p").watermark == {"edited": 1}


class TestLock:
    def test_the_lock_is_held_during_the_run_and_gone_after_it(self, bench):
        bench.write("tap-fake", 'note("held", open(here + "/state/p/lock").read())\n' + TAP)
        result = bench.run()

        assert json.loads(bench.note("held"))["run_id"] == result.run_id
        assert not (bench.folder / "state/p/lock").exists()

    def test_a_failed_run_leaves_no_lock(self, bench):
        bench.write("tap-fake", "sys.exit(3)")
        bench.fail(ChildError)
        assert not (bench.folder / "state/p/lock").exists()

    def test_a_second_run_is_refused_before_anything_starts(self, bench):
        with locked(bench.store, "p"):
            error = bench.fail(LockedError)

        assert error.exit_code == 75
        assert bench.note("tap-fake.pid") is None
        assert bench.store.get("p") is None

    @pytest.mark.parametrize("loss", ["os.remove(lock)", "open(lock, 'w').write(other)"])
    def test_a_run_that_lost_its_lock_stores_neither_state_nor_checkpoint(self, bench, loss):
        bench.store.save(PipelineState("p", {"old": 1}))
        lose = f"""
lock = here + "/state/p/lock"
other = json.dumps({{**json.load(open(lock)), "run_id": "other"}})
{loss}
"""
        bench.write("target-fake", TARGET + lose)
        error = bench.fail(LostLockError)

        assert error.exit_code == 75
        assert bench.store.get("p").watermark == {"old": 1}
        assert bench.store.get_checkpoint("p") is None
        assert (bench.folder / "state/p/lock").exists() == ("remove" not in loss)

    def test_a_lost_lock_ends_a_run_in_the_middle(self, bench, monkeypatch):
        monkeypatch.setattr("singer_spark.state.lock.BEAT_SECONDS", 0.05)
        # Removed without the store's own lock, so that a heartbeat may put it back.
        remove = "while True:\n os.path.exists(lock) and os.remove(lock)\n time.sleep(0.01)"
        bench.write("tap-fake", TAP + 'lock = here + "/state/p/lock"\n' + remove)

        bench.fail(LostLockError)
        assert not is_running(bench.note("tap-fake.pid"))

    def test_the_lock_of_a_dead_run_is_taken_over(self, bench):
        old = "2026-01-01T00:00:00+00:00"
        dead = Holder(host="h", pid=1, run_id="dead", started_at=old, heartbeat_at=old)
        bench.store.documents.write("p/lock", dead.to_dict(), Expect.ABSENT)
        bench.run()

        assert bench.lines[1].startswith("Took over the lock of a dead run (process 1 on h, run de")
        assert bench.store.get("p").run_count == 1


class TestResume:
    @pytest.fixture
    def failed(self, bench):
        """A pipeline whose state is old and whose last run failed later."""
        bench.store.save(PipelineState("p", {"bookmarks": {"orders": 1}}))
        bench.store.save_checkpoint("p", {"bookmarks": {"orders": 2}})
        return bench

    def test_a_resumed_run_starts_from_the_checkpoint(self, failed):
        failed.run(resume=True)

        assert json.loads(failed.note("tap-state")) == {"bookmarks": {"orders": 2}}
        assert "Resuming (from the checkpoint of the failed run)" in failed.lines
        assert failed.store.get("p").watermark == {"bookmarks": {"orders": 3}}
        assert failed.store.get_checkpoint("p") is None

    def test_other_runs_start_from_the_state(self, failed):
        failed.run()
        assert json.loads(failed.note("tap-state")) == {"bookmarks": {"orders": 1}}

    def test_without_a_checkpoint_it_is_a_plain_run(self, bench):
        bench.store.save(PipelineState("p", {"old": 1}))
        bench.run(resume=True)

        assert json.loads(bench.note("tap-state")) == {"old": 1}
        assert "Incremental mode (using previous checkpoint)" in bench.lines

    def test_a_resumed_run_without_a_state_of_its_own_keeps_the_checkpoint_s(self, failed):
        failed.write("target-fake", "for line in sys.stdin: pass")
        failed.run(resume=True)

        assert failed.store.get("p").watermark == {"bookmarks": {"orders": 2}}

    def test_a_resumed_run_that_fails_too_leaves_the_state(self, failed):
        failed.write("tap-fake", "sys.exit(3)")
        failed.fail(ChildError, resume=True)

        assert failed.store.get("p").watermark == {"bookmarks": {"orders": 1}}
        assert failed.store.get_checkpoint("p") == {"bookmarks": {"orders": 2}}

    def test_a_damaged_checkpoint_is_error_74(self, failed):
        (failed.folder / "state/p/checkpoint.json").write_text("?")

        assert "checkpoint.json is damaged" in failed.fail(StateError, resume=True).message
        assert failed.note("tap-fake.pid") is None


class TestStateFiles:
    @pytest.fixture
    def given(self, bench):
        path = bench.folder / "in.json"
        path.write_text('{"old": 1}')
        return path

    @pytest.fixture
    def result(self, bench):
        return bench.folder / "out.json"

    def test_state_goes_from_file_to_file_and_no_store_is_used(self, bench, given, result):
        done = bench.run(files=StateFiles(given, result))

        assert json.loads(bench.note("tap-state")) == {"old": 1}
        assert json.loads(result.read_text()) == done.state == {"bookmarks": {"orders": 3}}
        assert not (bench.folder / "state").exists()

    def test_one_file_may_be_both_and_a_first_run_has_none(self, bench, result):
        bench.run(files=StateFiles(None, result))
        assert bench.note("tap-state") == "none"
        bench.run(files=StateFiles(result, result))
        assert json.loads(bench.note("tap-state")) == {"bookmarks": {"orders": 3}}

    def test_a_target_without_a_state_hands_the_given_one_on(self, bench, given, result):
        bench.write("target-fake", "for line in sys.stdin: pass")
        bench.run(files=StateFiles(given, result))
        assert json.loads(result.read_text()) == {"old": 1}

    def test_a_failed_run_leaves_the_file_alone(self, bench, given, result):
        result.write_text("before")
        bench.write("tap-fake", TAP + "sys.exit(3)")
        bench.fail(ChildError, files=StateFiles(given, result))
        assert result.read_text() == "before"

    def test_what_cannot_be_written_fails_before_anything_starts(self, bench):
        for path in (bench.folder, bench.folder / "none" / "out.json"):
            assert "--state-out" in bench.fail(SettingsError, files=StateFiles(None, path)).message
        assert bench.note("tap-fake.pid") is None

    def test_what_cannot_be_read_is_told(self, bench, given, result):
        missing = StateFiles(bench.folder / "none.json", result)
        assert "leave it out" in bench.fail(SettingsError, files=missing).message
        given.write_text("[]")
        error = bench.fail(StateError, files=StateFiles(given, result))
        assert "in.json is no Singer state" in error.message

    def test_a_pipe_is_written_to_and_not_replaced(self, bench):
        pipe = bench.folder / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        bench.run(files=StateFiles(None, pipe))

        assert json.loads(os.read(reader, 1000)) == {"bookmarks": {"orders": 3}}
        os.close(reader)


class TestSelection:
    CATALOG = {
        "streams": [
            {
                "tap_stream_id": "orders",
                "metadata": [
                    {"breadcrumb": [], "metadata": {"table-key-properties": ["id"]}},
                    {"breadcrumb": ["properties", "id"], "metadata": {"inclusion": "automatic"}},
                    {"breadcrumb": ["properties", "x"], "metadata": {"inclusion": "unsupported"}},
                ],
            },
            {"stream": "users"},
        ]
    }

    @pytest.fixture
    def choosy(self, bench):
        discover = f"if '--discover' in sys.argv: print({json.dumps(self.CATALOG)!r}); sys.exit()\n"
        tell = (
            'note("catalog", open(option("--catalog")).read() if option("--catalog") else "none")\n'
        )
        bench.write("tap-fake", discover + tell + TAP)
        return bench

    def test_chosen_streams_are_marked_and_no_others(self, choosy):
        choosy.run(streams=("orders",))

        orders, users = json.loads(choosy.note("catalog"))["streams"]
        chosen = {tuple(node["breadcrumb"]): node["metadata"] for node in orders["metadata"]}
        assert chosen == {
            (): {"table-key-properties": ["id"], "selected": True},
            ("properties", "id"): {"inclusion": "automatic", "selected": True},
            ("properties", "x"): {"inclusion": "unsupported", "selected": False},
        }
        assert users["metadata"] == [{"breadcrumb": [], "metadata": {"selected": False}}]

    def test_without_a_choice_the_tap_gets_no_catalog(self, choosy):
        choosy.run()
        assert choosy.note("catalog") == "none"

    def test_an_unknown_stream_lists_those_there_are(self, choosy):
        error = choosy.fail(SettingsError, streams=("orders", "nix", "nada"))
        assert error.exit_code == 78
        assert "offers no nada, nix; available: orders, users" in error.message
        assert choosy.note("target-fake.pid") is None

    def test_a_failing_discovery_keeps_its_exit_code(self, bench):
        bench.write("tap-fake", "sys.exit(69)")
        assert bench.fail(ChildError, streams=("x",)).exit_code == 69

    @pytest.mark.parametrize("output", ["", "hello", "[]", '{"streams": 5}'])
    def test_a_discovery_without_catalog_is_error_76(self, bench, output):
        bench.write("tap-fake", f"print({output!r})")
        assert bench.fail(ProtocolError, streams=("x",)).exit_code == 76


class TestSecrets:
    def test_secrets_travel_in_private_files_that_do_not_stay(self, bench, capfd):
        spy = """
path = option("--config")
note("%s-seen", json.dumps({"argv": sys.argv, "path": path, "config": json.load(open(path)),
    "file": os.stat(path).st_mode, "folder": os.stat(os.path.dirname(path)).st_mode}))
"""
        bench.write("tap-fake", spy % "tap" + TAP)
        bench.write("target-fake", spy % "target" + TARGET + "sys.exit(1)")
        error = bench.fail(ChildError)

        for name in ("tap", "target"):
            seen = json.loads(bench.note(f"{name}-seen"))
            assert seen["config"] == {"password": "do-not-tell"}
            assert "do-not-tell" not in str(seen["argv"])
            assert stat.S_IMODE(seen["file"]) == 0o600
            assert stat.S_IMODE(seen["folder"]) == 0o700
            assert not Path(seen["path"]).parent.exists()
        output = capfd.readouterr()
        assert "do-not-tell" not in output.out + output.err + error.message + str(bench.lines)


class TestCommands:
    def test_a_command_is_found_beside_the_python_that_runs_us(self, bench, monkeypatch):
        monkeypatch.setenv("PATH", os.defpath)
        monkeypatch.setattr(sys, "executable", str(bench.folder / "python"))

        command = find_command("source.tap", Plugin("tap-fake", {}))
        assert command.argv == (str(bench.folder / "tap-fake"),)

    def test_a_missing_command_says_what_to_install(self):
        with pytest.raises(SettingsError, match="pip install tap-that-is-not-there") as caught:
            find_command("source.tap", Plugin("tap-that-is-not-there", {}))
        assert caught.value.exit_code == 78
        assert caught.value.message.startswith("source.tap:")
