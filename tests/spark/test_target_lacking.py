"""Of streams that name their bookmark only what the table lacks is appended, counted over a run."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_spark.report import REPORT_FILE, read_report
from target_spark_delta.methods import append
from tests.support.cases import plain
from tests.support.singer import Loaded, batch, read, record, schema, state

NUMBER, TEXT = {"type": ["integer", "null"]}, {"type": ["string", "null"]}
COLUMNS = {"at": NUMBER, "v": TEXT}
DONE = state({"bookmarks": {"s": {}}})


def stream(name="s", columns=COLUMNS, keys=(), by="at"):
    message = schema(name, columns, list(keys))
    return read(message, "range", column=by, by=by)


def sent(*rows, name="s"):
    return [record(name, {"at": at, "v": v}) for at, v in rows]


def found(lake, name="s"):
    return sorted(((row["at"], row["v"]) for row in lake.rows(name, order="at")), key=str)


def contents(rows):
    """Return rows as a multiset."""
    texts = (json.dumps(plain(row), sort_keys=True) for row in rows)
    return Counter(text.replace("-0.0", "0.0") for text in texts)


FIVE = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]


def test_rows_that_are_sent_again_are_counted_and_left_out(lake, tmp_path, monkeypatch):
    told = tmp_path / "report"
    monkeypatch.setenv(REPORT_FILE, str(told))
    lake.load(stream(), *sent(*FIVE), DONE)
    lake.load(stream(), *sent((5, "e"), (6, "f")), DONE)
    assert found(lake) == [*FIVE, (6, "f")]
    before = lake.version("s")
    assert lake.load(stream(), *sent((3, "c"), (6, "f"), (4, "d")), DONE) == [DONE["value"]]
    assert lake.version("s") == before, "nothing new is no commit"
    lake.load(stream(), *sent((2, "other"), (5, "e"), (5, "e")), DONE)
    assert found(lake) == sorted([*FIVE, (6, "f"), (2, "other"), (5, "e")], key=str)
    facts = [fact for _, fact in read_report(told) if fact["kind"] == "commit"]
    assert [(f["inserted"], f["unchanged"]) for f in facts] == [(5, 0), (1, 1), (0, 3), (2, 1)]
    lake.load(stream(), *sent((5, "e")), DONE, skip_unchanged=False)
    assert len(found(lake)) == 9


@pytest.mark.parametrize("few", [append._FEW_ROWS, 0])
def test_equal_rows_in_two_batches_are_not_both_the_one_that_the_table_has(lake, few, monkeypatch):
    monkeypatch.setattr(append, "_FEW_ROWS", few)
    lake.load(stream(), *sent((1, "a"), (2, "b"), (None, "n")), DONE)
    again = [(2, "b"), (None, "n"), (2, "b"), (1, "a"), (None, "n"), (2, "b"), (3, "c")]
    cut = [message for one in again for message in (*sent(one), state({"at": str(one)}))]
    lake.load(stream(), *cut, DONE, batch_size_rows=1)
    assert Counter(found(lake)) == Counter(again)
    lake.load(stream(), *sent(*again), DONE, batch_size_rows=3)
    assert Counter(found(lake)) == Counter(again)
    left = [p for p in (lake.root / "_singer_spark").rglob("*.parquet") if p.stat().st_size > 2000]
    assert not left


def test_append_only_by_name_with_a_key_after_a_crash_before_the_state(lake):
    """The run committed its rows and its state was lost, so that it reads the same again."""
    chosen = {"load_method": "append-only"}
    lake.load(stream(keys=["at"]), *sent((1, "a"), (2, "b")), DONE, **chosen)
    lake.load(stream(keys=["at"]), *sent((2, "b"), (3, "c"), (3, "c")), **chosen)
    lake.load(stream(keys=["at"]), *sent((2, "b"), (3, "c"), (3, "c"), (4, "d")), DONE, **chosen)
    assert found(lake) == [(1, "a"), (2, "b"), (3, "c"), (3, "c"), (4, "d")]


TYPES = {
    "texts": (TEXT, ["a", "b'\\", "ü", "", None]),
    "decimals": (
        {"type": "string", "x-sql-datatype": "decimal(38,9)"},
        ["0.000000001", "1", "1.1"],
    ),
    "instants": (
        {"type": "string", "format": "date-time"},
        ["2024-01-01T00:00:00.000001Z", "2024-01-01T00:00:00.000999Z", "2024-01-01T00:00:00.001Z"],
    ),
    "local": (
        {"type": "string", "x-sql-datatype": "timestamp_ntz"},
        ["2024-01-01T00:00:00.000001", "2024-01-01T00:00:00.000002"],
    ),
    "doubles": ({"type": "number"}, [-0.0, 1.5, 1e300, "NaN", "Infinity"]),
    "bytes": ({"type": "string", "x-sql-datatype": "binary"}, ["AAE=", "/w=="]),
}
NESTED = {
    "s": {"type": "object", "properties": {"x": {"type": "number"}, "y": TEXT}},
    "m": {"type": "object", "x-sql-datatype": "map<string,double>"},
    "l": {"type": "array", "items": {"type": ["object", "null"], "properties": {"z": NUMBER}}},
}


def payload(number):
    value = ["NaN", -0.0, 0.1][number % 3]
    pairs = [("b", 1.5), ("a", value)]
    return {
        "s": {"x": value, "y": None},
        "m": dict(pairs if number % 2 else pairs[::-1]),
        "l": [{"z": number}, None],
    }


def test_keys_and_values_of_every_type_are_found_equal(lake):
    def messages(*, more):
        for name, (kind, values) in TYPES.items():
            yield stream(name, {"at": kind, **NESTED})
            rows = [{"at": at, **payload(n)} for n, at in enumerate(values)]
            if more:
                rows = [*reversed(rows), {"at": values[0], **payload(9)}]
            yield from (record(name, row) for row in rows)
        yield DONE

    lake.load(*messages(more=False))
    lake.load(*messages(more=True))
    for name, (_, values) in TYPES.items():
        assert len(lake.rows(name, order="")) == len(values) + 1, name


def test_files_find_the_rows_of_records_equal_and_the_other_way_round(lake, tmp_path):
    columns = {
        "at": {"type": "string", "format": "date-time"},
        "n": {"type": "string", "x-sql-datatype": "decimal(10,2)"},
        "d": {"type": "number"},
        "m": {"type": "object", "x-sql-datatype": "map<string,bigint>"},
    }
    times = [1_700_000_000_000_001, 1_700_000_000_000_002]
    kinds = pa.schema(
        [
            ("at", pa.timestamp("us", tz="UTC")),
            ("n", pa.decimal128(10, 2)),
            ("d", pa.float64()),
            ("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    rows = [
        {"at": at, "n": f"{n}.50", "d": 0.1 + 0.2, "m": [("b", 2), ("a", 1)]}
        for n, at in enumerate(times)
    ]
    file = tmp_path / "rows.parquet"
    table = pa.Table.from_pylist([{**row, "n": Decimal(row["n"])} for row in rows], kinds)
    pq.write_table(table, file)
    written = [
        {**row, "at": f"2023-11-14T22:13:20.{row['at'] % 10**6:06}+00:00", "m": {"a": 1, "b": 2}}
        for row in rows
    ]
    as_file = [batch("s", file.as_uri(), kind="parquet"), DONE]
    as_records = [*(record("s", row) for row in written), DONE]
    for one in (as_file, as_records, as_file):
        lake.load(stream(columns=columns), *one)
        assert len(lake.rows("s", order="")) == 2


def test_columns_that_are_new_or_gone_are_not_compared(lake):
    lake.load(stream(), *sent((1, "a"), (2, "b")), DONE)
    wider = {"at": {"type": "number", "multipleOf": 0.01}, "v": TEXT, "new": TEXT}
    rows = [{"at": 1, "v": "a", "new": "x"}, {"at": 2, "v": "b"}, {"at": 2.5, "v": "c"}]
    lake.load(stream(columns=wider), *(record("s", row) for row in rows), DONE)
    assert [float(row["at"]) for row in lake.rows("s", order="at")] == [1, 2, 2.5]
    lake.load(stream(columns={"at": wider["at"]}), record("s", {"at": 2.5}), DONE)
    assert len(lake.rows("s", order="at")) == 3


def test_a_row_that_came_without_a_column_is_not_taken_for_the_same_row_twice(lake):
    lake.load(stream(), *sent((1, "a"), (1, "b")), DONE)
    narrow = stream(columns={"at": NUMBER})
    lake.load(narrow, record("s", {"at": 1}), stream(), *sent((1, "a"), (1, "b")), DONE)
    assert len(found(lake)) >= 3, "three were sent, and the table had two"


def test_metadata_is_not_compared_but_a_deletion_is(lake):
    lake.load(stream(), *sent((1, "a"), (2, "b")), DONE)
    deleted = record("s", {"at": 2, "v": "b", "_sdc_deleted_at": "2024-01-01T00:00:00Z"})
    for _ in range(2):
        lake.load(stream(), *sent((2, "b")), deleted, DONE, add_record_metadata=True)
    assert found(lake) == [(1, "a"), (2, "b"), (2, "b")]
    assert sum(row["_sdc_deleted_at"] is not None for row in lake.rows("s", order="at")) == 1


def test_tables_that_are_partitioned_or_clustered_and_keys_that_are_lists(lake):
    options = {"p": {"partition_by": ["v"]}, "c": {"cluster_by": ["at"]}}

    def messages(*rows):
        for name in ("p", "c", "l"):
            message = stream(name)
            if name == "l":
                message["bookmark_properties"] = ["at", "v"]
            yield from (message, *sent(*rows, name=name))
        yield DONE

    lake.load(*messages((1, "a"), (2, "b")), stream_options=options)
    for _ in range(2):
        lake.load(*messages((2, "b"), (2, "c"), (3, None)), stream_options=options)
    for name in ("p", "c", "l"):
        assert found(lake, name) == [(1, "a"), (2, "b"), (2, "c"), (3, None)]


def test_a_stream_of_another_tap_whose_bookmark_is_no_column_is_appended_with_one_warning(
    lake, caplog
):
    message = {**schema("s", COLUMNS), "bookmark_properties": ["gone"]}
    for _ in range(2):
        caplog.clear()
        lake.load(message, *sent((1, "a")), DONE)
        assert sum("its bookmark gone is no column" in one for one in caplog.messages) == 1
    assert found(lake) == [(1, "a"), (1, "a")]
    lake.load({**message, "bookmark_properties": ["at"]}, *sent((1, "a"), (2, "b")), DONE)
    assert found(lake) == [(1, "a"), (1, "a"), (2, "b")]


def test_files_out_of_the_range_are_not_read(lake):
    for n in range(3):
        lake.load(stream(), *sent(*((10 * n + m, "a") for m in range(5))), DONE)
    adds = pa.table(lake.table("s").get_add_actions(flatten=True)).to_pylist()
    for add in adds:
        if add["max.at"] < 20:
            (lake.root / "s" / add["path"]).unlink()
    lake.load(stream(), *sent((24, "a"), (24, "a"), (25, "a")), DONE)
    lake.load(stream(), *sent((25, "a"), (26, "a")), DONE)
    assert lake.version("s") == 5


def test_a_table_of_a_catalog_is_looked_at_too(lake, spark, tmp_path, monkeypatch):
    monkeypatch.setattr(append, "_FEW_ROWS", 0)
    spark.sql(f"create schema lacking location '{tmp_path / 'warehouse'}'")
    config = {
        "catalog": "spark_catalog",
        "default_target_schema": "lacking",
        "spark_conf": {"spark.sql.warehouse.dir": str(tmp_path / "warehouse")},
    }
    try:
        lake.load(stream(), *sent(*FIVE), DONE, **config)
        again = [*sent((5, "e")), state({}), *sent((5, "e"), (6, "f")), DONE]
        for _ in range(2):
            lake.load(stream(), *again, batch_size_rows=1, **config)
        assert spark.table("lacking.s").count() == 7
    finally:
        spark.sql("drop schema lacking cascade")
        spark.sql("drop schema if exists _singer_spark cascade")


class Source:
    """Rows that are only ever added, read from any earlier key, in any order and cut anywhere."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.rows: list[tuple] = []

    def grow(self) -> list[tuple]:
        """Add rows, and return what a run reads from a bookmark that is not above them."""
        keys = [*range(6), None]
        new = [
            (self.chance.choice(keys), self.chance.choice("ab"))
            for _ in range(self.chance.randint(0, 6))
        ]
        self.rows += new
        lowest = min((at for at, _ in new if at is not None), default=5)
        start = self.chance.randint(0, lowest)
        read = [row for row in self.rows if row[0] is None or row[0] >= start]
        if self.chance.random() < 0.7:
            self.chance.shuffle(read)
        return read

    def messages(self, name: str) -> list[dict]:
        rows = sent(*self.grow(), name=name)
        states = (state({"n": n}) for n in itertools.count())
        cut = [[row, next(states)] if self.chance.random() < 0.4 else [row] for row in rows]
        return [stream(name), *itertools.chain(*cut)]


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 6))]
)
def test_the_table_is_the_multiset_of_the_source(tmp_path, seed):
    lake = Loaded(tmp_path)
    sources = {f"s{n}": Source(100 * seed + n) for n in range(2)}
    for size in (2, 1, 3):
        messages = [source.messages(name) for name, source in sources.items()]
        lake.load(*itertools.chain(*messages), DONE, batch_size_rows=size)
        for name, source in sources.items():
            there = Counter(found(lake, name)) if (lake.root / name).exists() else Counter()
            assert there == Counter(source.rows), name
