"""State in Meltano's layout: each reads what the other wrote, and respects its lock."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from dataclasses import replace

import pytest
from meltano.core.state_store.base import MeltanoState
from meltano.core.state_store.filesystem import LocalFilesystemStateStoreManager
from meltano.core.state_store.s3.backend import S3StateStoreManager

from singer_spark.errors import SettingsError, StateError
from singer_spark.state import PipelineState, create_state_store
from singer_spark.state.lock import RunLock
from singer_spark.state.runs import save_run
from singer_spark.storage import meltano as module
from tests.support.commands import command

ID = "dev:tap-a-to-target-b"
STATE = {"bookmarks": {"orders": {"replication_key_value": "2026-01-31 ü"}}}


@pytest.fixture(params=["folder", "s3"])
def both(request, tmp_path):
    """Our store and Meltano's own, on the same place."""
    if request.param == "folder":
        uri = f"file://{tmp_path}/state"
        theirs = LocalFilesystemStateStoreManager(uri=uri, lock_timeout_seconds=10)
    else:
        uri = f"s3://{request.getfixturevalue('s3')}/state"
        endpoint = request.getfixturevalue("s3_endpoint")
        keys = {"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": "do-not-tell"}
        theirs = S3StateStoreManager(
            uri=uri, lock_timeout_seconds=10, endpoint_url=endpoint, **keys
        )
    return create_state_store(f"meltano+{uri}"), theirs


@pytest.fixture
def ours(tmp_path):
    return create_state_store(f"meltano+file://{tmp_path}")


def complete(state):
    return MeltanoState(ID, completed_state={"singer_state": state}, partial_state={})


class TestTogether:
    def test_meltano_reads_what_we_wrote(self, both):
        ours, theirs = both
        ours.save(PipelineState(ID, STATE, "r", "2026-01-31T10:00:00+00:00", 1))
        ours.save_checkpoint(ID, {"later": 1})
        save_run(ours, ID, {"run_id": "r"})
        RunLock(ours, ID, "r").acquire()

        assert list(theirs.get_state_ids()) == [ID]
        assert json.loads(theirs.get(ID).json_merged()) == {"singer_state": STATE}
        assert not theirs.is_locked(ID)

    def test_we_read_what_meltano_wrote(self, both):
        ours, theirs = both
        theirs.update(complete(STATE))

        assert ours.get(ID) == PipelineState(ID, STATE)
        assert ours.list_pipelines() == [ID]

    def test_a_partial_state_is_merged_as_meltano_does(self, both):
        ours, theirs = both
        theirs.update(complete({"bookmarks": {"a": {"n": 1, "deep": {"x": 1}}, "b": 1}}))
        partial = {"singer_state": {"bookmarks": {"a": {"n": 2, "deep": {"y": 2}}, "c": [3]}}}
        theirs.update(MeltanoState(ID, partial_state=partial, completed_state={}))

        merged = json.loads(theirs.get(ID).json_merged())["singer_state"]
        assert ours.get(ID).watermark == merged
        assert merged["bookmarks"]["a"] == {"n": 2, "deep": {"x": 1, "y": 2}}

    def test_a_state_that_meltano_changed_during_a_run_is_not_overwritten(self, both):
        ours, theirs = both
        ours.save(PipelineState(ID, STATE))
        read = ours.get(ID)
        theirs.update(complete({"newer": True}))

        with pytest.raises(StateError, match="someone else"):
            ours.save(replace(read, watermark={"older": True}))
        assert ours.get(ID).watermark == {"newer": True}

    def test_a_state_cleared_by_meltano_is_gone_and_its_history_is_not(self, both):
        ours, theirs = both
        ours.save(PipelineState(ID, STATE, run_count=3))
        theirs.clear(ID)

        assert ours.get(ID) == PipelineState(ID, {}, run_count=3)
        assert ours.save(replace(ours.get(ID), watermark=STATE)).watermark == STATE

    def test_a_state_deleted_by_us_is_unknown_to_meltano(self, both):
        ours, theirs = both
        theirs.update(complete(STATE))
        ours.delete(ID)

        assert theirs.get(ID) is None
        assert list(theirs.get_state_ids()) == []

    def test_an_own_lock_of_meltano_is_waited_for(self, both):
        ours, theirs = both
        release = threading.Event()

        def change():
            with theirs.acquire_lock(ID, retry_seconds=0.1):
                release.wait(10)

        other = threading.Thread(target=change)
        other.start()
        while not theirs.is_locked(ID):
            time.sleep(0.01)
        begun = time.monotonic()
        threading.Timer(0.3, release.set).start()
        ours.save(PipelineState(ID, STATE))
        other.join()

        assert time.monotonic() - begun >= 0.3
        assert not theirs.is_locked(ID)


