"""Many pipelines at once, on engines of their own and on a shared one: all load, nothing stays."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.commands import command, left_in, run
from tests.support.processes import OWN, are_gone, engines, ids, make_shop, until

pytestmark = pytest.mark.slow

PIPES = int(os.environ.get("SINGER_SPARK_TEST_PIPES", "20"))
# Java's smallest for Spark: twenty of them have to fit at once.
SMALL = {**OWN["spark_conf"], "spark.driver.memory": "512m"}


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    folder = Path(tempfile.mkdtemp(prefix="pipes-", dir=tmp_path))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def processes_of(word: str) -> list[str]:
    """List what still runs for a test, by a variable that its processes inherit."""
    listed = subprocess.run(["ps", "axeww"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if word in line and "ps axeww" not in line]


@pytest.mark.parametrize("way", ["private", "shared"])
def test_pipes_that_start_at_once_all_load_and_leave_nothing(alone, temporary, tmp_path, way):
    settings = {"engine_idle": "10m"} if way == "shared" else {}
    pipelines = [
        make_shop(tmp_path, f"shop{number}", 5 + number, spark_conf=SMALL, **settings)
        for number in range(PIPES)
    ]
    started = []
    for pipeline in pipelines:
        with pipeline.with_suffix(".log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [command("singer-spark"), "run", str(pipeline)],
                    cwd=tmp_path,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
    most = 0
    for process in started:
        most = max(most, len(engines()))
        process.wait(1500)
    for process, pipeline in zip(started, pipelines, strict=True):
        assert process.returncode == 0, pipeline.with_suffix(".log").read_text()[-2000:]
    for number in range(PIPES):
        assert ids(tmp_path / f"shop{number}" / "main_orders") == list(range(5 + number))
    if way == "shared":
        assert most == 1
        run(command("singer-spark"), "engine", "stop")
    assert are_gone()
    assert left_in(temporary) == []
    assert until(lambda: not processes_of(str(temporary)), 60)
