"""Runs that are killed: no secret in any file, and nothing left after the next run."""

from __future__ import annotations

from pathlib import Path

from tests.support.shop import (
    TAP,
    TARGET,
    await_pids,
    finish,
    make_folder,
    singer_spark,
    write,
    write_pipeline,
)

BATCH_TAP = """
place = json.load(open(option("--config")))["batch_config"]["storage"]["root"]
os.makedirs(place.removeprefix("file://"), exist_ok=True)
open(place.removeprefix("file://") + "/rows", "w").write("a row")
note(str(os.getpid()))
time.sleep(float(os.environ["WAIT"]))
"""


def find(folder, text):
    """List the files that hold a text."""
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def test_ten_killed_runs_leave_nothing_after_the_eleventh(tmp_path, monkeypatch):
    """No secret is there even before that, and rows lie in the folders of their runs."""
    make_folder(tmp_path, monkeypatch)
    write_pipeline("orders", more="transport: batch\n")
    write("tap-fake", BATCH_TAP + TAP)
    write("target-fake", TARGET)
    monkeypatch.setenv("WAIT", "60")
    for _ in range(10):
        Path("tap-fake.pids").unlink(missing_ok=True)
        process = singer_spark("run", "orders", "--state-out", "state.json")
        await_pids("tap-fake")
        process.kill()
        process.wait()
    assert len(find(tmp_path / "tmp", b"a row")) <= 2, "each run removes what the one before left"
    assert not find(tmp_path / "tmp", b"do-not-tell")

    monkeypatch.setenv("WAIT", "0")
    code, _, errors = finish("run", "orders", "--state-out", "state.json")
    assert code == 0, errors
    assert list((tmp_path / "tmp").iterdir()) == []
