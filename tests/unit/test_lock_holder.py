"""Who holds a lock, whether it lives, and how a dead one is ended by hand."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from click.testing import CliRunner

from singer_spark.cli import main
from singer_spark.state import create_state_store
from singer_spark.state.holder import Holder, new_run_id, read_lock
from singer_spark.storage.objects import Expect
from tests.support.locks import ago, write_lock


@pytest.fixture
def folder(tmp_path):
    return create_state_store(tmp_path / "state")


class TestHolder:
    @pytest.mark.skipif(sys.platform != "linux", reason="process ids are looked up in /proc")
    def test_a_process_that_is_gone_here_is_dead_at_once(self):
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()

        assert replace(Holder.here("r"), pid=gone.pid).is_dead
        assert not Holder.here("r").is_dead
        assert not replace(Holder.here("r"), pid=gone.pid, machine="another").is_dead

    def test_silence_is_death_and_a_clock_ahead_is_not(self):
        here = Holder.here("r")

        assert replace(here, heartbeat_at=ago(301)).is_dead
        assert not replace(here, heartbeat_at=ago(290)).is_dead
        assert not replace(here, heartbeat_at=ago(-3600)).is_dead

    def test_run_ids_are_uuids_that_sort_by_time(self):
        ids = []
        for _ in range(5):
            ids.append(new_run_id())
            time.sleep(0.002)
        assert ids == sorted(ids)
        assert all(
            re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab].{16}", i) for i in ids
        )


class TestUnlock:
    def unlock(self, folder, *options, answer=None):
        arguments = ["unlock", "p", "--state", folder.objects.place, *options]
        return CliRunner().invoke(main, arguments, input=answer)

    def test_what_is_not_locked_is_no_error(self, folder):
        result = self.unlock(folder)
        assert (result.exit_code, result.output) == (0, "p is not locked\n")

    def test_a_dead_lock_is_ended_after_a_yes(self, folder):
        write_lock(folder, heartbeat_at=ago(1000))

        assert self.unlock(folder, answer="n\n").exit_code == 1
        assert read_lock(folder, "p")[0]
        result = self.unlock(folder, answer="y\n")
        assert result.exit_code == 0
        assert "locked by process" in result.stdout
        assert "Warning" not in result.output
        assert read_lock(folder, "p") == (None, Expect.ABSENT)

    def test_a_lock_that_looks_alive_is_warned_of(self, folder):
        write_lock(folder)
        result = self.unlock(folder, "--yes")

        assert result.exit_code == 0
        assert "looks alive" in result.stderr
        assert "p is unlocked" in result.stdout

    def test_a_heartbeat_while_it_asks_does_not_matter_but_another_run_does(
        self, folder, monkeypatch
    ):
        for run_id, code in (("other-run", 0), ("a-newer-run", 75)):
            write_lock(folder)

            def confirm(*_, run_id=run_id, **__):
                holder = replace(read_lock(folder, "p")[0].renewed(), run_id=run_id)
                folder.documents.write("p/lock", holder.to_dict(), Expect.ANYTHING)

            monkeypatch.setattr("singer_spark.cli.unlock.click.confirm", confirm)
            assert self.unlock(folder).exit_code == code
        assert read_lock(folder, "p")[0].run_id == "a-newer-run"

    def test_a_damaged_lock_is_ended_too(self, folder):
        folder.objects.write("p/lock", b"?", Expect.ABSENT)

        assert self.unlock(folder, "--yes").exit_code == 0
        assert read_lock(folder, "p") == (None, Expect.ABSENT)
