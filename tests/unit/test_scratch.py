"""Private folders, and what becomes of those whose owner was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from singer_spark.scratch import make_scratch, remove_scratch, sweep

OWNER = "import sys, time; from singer_spark.scratch import make_scratch; " \
    "f = make_scratch('ours-', sys.argv[1]); (f / 'secret').write_text('x'); " \
    "print(f, flush=True); time.sleep(60)"  # fmt: skip


def test_a_folder_of_a_living_process_stays(tmp_path):
    folder = make_scratch("ours-", tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sweep("ours-", tmp_path) == []
    assert folder.is_dir()
    remove_scratch(folder)
    assert not folder.exists()


def test_a_folder_of_a_killed_process_is_swept_by_the_next(tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    left = owner.stdout.readline().strip()
    assert sweep("ours-", tmp_path) == []
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert [str(folder) for folder in sweep("ours-", tmp_path)] == [left]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_an_owner_is_somebody_elses(tmp_path):
    (tmp_path / "ours-notes").mkdir()
    assert sweep("ours-", tmp_path) == []
    assert (tmp_path / "ours-notes").is_dir()


def test_an_empty_folder_of_a_process_that_died_at_once_goes_after_an_hour(tmp_path):
    young, old = tmp_path / "ours-young", tmp_path / "ours-old"
    for folder in (young, old):
        folder.mkdir()
    os.utime(old, (0, 0))
    sweep("ours-", tmp_path)
    assert young.is_dir()
    assert not old.exists()


def test_what_cannot_be_removed_now_is_swept_another_time(tmp_path, monkeypatch):
    folder = tmp_path / "ours-dead"
    (folder / "batches").mkdir(parents=True)
    (folder / ".owner").touch()
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", lambda *_args, **_options: None)
        sweep("ours-", tmp_path)
    assert (folder / ".owner").exists()
    assert sweep("ours-", tmp_path) == [folder]
    assert not folder.exists()
