"""Folders of tables in every format, and the two ways in which lines leave Spark."""

from __future__ import annotations

from decimal import Decimal

import pytest

from singer_spark.errors import DataError, SourceError, TransientError
from tap_spark_source.output import line_blocks
from tap_spark_source.output.line_blocks import spooled_blocks
from tap_spark_source.settings import Settings
from tap_spark_source.sources.base import source_errors
from tests.support.session import java
from tests.support.tap import discover, run_tap

ROW = """
select true as b, cast(-1 as tinyint) as t, cast(2 as smallint) as s, 3 as i,
  9223372036854775807 as l, cast(1.5 as float) as f, double('NaN') as d,
  double('-Infinity') as inf, cast('12345678901234567890.12345' as decimal(38,5)) as n,
  'line\\nbreak \\u2028 \\u0000 "' as txt, X'00ff' as bin, date'0001-01-01' as day,
  timestamp'2024-01-01 00:00:00.123456' as at, timestamp_ntz'2024-01-01 00:00:00.000001' as ntz,
  array(1, null) as arr, named_struct('a', 1, 'b', cast(null as string)) as st,
  map('k', cast(1.10 as decimal(5,2))) as m, cast(null as string) as nothing,
  map(date'0001-01-01', map(timestamp'2024-01-01 00:00:00.123456', map(7, true))) as keyed,
  1 as `odd ``name.x"`
"""


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_every_type_of_a_lake_arrives_exactly(spark, tmp_path, kind):
    frame = spark.sql(ROW)
    if kind == "delta":
        frame = frame.withColumnRenamed('odd `name.x"', "odd")
    frame.write.format(kind).save(f"{tmp_path}/lake/kinds")
    output = run_tap({"source_url": f"{kind}:{tmp_path}/lake"})
    (record,) = output.records("kinds")
    assert record.pop("odd" if kind == "delta" else 'odd `name.x"') == 1
    assert record == {
        "b": True,
        "t": -1,
        "s": 2,
        "i": 3,
        "l": 9223372036854775807,
        "f": Decimal("1.5"),
        "d": "NaN",
        "inf": "-Infinity",
        "n": Decimal("12345678901234567890.12345"),
        "txt": 'line\nbreak \u2028 \u0000 "',
        "bin": "AP8=",
        "day": "0001-01-01",
        "at": "2024-01-01T00:00:00.123456+00:00",
        "ntz": "2024-01-01T00:00:00.000001",
        "arr": [1, None],
        "st": {"a": 1, "b": None},
        "m": {"k": Decimal("1.10")},
        "nothing": None,
        "keyed": {"0001-01-01": {"2024-01-01 00:00:00.123456": {"7": True}}},
    }
    assert output.kinds == ["SCHEMA", "RECORD", "STATE"]


def test_csv_has_headers_and_inferred_types_that_options_override(tmp_path):
    (tmp_path / "people.csv").write_text("id,name,score\n1,ann,1.5\n2,,2.5\n")
    url = f"csv:{tmp_path}"
    assert run_tap({"source_url": url}).records("people") == [
        {"id": 1, "name": "ann", "score": Decimal("1.5")},
        {"id": 2, "name": None, "score": Decimal("2.5")},
    ]
    texts = run_tap({"source_url": url, "source_options": {"inferSchema": False}})
    assert texts.records("people")[0] == {"id": "1", "name": "ann", "score": "1.5"}


@pytest.mark.parametrize(
    "options",
    [{"replication_key": "`at"}, {"replication_method": "INCREMENTAL", "new_files": True}],
)
def test_times_of_csv_that_spark_would_bend_are_an_error(tmp_path, options):
    path = tmp_path / "part=1" / "events.csv"
    path.parent.mkdir()
    times = ["2024-01-01T10:00:00.1234560Z", "2024-01-01 12:30:00+02:00", ""]
    path.write_text("id,`at\n" + "".join(f"{n},{at}\n" for n, at in enumerate(times)))
    where = "year(```at`) = 2024 or id = 2"
    config = {"source_url": f"csv:{tmp_path.parent}", "tables": [tmp_path.name]}
    config |= {"stream_options": {"*": {"where": where, **options}}}
    records = run_tap(config).records()
    assert {row["id"]: row["`at"] for row in records} == {
        0: "2024-01-01T10:00:00.123456+00:00",
        1: "2024-01-01T10:30:00.000000+00:00",
        2: None,
    }
    assert {row["part"] for row in records} == {1}
    path.write_text("id,`at\n1,2024-01-01T10:00:00.1234567\n")
    with pytest.raises(DataError, match="it is finer than a microsecond"):
        run_tap(config)
    path.write_text("id,`at\n1,10:30:00\n")
    with pytest.raises(DataError, match="it is a time without a day"):
        run_tap({**config, "stream_options": {}})
    path.write_text("id,`at\n1,2024-01-01T10:00:00.1234567\n")
    plain = {"inferSchema": False}
    (record,) = run_tap({**config, "stream_options": {}, "source_options": plain}).records()
    assert record["`at"] == "2024-01-01T10:00:00.1234567"


