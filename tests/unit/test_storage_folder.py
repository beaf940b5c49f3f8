"""What is particular to state in a folder."""

from __future__ import annotations

import fcntl
import os
import threading
from dataclasses import replace

import pytest

from singer_spark.errors import StateError
from singer_spark.state import PipelineState, create_state_store
from singer_spark.storage import folder
from tests.support.stores import STATE


class TestFolder:
    def test_an_interrupted_write_leaves_the_old_file_and_no_rubbish(self, tmp_path, monkeypatch):
        store = create_state_store(tmp_path)
        saved = store.save(STATE)

        def fail(_descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("singer_spark.storage.folder.os.fsync", fail)
        with pytest.raises(StateError, match="No space left on device"):
            store.save(replace(saved, watermark={"new": 1}))
        assert create_state_store(tmp_path).get("shop-orders") == STATE
        names = {path.name for path in (tmp_path / "shop-orders").iterdir()}
        assert names == {"state.json", "meta.json"}

    def test_of_many_writers_exactly_one_wins(self, tmp_path):
        wins, start = [], threading.Barrier(8)

        def race(number):
            store = create_state_store(tmp_path)
            store.get("p")
            start.wait()
            try:
                store.save(PipelineState("p", {"writer": number}))
            except StateError:
                return
            wins.append(number)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(wins) == 1
        assert create_state_store(tmp_path).get("p").watermark == {"writer": wins[0]}

    def test_a_process_that_was_stopped_while_it_wrote_hangs_no_other(self, tmp_path, monkeypatch):
        monkeypatch.setattr(folder, "WAIT_SECONDS", 0.1)
        store = create_state_store(tmp_path)
        saved = store.save(STATE)
        with (tmp_path / ".write.lock").open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(StateError, match=r"held for 0.1 seconds .* lsof .*\.write\.lock"):
                store.save(saved)
        store.save(saved)

    def test_a_place_that_is_no_folder_is_error_74(self, tmp_path):
        (tmp_path / "file").write_text("")

        with pytest.raises(StateError) as caught:
            create_state_store(tmp_path / "file").save(STATE)
        assert caught.value.exit_code == 74
        assert str(tmp_path / "file") in caught.value.message

    def test_the_group_that_shares_the_folder_may_read(self, tmp_path):
        before = os.umask(0o027)
        try:
            create_state_store(tmp_path).save(STATE)
        finally:
            os.umask(before)
        assert (tmp_path / "shop-orders" / "state.json").stat().st_mode & 0o777 == 0o640
