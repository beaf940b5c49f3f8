"""The records of runs: what they hold, whatever the end, and how they are listed."""

from __future__ import annotations

import json
import socket
import sys
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from singer_spark.cli import main
from singer_spark.cli.output import lay_out
from singer_spark.errors import SettingsError, StateError
from singer_spark.figures import format_count, format_milliseconds
from singer_spark.pipeline import load_pipeline
from singer_spark.runner import PlainDisplay, run_pipeline
from singer_spark.runner.record import RunRecord
from singer_spark.runner.supervisor import ChildError
from singer_spark.state import PipelineState, create_state_store
from singer_spark.state.holder import Holder, LockedError, new_run_id
from singer_spark.state.lock import BY_HAND, locked
from singer_spark.state.runs import list_runs, prune_runs, save_run
from singer_spark.storage.folder import FolderObjects
from singer_spark.storage.objects import Expect

TAP = """
for n in range(3): say(type="RECORD", stream="orders", record={"n": n})
say(type="SCHEMA", stream="empty", schema={}, key_properties=[])
say(type="STATE", value={"bookmarks": {"orders": 3}})
"""
TARGET = """
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "STATE": say(**message["value"])
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "p.yml").write_text(
        "name: p\n"
        f"source: {{tap: {tmp_path}/tap-fake, config: {{password: do-not-tell}}}}\n"
        f"destination: {{target: {tmp_path}/target-fake}}\n"
        "state: state\n"
    )
    monkeypatch.chdir(tmp_path)
    write("tap-fake", TAP)
    write("target-fake", TARGET)
    return tmp_path


def write(name, body):
    head = "import json, sys\ndef say(**message): print(json.dumps(message), flush=True)\n"
    Path(name).write_text(f"#!{sys.executable} -SE\n{head}{body}")
    Path(name).chmod(0o755)


def run():
    return run_pipeline(
        load_pipeline(Path("pipelines/p.yml")), display=PlainDisplay(lambda _: None)
    )


def records():
    return list_runs(create_state_store("state"), "p")


@pytest.mark.usefixtures("work")
class TestRecord:
    def test_a_successful_run_is_recorded_whole(self):
        create_state_store("state").save(PipelineState("p", {"bookmarks": {"orders": 1}}))
        result = run()

        (record,) = records()
        assert record == result.record
        assert record["run_id"] == result.run_id
        assert record["status"] == "succeeded"
        assert (record["exit_code"], record["error"]) == (0, None)
        assert record["records"] == 3
        counts = {name: facts["records"] for name, facts in record["streams"].items()}
        assert counts == {"orders": 3, "empty": 0}
        assert record["bytes"] > 200
        assert record["bookmarks_before"] == {"orders": 1}
        assert record["bookmarks_after"] == {"orders": 3}
        assert record["host"] == socket.gethostname()
        assert set(record["versions"]) == {"singer_spark", "python", "tap", "target"}
        started, finished = (
            datetime.fromisoformat(record[key]) for key in ("started_at", "finished_at")
        )
        took = (finished - started).total_seconds() * 1000
        assert abs(took - record["milliseconds"]) <= 1

    def test_a_failed_run_is_recorded_with_its_one_line_and_no_secret(self):
        run()
        write("tap-fake", TAP + "sys.exit(3)")
        with pytest.raises(ChildError):
            run()

        record = records()[0]
        assert record["status"] == "failed"
        assert record["exit_code"] == 3
        assert record["error"].startswith("tap-fake failed with exit code 3")
        assert record["records"] == 3
        assert record["bookmarks_after"] == record["bookmarks_before"] == {"orders": 3}
        assert "do-not-tell" not in json.dumps(record)

    def test_a_missing_command_is_a_failed_run_too(self):
        Path("tap-fake").unlink()
        result = CliRunner().invoke(main, ["run", "p"])

        assert result.exit_code == 78
        assert records()[0]["exit_code"] == 78

    def test_a_run_refused_by_the_lock_is_none(self):
        with locked(create_state_store("state"), "p"), pytest.raises(LockedError):
            run()
        assert records() == []

    def test_a_success_that_cannot_be_recorded_fails_but_keeps_its_state(self, monkeypatch):
        def fail(*_):
            raise StateError("no room")

        monkeypatch.setattr("singer_spark.runner.state_store.save_run", fail)
        with pytest.raises(StateError, match=r"the state is stored, but .* no room") as caught:
            run()
        assert caught.value.exit_code == 74
        store = create_state_store("state")
        assert store.get("p").watermark == {"bookmarks": {"orders": 3}}
        assert store.read_checkpoint("p") is None

    def test_a_failure_that_cannot_be_recorded_keeps_its_own_error(self, monkeypatch, capfd):
        def fail(*_):
            raise StateError("no room")

        monkeypatch.setattr("singer_spark.runner.state_store.save_run", fail)
        write("tap-fake", "sys.exit(3)")
        with pytest.raises(ChildError):
            run()
        assert "Warning: the record of this run is lost: no room" in capfd.readouterr().err

    @pytest.mark.parametrize("run_id", ["died", f"{BY_HAND}x"])
    def test_a_run_that_died_is_recorded_by_the_one_that_takes_over(self, run_id):
        store = create_state_store("state")
        store.save(PipelineState("p", {"bookmarks": {"orders": 1}}))
        times = {
            "started_at": "2026-01-01T00:00:00+00:00",
            "heartbeat_at": "2026-01-01T00:01:00+00:00",
        }
        dead = Holder(host="elsewhere", pid=1, run_id=run_id, **times)
        store.documents.write("p/lock", dead.to_dict(), Expect.ABSENT)
        run()

        died = [record for record in records() if record["run_id"] == run_id]
        assert len(died) == (run_id == "died")
        for record in died:
            assert record["exit_code"] == 137
            assert record["status"] == "failed"
            assert record["host"] == "elsewhere"
            assert record["milliseconds"] == 60_000
            assert record["bookmarks_after"] == {"orders": 1}

    def test_of_a_dead_run_its_own_record_counts(self):
        store = create_state_store("state")
        save_run(store, "p", {"run_id": "died", "own": True})
        old = "2026-01-01T00:00:00+00:00"
        dead = Holder(host="h", pid=1, run_id="died", started_at=old, heartbeat_at=old)
        store.documents.write("p/lock", dead.to_dict(), Expect.ABSENT)
        run()

        assert {"run_id": "died", "own": True} in records()

    def test_of_an_unplanned_error_only_the_kind_is_told(self):
        record = RunRecord(pipeline="p", run_id="r")
        record.close(ValueError("do-not-tell"))

        assert record.to_dict()["error"] == "unexpected ValueError"
        assert record.to_dict()["exit_code"] == 1

    def test_a_state_without_bookmarks_is_told_whole(self):
        record = RunRecord(pipeline="p", run_id="r", state_after={"since": 5})
        assert record.to_dict()["bookmarks_after"] == {"since": 5}


@pytest.mark.usefixtures("work")
class TestList:
    def runs(self, *options):
        return CliRunner().invoke(main, ["runs", "p", *options])

    def test_no_run_is_said_so(self):
        assert self.runs().output == "p has not been run yet\n"
        assert json.loads(self.runs("--json").output) == []

    def test_the_newest_is_first_and_the_table_fits_a_terminal(self):
        first = run().record
        write("tap-fake", "sys.exit(3)")
        with pytest.raises(ChildError):
            run()
        result = self.runs()

        head, newest, error, oldest = result.output.splitlines()
        assert head.split() == [
            "STARTED", "(UTC)", "TOOK", "RECORDS", "CHANGED", "WATERMARK", "LAG", "EXIT",
        ]  # fmt: skip
        assert newest.endswith("3")
        assert error.startswith("  tap-fake failed with exit code 3")
        assert oldest.startswith(first["started_at"][:16].replace("T", " "))
        assert all(len(line) <= 80 for line in result.output.splitlines())

    def test_a_limit_shows_the_newest(self):
        store = create_state_store("state")
        for number in range(5):
            save_run(store, "p", {"run_id": f"r{number}"})

        assert [run["run_id"] for run in list_runs(store, "p", 2)] == ["r4", "r3"]
        shown = json.loads(self.runs("--json", "--limit", "2").output)
        assert [run["run_id"] for run in shown] == ["r4", "r3"]
        assert len(self.runs().output.splitlines()) == 6

    def test_a_store_is_addressed_directly(self):
        save_run(create_state_store("other"), "q", {"run_id": "r"})
        result = CliRunner().invoke(main, ["runs", "q", "--state", "other", "--json"])

        assert json.loads(result.output) == [{"pipeline": "q", "run_id": "r"}]

    def test_a_damaged_record_is_named(self):
        save_run(create_state_store("state"), "p", {"run_id": "r"})
        Path("state/p/runs/r.json").write_text("?")
        Path("state/p/summary.json").unlink()

        result = self.runs()
        assert result.exit_code == 74
        assert "p/runs/r.json is damaged" in result.output


class TestTable:
    def test_columns_are_aligned_and_cut(self):
        assert lay_out([("A", "N"), ("bb", "10")], right=(1,)) == ["A    N", "bb  10"]
        assert len(lay_out([("x" * 100,)])[0]) == 80

    @pytest.mark.parametrize(
        ("count", "told"), [(0, "0"), (9_999_999, "9,999,999"), (12_345_678, "12.3M")]
    )
    def test_counts_are_short(self, count, told):
        assert format_count(count) == told

    @pytest.mark.parametrize(
        ("milliseconds", "told"), [(90, "0.09 s"), (119_000, "119 s"), (7_200_000, "2 h")]
    )
    def test_durations_are_short(self, milliseconds, told):
        assert format_milliseconds(milliseconds) == told


class TestKeepRuns:
    @pytest.fixture
    def deleted(self, monkeypatch):
        """Records what is deleted of a folder store."""
        gone, delete = [], FolderObjects.delete
        monkeypatch.setattr(
            FolderObjects,
            "delete",
            lambda self, key, *more: (gone.append(key), delete(self, key, *more)),
        )
        return gone

    def test_records_beyond_are_removed_whatever_the_end(self, work):
        with (work / "pipelines/p.yml").open("a") as file:
            file.write("keep_runs: 3\n")
        for _ in range(4):
            run()
        write("tap-fake", "sys.exit(3)")
        with pytest.raises(ChildError):
            run()
        left = sorted(path.stem for path in (work / "state/p/runs").iterdir())
        known = [record["run_id"] for record in list_runs(create_state_store("state"), "p", 5)]
        assert left == sorted(known)[-3:]

    def test_a_long_history_goes_by_a_hundred_at_a_time(self, tmp_path, deleted):
        store = create_state_store(tmp_path)
        for number in range(350):
            store.objects.write(f"p/runs/{number:04}.json", b"{}", Expect.ABSENT)
        for _ in range(4):
            prune_runs(store, "p", 10, "run")
        assert len(deleted) == 340
        assert max(deleted) == "p/runs/0339.json"
        assert deleted.index("p/runs/0000.json") < 100

    def test_where_many_are_kept_they_are_listed_now_and_then(self, tmp_path, monkeypatch):
        store, listed = create_state_store(tmp_path), []
        monkeypatch.setattr(FolderObjects, "list", lambda *_: listed.append(1) or [])
        for _ in range(320):
            prune_runs(store, "p", 1000, new_run_id())
        assert 1 <= len(listed) < 100

    @pytest.mark.parametrize(
        ("given", "kept"), [("", 1000), ("keep_runs: 5\n", 5), ("keep_runs: null\n", None)]
    )
    def test_a_thousand_are_kept_unless_the_file_says_otherwise(self, work, given, kept):
        with (work / "pipelines/p.yml").open("a") as file:
            file.write(given)
        assert load_pipeline(work / "pipelines/p.yml").keep_runs == kept

    def test_what_is_no_number_is_refused(self, work):
        with (work / "pipelines/p.yml").open("a") as file:
            file.write("keep_runs: 0\n")
        with pytest.raises(SettingsError, match="keep_runs: must be a whole number above 0"):
            load_pipeline(work / "pipelines/p.yml")
