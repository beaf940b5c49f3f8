"""Where the state of a run comes from and goes: store, lock, checkpoint, files."""

from __future__ import annotations

import json
import os

import pytest

from singer_spark.errors import SettingsError, StateError
from singer_spark.runner import RunOptions, StateFiles
from singer_spark.runner.supervisor import ChildError
from singer_spark.state import PipelineState
from singer_spark.state.change import replace_state
from singer_spark.state.holder import Holder, LockedError, LostLockError
from singer_spark.state.lock import locked
from singer_spark.storage.objects import Expect
from tests.support.bench import TAP, TARGET, is_running


class TestStateStoreTrouble:
    def test_a_store_out_of_order_fails_before_anything_starts(self, bench):
        (bench.folder / "state").write_text("a file")

        assert bench.fail(StateError).exit_code == 74
        assert bench.note("tap-fake.pid") is None

    @pytest.mark.usefixtures("s3")
    def test_a_bucket_that_does_not_exist_is_error_74(self, bench):
        assert bench.fail(StateError, state="s3://nowhere/state").exit_code == 74

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
        assert bench.store.read_checkpoint("p") is None
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

        assert bench.lines[1].startswith("Watching the lock of process 1 on h, run dead, started")
        assert bench.lines[2].startswith("Took over the lock of a dead run (process 1 on h, run de")
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
        assert failed.store.read_checkpoint("p") is None

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
        assert failed.store.read_checkpoint("p").state == {"bookmarks": {"orders": 2}}

    def test_a_damaged_checkpoint_is_error_74(self, failed):
        (failed.folder / "state/p/checkpoint.json").write_text("?")

        assert "checkpoint.json is damaged" in failed.fail(StateError, resume=True).message
        assert failed.note("tap-fake.pid") is None


# Reads what is left, as a tap does: a stream without a bookmark from its start.
TWO_STREAMS = """
given = option("--state")
state = json.load(open(given)) if given else {}
note("tap-state", json.dumps(state))
note("run-file", open(os.environ["SINGER_SPARK_RUN_FILE"]).read())
"""


class TestResumeOfThatRun:
    """--resume goes on with the run that failed, be it one in full or of some streams."""

    OLD = {"bookmarks": {"orders": 5, "items": 5}}

    @pytest.fixture
    def known(self, bench):
        bench.store.save(PipelineState("p", self.OLD, run_count=1))
        return bench

    def fail_with(self, bench, *states, **options):
        said = "".join(f'say(type="STATE", value={state!r})\n' for state in states)
        wait = 'await_note("committed")\n' if states else ""
        bench.write("tap-fake", TWO_STREAMS + said + wait + "sys.exit(3)")
        bench.fail(ChildError, RunOptions(**options))

    def resume(self, bench):
        bench.write("tap-fake", TWO_STREAMS + 'say(type="STATE", value={"bookmarks": {"o": 9}})')
        bench.run(resume=True)
        return json.loads(bench.note("tap-state")), json.loads(bench.note("run-file"))["reload"]

    @pytest.mark.parametrize(
        ("options", "state", "reload", "line"),
        [
            ({"full": True}, {}, ["*"], "Resuming --full (from"),
            (
                {"refresh": ("orders",)},
                {"bookmarks": {"items": 5}},
                ["orders"],
                "Resuming --refresh orders (from",
            ),
        ],
    )
    def test_one_that_failed_before_its_first_state_starts_as_it_started(
        self, known, options, state, reload, line
    ):
        self.fail_with(known, **options)

        assert self.resume(known) == (state, reload)
        assert any(said.startswith(line) for said in known.lines)
        assert known.store.get("p").watermark == {"bookmarks": {"o": 9}}
        assert known.store.read_checkpoint("p") is None

    def test_what_it_had_loaded_goes_on_and_the_rest_is_still_reloaded(self, known):
        reached = {"bookmarks": {"orders": 2}}
        self.fail_with(known, reached, full=True)

        assert known.store.read_checkpoint("p").state == reached
        assert self.resume(known) == (reached, ["items"])

    def test_one_that_fails_again_and_again_is_still_that_run(self, known):
        self.fail_with(known, full=True)
        self.fail_with(known, resume=True)
        self.fail_with(known, {"bookmarks": {"orders": 2}}, resume=True)
        self.fail_with(known, resume=True)
        assert self.resume(known) == ({"bookmarks": {"orders": 2}}, ["items"])

    def test_one_that_was_killed_is_resumed_as_well(self, known):
        killed = 'os.kill(int(os.environ["RUNNER"]), signal.SIGKILL)\n'
        known.write("tap-fake", killed + "time.sleep(60)")
        child = os.fork()
        if not child:
            os.environ["RUNNER"] = str(os.getpid())
            try:
                known.run(full=True)
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
        assert self.resume(known) == ({}, ["*"])

    def test_a_plain_run_that_fails_later_is_what_is_resumed_then(self, known):
        self.fail_with(known, full=True)
        self.fail_with(known, {"bookmarks": {"orders": 6, "items": 5}})
        assert self.resume(known) == ({"bookmarks": {"orders": 6, "items": 5}}, [])

    def test_a_state_that_was_set_afterwards_wins(self, known):
        self.fail_with(known, full=True)
        replace_state(known.store, known.store.get("p"), {"bookmarks": {"orders": 1}})
        assert self.resume(known) == ({"bookmarks": {"orders": 1}}, [])

    def test_a_run_that_succeeded_leaves_nothing_to_resume(self, known):
        self.fail_with(known, full=True)
        known.write("tap-fake", TAP)
        known.run()
        assert self.resume(known)[1] == []

    @pytest.mark.parametrize(
        "kind", ["{}", '{"mode": "full"}', '{"mode": "full", "streams": 1, "reload": []}']
    )
    def test_a_kind_that_makes_no_sense_is_a_damaged_checkpoint(self, known, kind):
        (known.folder / "state/p/checkpoint.json").write_text(
            f'{{"singer_spark": {kind}, "state": {{}}}}'
        )
        assert "checkpoint.json is damaged" in known.fail(StateError, resume=True).message


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
