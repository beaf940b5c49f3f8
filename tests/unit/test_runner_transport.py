"""How rows travel: files in a folder of the run, where the pipeline asks for them."""

from __future__ import annotations

import json

import pytest

from singer_spark.errors import SettingsError
from singer_spark.pipeline.plugins import Plugin
from singer_spark.runner.sharing import with_transport
from singer_spark.state.runs import list_runs
from tests.support.bench import TAP

TELL_ROWS = """
with open(os.environ["SINGER_SPARK_REPORT"], "a") as file:
    for rows in (3, 4):
        fact = {"kind": "batch", "stream": "orders", "rows": rows, "bytes": 1000}
        file.write(json.dumps(fact) + "\\n")
say(type="SCHEMA", stream="orders", schema={})
say(type="BATCH", stream="orders", encoding={}, manifest=[])
"""


@pytest.fixture
def batches(bench, tmp_path):
    def choose(tap="tap-spark-source", transport="batch", target=None, **config):
        pipeline = bench.pipeline(
            tap=Plugin(tap, config),
            target=Plugin("target-spark-delta", target or {}),
            transport=transport,
        )
        return with_transport(pipeline, tmp_path / "batches")

    return choose


def test_our_tap_writes_parquet_and_the_target_cleans_up(batches, tmp_path):
    chosen = batches()
    assert chosen.tap.config["batch_config"] == {
        "encoding": {"format": "parquet"},
        "storage": {"root": (tmp_path / "batches").as_uri()},
    }
    root = (tmp_path / "batches").as_uri()
    assert chosen.target.config == {"clean_up_batch_files": True, "batch_roots": [root]}


def test_other_taps_write_what_the_sdk_can(batches):
    encoding = batches("tap-other").tap.config["batch_config"]["encoding"]
    assert encoding == {"format": "jsonl", "compression": "gzip"}


def test_our_pair_chooses_files_by_itself(batches):
    chosen, asked = batches(transport="auto"), batches(transport="batch")
    assert chosen.tap == asked.tap
    assert chosen.target == asked.target


@pytest.mark.parametrize(
    "pipeline",
    [
        {"transport": "records"},
        {"tap": "tap-other"},
        {"spark_master": "spark://host:7077"},
        {"target": {"spark_remote": "sc://host"}},
        {"target": {"stream_maps": {"orders": {}}}},
        {"flattening_enabled": True},
    ],
    ids=lambda one: next(iter(one)),
)
def test_elsewhere_rows_travel_as_messages_unless_asked(batches, pipeline, tmp_path):
    chosen = batches(**{"transport": "auto", **pipeline})
    assert "batch_config" not in chosen.tap.config
    assert chosen.target.config["batch_roots"] == [(tmp_path / "batches").as_uri()]
    assert "clean_up_batch_files" not in chosen.target.config


def test_a_tap_that_has_its_own_place_keeps_it(batches):
    own = {"storage": {"root": "s3://lake/batches"}}
    chosen = batches(batch_config=own, spark_master="spark://host:7077")
    assert chosen.tap.config["batch_config"] == own
    assert chosen.target.config == {"batch_roots": ["s3://lake/batches"]}


@pytest.mark.parametrize(
    "elsewhere", [{"spark_remote": "sc://host"}, {"spark_master": "yarn"}], ids=["connect", "yarn"]
)
def test_a_folder_of_this_machine_is_no_use_to_spark_elsewhere(batches, elsewhere):
    with pytest.raises(SettingsError, match="transport: batch needs a place that both sides reach"):
        batches(**elsewhere)
    with pytest.raises(SettingsError, match="transport: batch needs"):
        batches(target=elsewhere)


def test_rows_in_files_are_counted_by_what_the_tap_tells(bench):
    note = 'note("config", open(option("--config")).read())\n'
    bench.write("tap-fake", note + TELL_ROWS + TAP)
    result = bench.run(transport="batch")
    assert result.records["orders"] == 3 + 4 + 3, "two files, and three messages"
    assert list_runs(bench.store, "p", 1)[0]["bytes"] > 2 * 1000
    root = json.loads(bench.note("config"))["batch_config"]["storage"]["root"]
    assert root.startswith("file:///")
