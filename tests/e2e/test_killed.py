"""Runs of the real commands that are killed at several moments, and what the next run leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.commands import command, left_in, run

SECRET = "do-not-tell-anyone"  # noqa: S105, nobody's
MARK = "a-row-of-the-source"
MOMENTS = (0.7, 2.5, 5, 8, 11, 15, 20)  # seconds after the start


def write_pipeline(folder: Path) -> Path:
    """Make a pipeline with a secret wherever a setting may hold one."""
    source = folder / "shop" / "orders"
    source.mkdir(parents=True)
    rows = ({"id": n, "note": f"{MARK} {n}"} for n in range(20_000))
    (source / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    conf = {"spark.hadoop.fs.s3a.secret.key": SECRET}
    tap = {"source_url": f"json:{folder / 'shop'}", "source_password": SECRET, "spark_conf": conf}
    document = {
        "name": "shop",
        "source": {"tap": "tap-spark-source", "config": tap, "streams": ["orders"]},
        "destination": {
            "target": "target-spark-delta",
            "config": {
                "path": str(folder / "lake"),
                "spark_conf": conf,
                "stream_options": {"orders": {"key_properties": ["id"]}},
            },
        },
        "transport": "records",
    }
    path = folder / "shop.yml"
    path.write_text(json.dumps(document))
    return path


def holding(folder: Path, text: str) -> list[Path]:
    """List the files that hold a text; what a dying process removes meanwhile holds none."""
    found = []
    for path in folder.rglob("*"):
        try:
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(path)
        except OSError:
            continue
    return found


def processes_of(folder: Path) -> list[int]:
    """List the processes whose temporary folder is this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={folder}\0".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("all_at_once", [True, False])
def test_no_secret_and_no_row_stays_behind(tmp_path, all_at_once):
    """Killed are the runner alone, whose children then die by themselves, or all of them."""
    pipeline = write_pipeline(tmp_path)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary)}
    for moment in MOMENTS:
        process = subprocess.Popen(
            [command("singer-spark"), "run", str(pipeline)],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moment)
        for pid in processes_of(temporary) if all_at_once else [process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()
        assert holding(temporary, SECRET) == []
    until = time.monotonic() + 30
    while processes_of(temporary) and time.monotonic() < until:
        time.sleep(0.2)

    done = run(command("singer-spark"), "run", pipeline, env={"TMPDIR": str(temporary)})
    assert done.returncode == 0, done.stderr
    assert holding(temporary, SECRET) == []
    assert holding(temporary, MARK) == []
    assert left_in(temporary) == []