def test_json_numbers_keep_their_digits(tmp_path):
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "a.json").write_text('{"id":1,"n":12345678901234567890.12,"at":"2024-01-01"}\n')
    (folder / "b.json").write_text('{"id":2,"n":1.1,"list":[{"x":1}]}\n')
    records = run_tap({"source_url": f"json:{tmp_path}"}).records("events")
    assert sorted(record["id"] for record in records) == [1, 2]
    first = next(record for record in records if record["id"] == 1)
    assert first["n"] == Decimal("12345678901234567890.12")
    assert first["at"] == "2024-01-01"


def test_a_broken_line_is_an_error_and_not_a_null(tmp_path):
    (tmp_path / "events.json").write_text('{"id":1}\n{"id":\n')
    with pytest.raises(SourceError, match="events"):
        run_tap({"source_url": f"json:{tmp_path}"})


def test_tables_are_found_by_folder_and_by_file(spark, tmp_path):
    spark.range(1).write.csv(f"{tmp_path}/folder", header=True)
    (tmp_path / "file.csv").write_text("a\n1\n")
    (tmp_path / "_hidden").mkdir()
    url = f"csv:{tmp_path}"
    names = [entry["tap_stream_id"] for entry in discover({"source_url": url})["streams"]]
    assert names == ["file", "folder"]
    catalog = discover({"source_url": url, "tables": ["file"]})
    assert [entry["tap_stream_id"] for entry in catalog["streams"]] == ["file"]


def test_folders_with_odd_names_are_found(spark, tmp_path):
    for name in ("odd name", "a[b]*", "50%25"):
        spark.range(1).write.parquet(f"{tmp_path}/my lake %20/{name}")
    config = {"source_url": f"parquet:{tmp_path}/my lake %20/"}
    output = run_tap(config)
    assert sorted(message["stream"] for message in output.of("RECORD")) == [
        "50%25",
        "a[b]*",
        "odd name",
    ]
    again = run_tap(config, catalog=discover(config))
    assert len(again.records()) == 3


def test_a_missing_folder_or_table_is_named(spark, tmp_path):
    with pytest.raises(SourceError, match=r"cannot read the folder \(parquet:/nowhere\)"):
        discover({"source_url": "parquet:/nowhere"})
    spark.range(1).write.parquet(f"{tmp_path}/here")
    with pytest.raises(SourceError, match="no table there"):
        discover({"source_url": f"parquet:{tmp_path}", "tables": ["there"]})


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.parquet").write_text("no columns here")
    with pytest.raises(SourceError, match=r"cannot read t .*a\.parquet") as caught:
        discover({"source_url": f"parquet:{tmp_path}"})
    assert "\n" not in str(caught.value)


def test_columns_of_all_files_are_read(spark, tmp_path):
    spark.sql("select 1 as a").write.parquet(f"{tmp_path}/t")
    spark.sql("select 2 as a, 3 as b").write.mode("append").parquet(f"{tmp_path}/t")
    records = run_tap({"source_url": f"parquet:{tmp_path}"}).records("t")
    assert sorted(records, key=lambda record: record["a"]) == [
        {"a": 1, "b": None},
        {"a": 2, "b": 3},
    ]


