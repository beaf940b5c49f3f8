"""Many small runs on one shared engine: its memory stays as it was."""

from __future__ import annotations

import os
import sqlite3
import statistics
import subprocess
from pathlib import Path

import pytest

from singer_spark.engine.java import find_java
from tests.support.commands import command, run
from tests.support.processes import OWN, are_gone, engines, ids, java_of, make_shop

JCMD = Path(find_java().command).resolve().with_name("jcmd")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not JCMD.exists(), reason="needs a JDK, to look into its heap"),
]

RUNS = int(os.environ.get("SINGER_SPARK_TEST_RUNS", "60"))
LOOKS = 6
# What a thousand runs may add; a leak of sessions or plans is a multiple of it.
GROWTH_MB = 40.0
INCREMENTAL = '"default_replication_method": "INCREMENTAL", "default_replication_key": "id"'


def used_mb(engine: str) -> float:
    """Measure the heap that is left after it was collected."""
    process = str(java_of(engine))
    counted = subprocess.run(
        [JCMD, process, "GC.class_histogram"], capture_output=True, text=True, check=True
    ).stdout.split()
    return int(counted[-1]) / 2**20


def test_the_memory_of_a_shared_engine_stays_flat(alone, tmp_path):
    spark = {**OWN["spark_conf"], "spark.driver.memory": "1g"}
    pipeline = make_shop(tmp_path, spark_conf=spark, engine_idle="30m")
    text = pipeline.read_text()
    assert '"tables"' in text
    pipeline.write_text(text.replace('"tables"', f'{INCREMENTAL}, "tables"'))
    used = []
    for number in range(RUNS):
        with sqlite3.connect(tmp_path / "shop.db") as database:
            database.execute("insert into orders values (?, ?)", (100 + number, "new"))
        done = run(command("singer-spark"), "run", pipeline, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        if (number + 1) % max(1, RUNS // LOOKS) == 0:
            (engine,) = engines()
            used.append(used_mb(engine))
    assert ids(tmp_path / "shop" / "main_orders")[-RUNS:] == [100 + n for n in range(RUNS)]
    # The first look sees classes and caches that are filled once.
    grown = statistics.mean(used[-2:]) - statistics.mean(used[1:3])
    assert grown < GROWTH_MB * max(1.0, RUNS / 1000), used
    run(command("singer-spark"), "engine", "stop")
    assert are_gone()