class TestDocument:
    @pytest.mark.parametrize(
        ("document", "state"),
        [
            ({}, {}),
            ({"completed": {}, "partial": {}}, {}),
            ({"completed": None, "partial": None}, {}),
            ({"completed": {"singer_state": {"a": 1}}}, {"a": 1}),
            ({"partial": {"singer_state": {"a": 1}}}, {"a": 1}),
        ],
    )
    def test_every_shape_that_meltano_writes(self, ours, tmp_path, document, state):
        (tmp_path / "p").mkdir()
        (tmp_path / "p" / "state.json").write_text(json.dumps(document))
        assert ours.get("p").watermark == state

    @pytest.mark.parametrize("text", ['{"bookmarks": {}}', '{"completed": 5}', "[]", "", "{"])
    def test_anything_else_is_damage_and_never_overwritten(self, ours, tmp_path, text):
        (tmp_path / "p").mkdir()
        (tmp_path / "p" / "state.json").write_text(text)
        with pytest.raises(StateError, match=r"p/state\.json is damaged"):
            ours.get("p")

    def test_a_message_names_the_file_that_is_meant(self, ours, tmp_path):
        ours.save(PipelineState("p", STATE))
        (tmp_path / ".singer-spark" / "p" / "meta.json").write_text("?")
        with pytest.raises(StateError, match=r"/\.singer-spark/p/meta\.json is damaged"):
            ours.get("p")


class TestLock:
    def test_a_dead_lock_is_passed_over(self, ours, tmp_path):
        (tmp_path / "p").mkdir()
        (tmp_path / "p" / "lock").write_text(str(time.time() - 60))
        ours.save(PipelineState("p", STATE))
        assert not (tmp_path / "p" / "lock").exists()

    @pytest.mark.parametrize("text", ["now", ""])
    def test_one_that_never_ends_is_told(self, ours, tmp_path, monkeypatch, text):
        monkeypatch.setattr(module, "WAIT_SECONDS", 0.1)
        (tmp_path / "p").mkdir()
        (tmp_path / "p" / "lock").write_text(str(time.time()) if text else "")
        with pytest.raises(StateError, match="Meltano keeps changing this state"):
            ours.save(PipelineState("p", STATE))

    def test_a_state_half_written_by_meltano_is_read_when_it_is_whole(self, ours, tmp_path):
        (tmp_path / "p").mkdir()
        file, lock = tmp_path / "p" / "state.json", tmp_path / "p" / "lock"
        lock.write_text(str(time.time()))
        file.write_text('{"completed": {"singer')

        def finish():
            file.write_text(json.dumps({"completed": {"singer_state": STATE}, "partial": {}}))
            lock.unlink()

        threading.Timer(0.2, finish).start()
        assert ours.get("p").watermark == STATE


@pytest.mark.slow
def test_the_command_of_meltano_reads_what_we_wrote_and_we_what_it_wrote(tmp_path):
    (tmp_path / "meltano.yml").write_text(f"state_backend: {{uri: 'file://{tmp_path}/state'}}\n")
    own = {name: value for name, value in os.environ.items() if not name.startswith("MELTANO")}
    env = {**own, "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false"}
    meltano = [command("meltano"), "--no-environment", "state"]

    def call(*arguments):
        return subprocess.run(
            [*meltano, *arguments], cwd=tmp_path, env=env, capture_output=True, check=True
        ).stdout

    ours = create_state_store(f"meltano+file://{tmp_path}/state")
    ours.save(PipelineState(ID, STATE))
    assert json.loads(call("get", ID)) == {"singer_state": STATE}
    call("set", "--force", ID, json.dumps({"singer_state": {"newer": 1}}))
    assert ours.get(ID).watermark == {"newer": 1}


@pytest.mark.parametrize(
    "url", ["meltano+sqlite:///x.db", "meltano+postgresql://h/d", "meltano+x://y"]
)
def test_the_layout_exists_in_files_and_buckets_only(url):
    with pytest.raises(SettingsError, match="Meltano's layout"):
        create_state_store(url)