def test_an_incremental_delta_table_continues_at_its_bookmark(spark, tmp_path):
    spark.sql("select id, timestamp_micros(id) as at from range(5)").write.format("delta").save(
        f"{tmp_path}/t"
    )
    config = {"source_url": f"delta:{tmp_path}", "stream_options": {"t": {"replication_key": "at"}}}
    first = run_tap(config)
    assert len(first.records()) == 5
    assert first.bookmark("t")["replication_key_value"] == "1970-01-01T00:00:00.000004+00:00"
    spark.sql("select id, timestamp_micros(id) as at from range(5, 7)").write.format("delta").mode(
        "append"
    ).save(f"{tmp_path}/t")
    second = run_tap(config, state=first.state)
    assert sorted(record["id"] for record in second.records()) == [4, 5, 6]


@pytest.fixture
def lines(spark):
    frame = spark.range(0, 50_000, 1, 3).selectExpr(
        f"concat('{{\"id\":', id, ',\"é\":\"', repeat('x', 20), '\"}}') as {line_blocks.LINE}"
    )
    expected = {f'{{"id":{n},"é":"{"x" * 20}"}}' for n in range(50_000)}
    return frame, expected


def test_spooled_blocks_are_the_lines_each_once(lines, monkeypatch):
    monkeypatch.setattr("tap_spark_source.output.line_blocks._FILE_ROWS", 1000)
    frame, expected = lines
    found = b"".join(spooled_blocks(frame)).decode().splitlines()
    assert len(found) == len(expected)
    assert set(found) == expected


def test_lines_are_spooled_in_a_folder_of_any_name(spark, tmp_path, monkeypatch):
    folder = tmp_path / "a place, 100% é@x=1+1 [*]"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    rows = spark.range(3).selectExpr("cast(id as string) as value")
    assert sorted(b"".join(spooled_blocks(rows)).split()) == [b"0", b"1", b"2"]
    assert list(folder.iterdir()) == []


def test_fetched_blocks_are_the_lines_each_once_and_small(lines, monkeypatch):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 200_000)
    frame, expected = lines
    blocks = [bytes(block) for block in line_blocks.fetched_blocks(frame)]
    assert max(map(len, blocks)) <= 200_000
    found = b"".join(blocks).decode().splitlines()
    assert len(found) == len(expected)
    assert set(found) == expected


def test_fetched_blocks_are_never_read_twice_and_small_where_lines_are_large(
    spark, tmp_path, monkeypatch
):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 3000)
    file, texts = tmp_path / "a.txt", [f"{number} {'x' * 990}\n" for number in range(8)]
    file.write_text("".join(texts))
    blocks = line_blocks.fetched_blocks(spark.read.text(str(tmp_path)))
    found = [bytes(next(blocks))]
    file.write_text("".join(texts).replace("x", "y"))
    spark.catalog.clearCache()
    found += map(bytes, blocks)
    assert b"".join(found).decode() == "".join(texts)
    assert max(map(len, found)) <= 3000


def test_rows_that_spark_has_lost_end_the_run(spark, monkeypatch):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 10)
    blocks = line_blocks.fetched_blocks(spark.range(9).selectExpr("cast(id as string) as value"))
    next(blocks)
    context = java().jvm.org.apache.spark.api.java.JavaSparkContext
    running = java().jvm.org.apache.spark.SparkContext.getOrCreate()
    for kept in context.fromSparkContext(running).getPersistentRDDs().values():
        kept.unpersist(True)
    settings = Settings.from_config({"source_url": "parquet:/lake"})
    with (
        pytest.raises(TransientError, match="Spark has lost what it had read; run again"),
        source_errors(settings, "t"),
    ):
        list(blocks)


def test_an_error_while_spooling_reaches_the_reader(spark):
    broken = spark.range(10).selectExpr("cast(raise_error('boom') as string) as value")
    with pytest.raises(Exception, match="boom"):
        list(spooled_blocks(broken))


@pytest.mark.slow
def test_passing_files_on_never_disturbs_the_commit_of_their_task(spark, monkeypatch):
    monkeypatch.setattr("tap_spark_source.output.line_blocks._FILE_ROWS", 200)
    monkeypatch.setattr("tap_spark_source.output.line_blocks._POLL_SECONDS", 0.001)
    rows = spark.range(0, 20_000, 1, 4).selectExpr("cast(id as string) as value")
    for _ in range(15):
        found = b"".join(spooled_blocks(rows)).split()
        assert sorted(map(int, found)) == list(range(20_000))
