"""What Spark has made and what the tap has written are the same, or there is no STATE."""

from __future__ import annotations

from pathlib import Path

import pytest

from singer_spark.errors import TransientError
from singer_spark.settings import SparkSettings
from tap_spark_source.output import batch_files, line_blocks
from tests.support.derby import STREAM, orders
from tests.support.tap import run_tap


def batched(url: str, root: Path, kind: str) -> dict:
    config = {"encoding": {"format": kind}, "storage": {"root": root.as_uri()}}
    return {**orders(url), "batch_config": config}


@pytest.mark.parametrize("settings", [{}, {"stream_maps": {STREAM: {"CODE": None}}}])
def test_lines_that_vanish_from_a_spool_file_end_the_run_before_its_state(
    shop, monkeypatch, settings
):
    look = line_blocks._complete

    def losing(folder, given):
        found = look(folder, given)
        for path in [path for paths in found.values() for path in paths]:
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join(lines[:-1]))
        return found

    monkeypatch.setattr(line_blocks, "_complete", losing)
    output = run_tap({**orders(shop), **settings}, fails=TransientError)
    assert output.of("STATE") == []


def test_lines_that_vanish_on_their_way_from_another_machine_do_so_too(shop, monkeypatch):
    monkeypatch.setattr(SparkSettings, "retries_tasks", property(lambda _: True))
    assert len(run_tap(orders(shop)).records()) == 4
    monkeypatch.setattr(
        line_blocks, "_bytes_of", lambda chunk: memoryview(b"\n" * (len(chunk) - 1))
    )
    with pytest.raises(TransientError, match="Spark made 4 records and 3 of them arrived here"):
        run_tap(orders(shop))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_batch_tells_the_number_of_its_rows(shop, tmp_path, kind):
    (batch,) = run_tap(batched(shop, tmp_path, kind)).of("BATCH")
    assert batch["singer_spark"] == {"rows": 4}


def test_files_that_are_no_longer_whole_are_not_told(shop, tmp_path, monkeypatch):
    find = batch_files._files

    def losing(spark, place):
        found = find(spark, place)
        for path in Path(place.removeprefix("file://")).iterdir():
            path.write_bytes(b"PAR1")
        return found

    monkeypatch.setattr(batch_files, "_files", losing)
    output = run_tap(batched(shop, tmp_path, "parquet"), fails=TransientError)
    assert output.messages[1:] == []
