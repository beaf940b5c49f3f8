"""Names from outside, through sources and load methods with Spark: each arrives as it is."""

from __future__ import annotations

import base64
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_spark.errors import SourceError
from tests.spark.test_tap_debezium import changed, event
from tests.support.hostile import NAMES as ALL
from tests.support.singer import record, schema, state
from tests.support.tap import run_tap

# What Hadoop would replace in Parquet files is refused.
NAMES = [name for name in ALL if "${" not in name]
INTEGER = {"type": ["integer", "null"]}
KEY, PART, INNER = "k`{}'\"\n--", "p` {}'", "in`{}'"
METHODS = {
    "upsert": {},
    "append": {"load_method": "append-only"},
    "overwrite": {"load_method": "overwrite"},
    "scd2": {"load_method": "scd2"},
    "by_key": {"load_method": "delete-insert"},
    "by_range": {"load_method": "delete-insert", "range_column": KEY},
    "parts": {"load_method": "partition-overwrite", "partition_by": [PART]},
    "deduped": {"dedupe_by": NAMES[0]},
}


def messages(names, value):
    properties = {
        **dict.fromkeys((KEY, PART, *names), INTEGER),
        INNER: {
            "type": "object",
            "properties": {name: {"type": "array", "items": INTEGER} for name in names},
        },
    }
    values = dict.fromkeys(names, value) | {INNER: {name: [value] for name in names}}
    for stream in METHODS:
        yield schema(stream, properties, [] if stream == "append" else [KEY])
        for key in (1, 2):
            yield record(stream, {KEY: key, PART: 7, **values})
    yield state({"bookmarks": {stream: {} for stream in METHODS}})


def test_every_load_method_keeps_names_as_they_are(lake):
    lake.load(*messages(NAMES[:-3], 1), stream_options=METHODS)
    lake.load(*messages(NAMES, 2), stream_options=METHODS)
    for stream in METHODS:
        rows = [row for row in lake.rows(stream, order=KEY) if row[NAMES[0]] == 2]
        assert [row[KEY] for row in rows] == [1, 2], stream
        for row in rows:
            assert {name: row[name] for name in NAMES} == dict.fromkeys(NAMES, 2)
            assert row[INNER] == {name: [2] for name in NAMES}


def test_events_of_debezium(spark):
    """Values inside a struct, whose meaning its schema tells, and events of an older schema."""
    name = "org.apache.kafka.connect.data.Decimal"
    number = {"type": "bytes", "name": name, "parameters": {"scale": "1"}}
    inner = {"type": "struct", "fields": [{**number, "field": one} for one in NAMES]}
    fields = [{"type": "int64", "field": "id"}, *({**inner, "field": one} for one in NAMES)]
    after = {"field": "after", "type": "struct", "fields": fields}
    held = dict.fromkeys(NAMES, base64.b64encode(b"\x0b").decode())
    payload = {"before": None, "after": {"id": 1} | dict.fromkeys(NAMES, held), "op": "c"}
    payload |= {"ts_ms": 0, "source": {"ts_ms": 0}}
    (row,) = changed(spark, [event(0, {"schema": {"fields": [after]}, "payload": payload})])
    assert {one: row[one] for one in NAMES} == {
        one: dict.fromkeys(NAMES, Decimal("1.1")) for one in NAMES
    }


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "delta"])
def test_files_and_tables_of_a_lake(spark, tmp_path, kind):
    # A header of CSV has no room for the ends of a line, and Spark reads quotes in its own way.
    names = [one for one in NAMES if kind != "csv" or not set('\n\r"') & set(one)]
    names = [one.strip() for one in names] if kind == "csv" else names
    values = dict.fromkeys(names, "2024-01-01T00:00:00.123456")
    folder = tmp_path / "lake" / "t"
    folder.mkdir(parents=True)
    if kind == "json":
        (folder / "a.json").write_text(json.dumps(values))
    elif kind == "csv":
        import csv

        with (folder / "a.csv").open("w", newline="") as file:
            csv.writer(file).writerows([names, values.values()])
    else:
        rows = spark.createDataFrame([tuple(values.values())], list(values))
        options = {"delta.columnMapping.mode": "name"} if kind == "delta" else {}
        rows.write.format(kind).options(**options).mode("append").save(str(folder))
    config = {"source_url": f"{kind}:{tmp_path}/lake", "stream_options": {"t": {}}}
    (found,) = run_tap(config).records("t")
    assert set(found) == set(names)
    assert all(str(value).startswith("2024-01-01T00:00:00.123456") for value in found.values())
    keyed = {"t": {"replication_key": names[0], "key_properties": [names[1]]}}
    if kind in ("parquet", "delta"):
        output = run_tap({**config, "stream_options": keyed})
        assert len(output.records("t")) == 1
        assert output.bookmark("t")["replication_key"] == names[0]


def test_a_column_that_hadoop_would_replace_by_a_setting_is_refused(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"${fs.s3a.secret.key}": [1]}), folder / "a.parquet")
    with pytest.raises(
        SourceError, match=r"the column \$\{fs.s3a.secret.key\} has \$\{ in its name"
    ):
        run_tap({"source_url": f"parquet:{tmp_path}"})
