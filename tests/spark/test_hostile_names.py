"""Names from outside, through sources and load methods with Spark: each arrives as it is."""

from __future__ import annotations

import base64
import json
import sqlite3
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_spark.errors import SettingsError, SourceError, StateError
from singer_spark.names import quote
from tests.spark.test_tap_debezium import changed, event
from tests.support.hostile import NAMES as ALL
from tests.support.hostile import SMUGGLED
from tests.support.singer import record, schema, state
from tests.support.tap import make_derby, run_tap

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


def created(table, names, column=lambda name: name):
    """Return the statements that make a table of names and put rows into it, in standard SQL."""
    quoted = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names]
    columns = ", ".join(f"{column(name)} int not null" for name in quoted)
    rows = [f"({', '.join([str(n)] * len(names))})" for n in (1, 2)]
    table = f'"{table.replace(chr(34), chr(34) * 2)}"'
    return f"create table {table} ({columns});", f"insert into {table} values {', '.join(rows)};"


def read_and_followed(url, schema, names, tables):
    """Read hostile columns in full and along a key of them, and tables of such names."""
    keys = {"replication_key": list(names[:3]), "key_properties": list(names[3:5])}
    for options in ({}, {f"{schema}-t": keys}):
        output = run_tap({"source_url": url, "stream_options": options})
        found = sorted(output.records(f"{schema}-t"), key=lambda row: row[names[0]])
        assert found == [dict.fromkeys(names, n) for n in (1, 2)]
        for table in tables:
            assert len(output.records(f"{schema}-{table}")) == 2, table
    again = run_tap({"source_url": url, "stream_options": options}, state=output.state)
    assert again.bookmark(f"{schema}-t")["replication_key_value"] == [2, 2, 2]
    hostile = {"bookmarks": {f"{schema}-t": {**output.bookmark(f"{schema}-t")}}}
    hostile["bookmarks"][f"{schema}-t"]["replication_key_value"] = ["1) or 1=1 --", 1, 1]
    run_tap({"source_url": url, "stream_options": options}, state=hostile, fails=StateError)


def test_sqlite(tmp_path):
    statements = [*created("t", ALL), *(part for name in ALL for part in created(name, ["id"]))]
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.executescript("".join(statements))
    connection.close()
    read_and_followed(f"jdbc:sqlite:{tmp_path}/shop.db", "main", ALL, ALL)


def test_derby(tmp_path):
    # Its own tool reads a statement line by line, in the machine's encoding.
    names = [name for name in ALL if name.isascii() and not set("\n\r;") & set(name)]
    tables = names[:4]
    statements = [
        "create schema SHOP; set schema SHOP;",
        *created("t", names),
        *(part for name in tables for part in created(name, ["id"])),
    ]
    url = make_derby(tmp_path / "shop", "\n".join(statements))
    read_and_followed(url, "SHOP", names, tables)


def test_the_changes_of_a_delta_table(spark, tmp_path):
    place = f"delta.`{tmp_path}/t`"
    mapped = "'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true'"
    columns = ", ".join(f"{quote(name)} int" for name in NAMES)
    spark.sql(f"create table {place} ({columns}) using delta tblproperties ({mapped})")
    ones = ", ".join("1" for _ in NAMES)
    spark.sql(f"insert into {place} select {ones}")
    options = {"replication_method": "LOG_BASED", "key_properties": list(NAMES[:4])}
    config = {"source_url": f"delta:{tmp_path}", "stream_options": {"t": options}}
    first = run_tap(config)
    assert first.records("t") == [dict.fromkeys(NAMES, 1)]
    spark.sql(f"delete from {place}")
    spark.sql(f"insert into {place} select {ones.replace('1', '2')}")
    second = run_tap(config, state=first.state)
    gone, new = second.records("t")
    assert {name: new[name] for name in NAMES} == dict.fromkeys(NAMES, 2)
    assert gone["_sdc_deleted_at"]
    assert {name: gone[name] for name in NAMES[:4]} == dict.fromkeys(NAMES[:4], 1)
    hostile = {"bookmarks": {"t": {**first.bookmark("t"), "delta_version": "0; drop table t"}}}
    run_tap(config, state=hostile, fails=StateError)


def test_tables_of_a_catalog(spark):
    spark.sql("create database if not exists hostile")
    names = NAMES[:-1]
    rows = spark.createDataFrame([(1,) * len(names)], list(names))
    properties = {"delta.columnMapping.mode": "name"}
    rows.write.format("delta").options(**properties).saveAsTable("hostile.t", mode="overwrite")
    try:
        config = {"source_url": "catalog:spark_catalog.hostile"}
        assert run_tap(config).records("hostile-t") == [dict.fromkeys(names, 1)]
        with pytest.raises((SourceError, SettingsError)):
            run_tap({"source_url": f"catalog:spark_catalog.x`; {SMUGGLED}"})
    finally:
        spark.sql("drop database hostile cascade")


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_folders_are_what_they_are_called(tmp_path, kind):
    """Spark takes some names for patterns of several folders."""
    # Hadoop takes no colon.
    others = [one for one in NAMES if not {"\n", ":"} & set(one)]
    folders = ["a", "[ab]", "{a,b}", "?", *others]

    def fill(folder, number):
        folder.mkdir()
        if kind == "json":
            (folder / "x.json").write_text(f'{{"n": {number}}}\n')
        else:
            pq.write_table(pa.table({"n": [number]}), folder / "x.parquet")

    for number, name in enumerate(folders):
        fill(tmp_path / name.replace("/", "_"), number)
    output = run_tap({"source_url": f"{kind}:{tmp_path}"})
    found = {one["stream"]: one["record"]["n"] for one in output.of("RECORD")}
    assert sorted(found.values()) == list(range(len(folders)))
    fill(tmp_path / "a:b", 0)
    run_tap({"source_url": f"{kind}:{tmp_path}"}, fails=SourceError)


def test_a_column_that_hadoop_would_replace_by_a_setting_is_refused(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"${fs.s3a.secret.key}": [1]}), folder / "a.parquet")
    with pytest.raises(
        SourceError, match=r"the column \$\{fs.s3a.secret.key\} has \$\{ in its name"
    ):
        run_tap({"source_url": f"parquet:{tmp_path}"})
