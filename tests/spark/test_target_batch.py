"""BATCH messages: files of records instead of records."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from singer_sdk.batch import Batcher
from singer_sdk.helpers._batch import BaseBatchFileEncoding, BatchConfig, StorageTarget

from singer_spark.errors import DataError, ProtocolError, RecordError
from tests.support.singer import activate, batch, record, schema, state

UTC = dt.timezone.utc
PROPERTIES = {
    "id": {"type": "integer"},
    "name": {"type": ["string", "null"]},
    "price": {"type": ["number", "null"], "multipleOf": 0.01},
    "at": {"type": ["string", "null"], "format": "date-time"},
    "free": {"type": ["object", "null"]},
}
ITEMS = schema("items", PROPERTIES, ["id"])
QUARANTINE = {"on_invalid_record": "quarantine"}


def write_lines(path, *records, packed=False):
    texts = [one if isinstance(one, str) else json.dumps(one) for one in records]
    data = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path.as_uri()


def write_parquet(path, rows, **types):
    fields = [pa.field(name, datatype) for name, datatype in types.items()]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(fields) if fields else None), path)
    return path.as_uri()


def ids(lake, name="items"):
    return [row["id"] for row in lake.rows(name)]


@pytest.mark.parametrize(("name", "packed"), [("a.json.gz", False), ("_a [1]*.jsonl", True)])
def test_lines_are_read_packed_or_not_whatever_their_name_says(lake, tmp_path, name, packed):
    raw = '{"id": 1, "price": 1.10, "at": "2024-01-01T00:00:00.000001Z", "free": {"x": 1.10}}'
    file = write_lines(tmp_path / name, raw, {"id": 2, "name": "é\u0001"}, packed=packed)
    states = lake.load(ITEMS, batch("items", file, compression="none"), state(1))
    assert states == [1]
    one, two = lake.rows("items")
    assert (one["price"], one["free"]) == (Decimal("1.10"), '{"x": 1.10}')
    assert one["at"] == dt.datetime(2024, 1, 1, 0, 0, 0, 1, UTC)
    assert (two["name"], two["price"]) == ("é\u0001", None)
    assert [said["rows"] for said in lake.commits("items")] == [2]


def test_what_the_sdk_writes_is_read(lake, tmp_path):
    for kind in ("jsonl", "parquet"):
        config = BatchConfig(
            encoding=BaseBatchFileEncoding(format=kind, compression="gzip"),
            storage=StorageTarget(root=f"file://{tmp_path}"),
            batch_size=2,
        )
        records = [{"id": n, "name": f"n{n}", "price": Decimal("1.25")} for n in range(5)]
        batcher = Batcher(tap_name="tap", stream_name=kind, batch_config=config)
        manifests = list(batcher.get_batches(iter(records)))
        lake.load(
            schema(kind, PROPERTIES, ["id"]),
            *(batch(kind, *files, kind=kind, compression="gzip") for files in manifests),
        )
        rows = lake.rows(kind)
        assert [(row["id"], row["name"], row["price"]) for row in rows] == [
            (n, f"n{n}", Decimal("1.25")) for n in range(5)
        ]


def test_records_and_batches_take_effect_in_their_order(lake, tmp_path):
    first = write_lines(tmp_path / "1", {"id": 1, "name": "b"}, {"id": 2, "name": "b"})
    second = write_parquet(tmp_path / "2", [{"id": 2, "name": "c"}, {"id": 3, "name": "c"}])
    lake.load(
        ITEMS,
        *(record("items", {"id": n, "name": "a"}) for n in (1, 2, 3, 4)),
        batch("items", first),
        batch("items", second, kind="parquet"),
        record("items", {"id": 3, "name": "d"}),
    )
    assert {row["id"]: row["name"] for row in lake.rows("items")} == {
        1: "b",
        2: "c",
        3: "d",
        4: "a",
    }


@pytest.mark.parametrize("kind", [pytest.param("jsonl", marks=pytest.mark.slow), "parquet"])
def test_of_one_key_in_several_files_the_last_row_wins(lake, tmp_path, kind):
    write = write_parquet if kind == "parquet" else lambda path, rows: write_lines(path, *rows)
    files = [
        write(tmp_path / f"{9 - n}", [{"id": i % 3, "name": f"{n}-{i}"} for i in range(300)])
        for n in range(3)
    ]
    lake.load(ITEMS, record("items", {"id": 1, "name": "old"}))
    lake.load(ITEMS, batch("items", *files, kind=kind))
    assert [row["name"] for row in lake.rows("items")] == ["2-297", "2-298", "2-299"]


def test_parquet_columns_of_other_types_fit_exactly_or_are_refused(lake, tmp_path):
    rows = [{"id": 1, "price": 1, "at": dt.datetime(2024, 1, 1, 1, tzinfo=UTC), "free": {"x": 1}}]
    lake.load(ITEMS, batch("items", write_parquet(tmp_path / "1", rows), kind="parquet"))
    (row,) = lake.rows("items")
    assert (row["price"], row["at"]) == (Decimal("1.00"), rows[0]["at"])
    assert row["free"] == '{"x":1}'
    bad = [{"id": 2, "price": 1.239}, {"id": 3, "price": 1.5}]
    file = write_parquet(tmp_path / "2", bad)
    with pytest.raises(RecordError, match=r"line 2: price: a value does not fit decimal\(38,2\)"):
        lake.load(ITEMS, batch("items", file, kind="parquet"))
    assert ids(lake) == [1]
    lake.load(ITEMS, batch("items", file, kind="parquet"), **QUARANTINE)
    assert ids(lake) == [1, 3]
    (aside,) = lake.rows("_quarantine/items", order="line")
    assert json.loads(aside["record"]) == {"id": 2, "price": 1.239}
    assert (aside["line"], aside["error"]) == (2, "price: 1.239 does not fit decimal(38,2)")


@pytest.mark.parametrize("kind", ["jsonl", pytest.param("parquet", marks=pytest.mark.slow)])
def test_metadata_versions_and_deletions_are_as_for_records(lake, tmp_path, kind):
    stamp = "2024-05-05T00:00:00+00:00"
    rows = [{"id": 2, "_sdc_deleted_at": stamp}, {"id": 1, "name": "new"}]
    if kind == "parquet":
        rows[0]["name"] = None
    write = write_parquet if kind == "parquet" else lambda path, rows: write_lines(path, *rows)
    lake.load(
        ITEMS,
        *(record("items", {"id": n, "name": "old"}, version=1) for n in (1, 2, 3)),
        add_record_metadata=True,
    )
    lake.load(
        ITEMS,
        batch("items", write(tmp_path / "1", rows), kind=kind, version=2),
        activate("items", 2),
        add_record_metadata=True,
    )
    one, two, three = lake.rows("items")
    assert (one["name"], one["_sdc_table_version"], one["_sdc_deleted_at"]) == ("new", 2, None)
    assert (two["name"], two["_sdc_deleted_at"]) == ("old", dt.datetime(2024, 5, 5, tzinfo=UTC))
    assert three["_sdc_deleted_at"] is not None, "of an older version"
    assert one["_sdc_received_at"] > three["_sdc_received_at"]
    assert all(one[name] for name in ("_sdc_run_id", "_sdc_batched_at", "_sdc_sequence"))


def test_files_are_removed_after_the_commit_if_that_is_asked(lake, tmp_path):
    path = tmp_path / "1"
    chosen = {"clean_up_batch_files": True, "batch_roots": [str(tmp_path)]}
    lake.load(ITEMS, batch("items", write_lines(path, {"id": 1})))
    assert path.exists()
    with pytest.raises(RecordError):
        lake.load(
            ITEMS,
            batch("items", write_lines(path, {"id": "x"})),
            **chosen,
        )
    assert path.exists(), "nothing was committed"
    lake.load(ITEMS, batch("items", write_lines(path, {"id": 2})), clean_up_batch_files=True)
    assert path.exists(), "no root names its folder"
    lake.load(ITEMS, batch("items", write_lines(path, {"id": 3})), **chosen)
    assert not path.exists()
    assert ids(lake) == [1, 2, 3]


def test_a_file_outside_the_roots_is_neither_read_nor_removed(lake, tmp_path):
    private = tmp_path / "private"
    file = write_lines(private, {"id": 1})
    chosen = {"batch_roots": [str(tmp_path / "in")], "clean_up_batch_files": True}
    with pytest.raises(ProtocolError, match="below none of batch_roots"):
        lake.load(ITEMS, batch("items", file), on_invalid_record="quarantine", **chosen)
    assert private.exists()


def test_staged_files_are_removed_only_after_the_swap_that_makes_them_visible(lake, tmp_path):
    path = tmp_path / "1"
    chosen = {
        "load_method": "overwrite",
        "clean_up_batch_files": True,
        "batch_roots": [str(tmp_path)],
    }
    file = write_lines(path, {"id": 1})
    with pytest.raises(ProtocolError, match="items is complete"):
        lake.load(ITEMS, batch("items", file), **chosen)
    assert path.exists(), "the tap has to send them again, and nobody has their rows"
    lake.load(ITEMS, batch("items", file), state({}), **chosen)
    assert not path.exists()
    assert ids(lake) == [1]


def test_an_appended_batch_is_committed_with_the_state_that_speaks_of_it(lake, tmp_path):
    files = [write_lines(tmp_path / f"{n}", {"id": n}) for n in range(2)]
    states = lake.load(
        schema("items", PROPERTIES),
        batch("items", files[0]),
        state({"bookmarks": {"items": "first"}}),
        batch("items", files[1]),
        state({"bookmarks": {"items": "second"}}),
    )
    assert [said["state"] for said in lake.commits("items")] == ["first", "second"]
    assert states[-1] == {"bookmarks": {"items": "second"}}
    assert ids(lake) == [0, 1]


def test_a_file_that_is_missing_or_something_else_is_named(lake, tmp_path):
    missing = (tmp_path / "gone.parquet").as_uri()
    with pytest.raises(ProtocolError, match=r"line 2: BATCH file .*gone.parquet does not exist"):
        lake.load(ITEMS, batch("items", missing, kind="parquet"))
    other = write_lines(tmp_path / "text.parquet", {"id": 1})
    with pytest.raises(DataError, match=r"BATCH file .*text.parquet cannot be read as [Pp]arquet"):
        lake.load(ITEMS, batch("items", other, kind="parquet"))
    short = tmp_path / "short.jsonl.gz"
    short.write_bytes(gzip.compress(b'{"id":1}\n' * 1000)[:-20])
    with pytest.raises(DataError, match=r"BATCH file .*short.jsonl.gz cannot be read as jsonl"):
        lake.load(ITEMS, batch("items", short.as_uri()))
    keyless = write_parquet(tmp_path / "keyless.parquet", [{"name": "x"}])
    with pytest.raises(RecordError, match=r"BATCH file .*keyless.parquet lacks the key id"):
        lake.load(ITEMS, batch("items", keyless, kind="parquet"))
    with pytest.raises(ProtocolError, match="line 2: a BATCH of format 'csv' cannot be read"):
        lake.load(ITEMS, batch("items", missing, kind="csv"))
    with pytest.raises(ProtocolError, match="line 1: BATCH of stream 'items' came before"):
        lake.load(batch("items", missing))


def test_a_null_key_is_refused_also_in_deletions_and_partial_records(lake, tmp_path):
    deletion = {"id": None, "name": "x", "_sdc_deleted_at": dt.datetime(2024, 1, 1, tzinfo=UTC)}
    file = write_parquet(tmp_path / "1", [{**deletion, "id": 1}, deletion])
    messages = ITEMS, batch("items", file, kind="parquet")
    with pytest.raises(RecordError, match="line 2: id is null, which its schema forbids"):
        lake.load(*messages)
    with pytest.raises(RecordError, match="line 2: id is null, which its schema forbids"):
        lake.load(*messages, stream_options={"*": {"partial_records": True}})
    rules = {"name": {"type": "string", "enum": ["x"]}, "id": {"type": ["integer", "null"]}}
    lake.load(schema("items", rules, ["id"]), batch("items", file, kind="parquet"))
    assert ids(lake) == [None, 1], "but not where the schema allows null"


def test_a_map_may_make_the_key_of_a_parquet_file(lake, tmp_path, caplog):
    file = write_parquet(tmp_path / "1", [{"nr": 1, "name": "x"}])
    lake.load(
        schema("items", {"nr": {"type": "integer"}, "name": {"type": "string"}}, ["nr"]),
        batch("items", file, kind="parquet", time_extracted=5),
        stream_maps={"items": {"id": "nr", "nr": "__NULL__", "__key_properties__": ["id"]}},
    )
    assert ids(lake) == [1]
    assert "left out" not in caplog.text


def test_columns_that_are_null_in_all_rows_of_a_file_are_null_whatever_is_declared(lake, tmp_path):
    properties = {
        "id": {"type": "integer"},
        "o": {"type": ["object", "null"], "properties": {"x": {"type": "integer"}}},
        "l": {"type": ["array", "null"], "items": {"type": "object", "properties": {"x": {}}}},
    }
    rows = [{"id": 1, "o": {"x": 1}, "l": [{"x": "a"}]}], [{"id": 2, "o": None, "l": None}]
    files = [write_parquet(tmp_path / f"{n}", one) for n, one in enumerate(rows)]
    empty = write_parquet(tmp_path / "2", [{"id": 3, "o": {"x": None}, "l": []}])
    items = schema("items", properties, ["id"])
    lake.load(items, batch("items", *files, empty, kind="parquet"))
    assert lake.rows("items") == [
        *rows[0],
        *rows[1],
        {"id": 3, "o": {"x": None}, "l": []},
    ]
    other = write_parquet(tmp_path / "3", [{"id": 4, "o": None, "l": [None, {"x": "b"}]}])
    wrong = write_parquet(tmp_path / "4", [{"id": 5, "o": {"x": 1}, "l": [5]}])
    with pytest.raises(RecordError, match=r"stream items, line 2: l\[\]: bigint stands where"):
        lake.load(items, batch("items", other, wrong, kind="parquet"))


@pytest.mark.parametrize(
    ("more", "chosen"),
    [
        pytest.param({}, {}, id="columns"),
        pytest.param({"additionalProperties": False}, {}, id="lines"),
        pytest.param({}, {"stream_maps": {"items": {"name": "name.upper()"}}}, id="mapped"),
    ],
)
def test_a_column_of_versions_counts_whichever_way_the_rows_take(lake, tmp_path, more, chosen):
    properties = {"id": {"type": "integer"}, "name": {"type": "string"}}
    items = schema("items", properties, ["id"], **more)
    lake.load(items, *(record("items", {"id": n, "name": "old"}, version=1) for n in (1, 2)))
    rows = [{"id": n, "name": "new", "_sdc_table_version": n} for n in (2, 3)]
    file = write_parquet(tmp_path / "1", [*rows, {"id": 4, "name": "new"}])
    lake.load(items, batch("items", file, kind="parquet"), activate("items", 3), **chosen)
    found = [(row["id"], row["_sdc_table_version"]) for row in lake.rows("items")]
    assert found == [(1, 1), (2, 2), (3, 3), (4, None)]
    assert [row["id"] for row in lake.rows("items") if row["_sdc_deleted_at"]] == [1, 2]
