"""What was read whole, or a range of it, takes the place of what was; a part never does."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from singer_spark.assignment import PIPELINE
from singer_spark.errors import DataError, ProtocolError, SettingsError
from tests.support.singer import activate, batch, read, record, schema, state

COLUMNS = {"id": {"type": "integer"}, "v": {"type": ["string", "null"]}}
KEYLESS, KEYED = schema("s", COLUMNS), schema("s", COLUMNS, ["id"])
DONE, UNFINISHED = state({"bookmarks": {"s": {}}}), state({"bookmarks": {"s": {"full_table": {}}}})


def rows(*ids):
    return [record("s", {"id": one, "v": "x"}) for one in ids]


def ids(lake, table="s"):
    return [row["id"] for row in lake.rows(table)]


class TestWholeReadWithoutAKey:
    def test_a_second_run_replaces_the_first_in_one_commit(self, lake):
        lake.load(read(KEYLESS), *rows(1, 2, 2), DONE)
        assert ids(lake) == [1, 2, 2]
        before = lake.version("s")
        states = lake.load(read(KEYLESS), *rows(2, 3), DONE, batch_size_rows=1)
        assert ids(lake) == [2, 3]
        assert lake.version("s") == before + 1
        assert states == [DONE["value"]]
        assert lake.table("s").schema().to_arrow().names == ["id", "v"]
        lake.load(read(KEYLESS), *rows(3, 2), DONE)
        assert lake.version("s") == before + 1, "the same again is no commit"

    def test_files_and_records_replace_each_other(self, lake, tmp_path):
        file = tmp_path / "rows"
        file.write_text("".join(f"{json.dumps({'id': n, 'v': 'x'})}\n" for n in (1, 2, 3)))
        lake.load(read(KEYLESS), batch("s", file.as_uri()), DONE)
        lake.load(read(KEYLESS), *rows(3, 4), DONE)
        assert ids(lake) == [3, 4]
        lake.load(read(KEYLESS), batch("s", file.as_uri()), DONE)
        assert ids(lake) == [1, 2, 3]

    def test_versions_add_no_column_and_mark_nothing(self, lake):
        one = [record("s", {"id": 1, "v": "x"}, version=1), activate("s", 1), DONE]
        lake.load(read(KEYLESS), *one)
        lake.load(read(KEYLESS), record("s", {"id": 2}, version=2), activate("s", 2), DONE)
        assert lake.rows("s") == [{"id": 2, "v": None}]

    def test_an_empty_source_empties_the_table_before_its_state_leaves(self, lake):
        lake.load(read(KEYLESS), *rows(1, 2), DONE)
        assert lake.load(read(KEYLESS), DONE) == [DONE["value"]]
        assert ids(lake) == []

    @pytest.mark.parametrize("end", [[], [UNFINISHED]])
    def test_an_interrupted_read_leaves_the_old_rows_and_keeps_its_state(self, lake, end):
        lake.load(read(KEYLESS), *rows(1, 2), DONE)
        with pytest.raises(ProtocolError, match="complete"):
            lake.load(read(KEYLESS), *rows(1), *end)
        assert (ids(lake), lake.states) == ([1, 2], [])

    def test_a_read_that_ends_before_its_first_record_empties_nothing(self, lake):
        lake.load(read(KEYLESS), *rows(1, 2), DONE)
        with pytest.raises(ProtocolError, match="complete"):
            lake.load(DONE, read(KEYLESS))
        assert ids(lake) == [1, 2]

    def test_the_table_of_another_pipeline_is_not_replaced(self, lake, monkeypatch):
        monkeypatch.setenv(PIPELINE, "one")
        lake.load(read(KEYLESS), *rows(1, 2), DONE)
        monkeypatch.setenv(PIPELINE, "two")
        with pytest.raises(DataError, match="pipeline one") as raised:
            lake.load(read(KEYLESS), *rows(3), DONE)
        assert raised.value.exit_code == 65
        assert (ids(lake), lake.states) == ([1, 2], [])
        lake.load(read(KEYLESS), *rows(3), DONE, load_method="append-only")
        assert ids(lake) == [1, 2, 3]
        monkeypatch.setenv(PIPELINE, "one")
        with pytest.raises(DataError, match="pipeline two"):
            lake.load(read(KEYLESS), DONE)
        assert ids(lake) == [1, 2, 3]

    def test_a_table_that_somebody_else_made_is_not_replaced(self, lake):
        write_deltalake(lake.root / "s", pa.table({"id": [7], "v": ["theirs"]}))
        with pytest.raises(DataError, match="not made"):
            lake.load(read(KEYLESS), *rows(3), DONE)
        assert ids(lake) == [7]
        lake.load(read(KEYLESS), *rows(3), DONE, load_method="overwrite")
        assert ids(lake) == [3], "by name it is"

    def test_append_only_by_name_appends(self, lake):
        for _ in range(2):
            lake.load(read(KEYLESS), *rows(1), DONE, load_method="append-only")
        assert ids(lake) == [1, 1]

    def test_a_tap_that_says_nothing_is_appended_with_one_warning(self, lake, caplog):
        for _ in range(2):
            caplog.clear()
            lake.load(KEYLESS, *rows(1), KEYLESS, *rows(2), DONE)
            assert [one for one in caplog.messages if "appended again" in one] == [
                "Stream s has no key and its tap names no bookmark, so rows that are sent again "
                "are appended again; set key_properties, or load_method overwrite, in "
                "stream_options"
            ]
        assert ids(lake) == [1, 1, 2, 2]


RANGE = {"load_method": "delete-insert", "range_column": "id"}


def load(lake, message, *records, **config):
    options = {"s": config.pop("chosen", RANGE)}
    return lake.load(message, *records, DONE, stream_options=options, **config)


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("message", [KEYLESS, KEYED])
class TestRange:
    """delete-insert by the replication key replaces exactly what was read."""

    def test_rows_that_are_gone_go_also_at_the_edges(self, lake, message, size):
        load(lake, read(message), *rows(1, 2, 3, 4, 5, 6))
        part = read(message, "range", column="id", start=2, end=5)
        load(lake, part, *rows(3, 4), batch_size_rows=size)
        assert ids(lake) == [1, 3, 4, 5, 6]
        load(lake, part, batch_size_rows=size)
        assert ids(lake) == [1, 5, 6], "the range is empty now"
        load(lake, read(message, "range", column="id", start=5), *rows(7, 9), batch_size_rows=size)
        assert ids(lake) == [1, 7, 9]

    def test_without_records_state_waits_for_what_is_removed(self, lake, message, size):
        load(lake, read(message), *rows(1, 2))
        part = read(message, "range", column="id", start=2)
        assert load(lake, part, batch_size_rows=size) == [DONE["value"]]
        assert ids(lake) == [1]


def test_a_range_of_a_tap_that_says_nothing_does_not_depend_on_batches(lake):
    for size in (1, 2, 100):
        load(lake, read(KEYLESS), *rows(1, 2, 3, 4, 5, 6, 7))
        load(lake, KEYLESS, *rows(6, 2, 4), batch_size_rows=size)
        assert ids(lake) == [1, 2, 4, 6, 7]


def test_rows_without_a_value_are_in_a_range_if_they_were_read(lake):
    nullable = schema("s", {**COLUMNS, "id": {"type": ["integer", "null"]}})
    nothing = record("s", {"id": None, "v": "x"})
    load(lake, read(nullable), nothing, *rows(1, 2))
    load(lake, read(nullable, "range", column="id", start=2, nulls=False), *rows(2))
    assert ids(lake) == [None, 1, 2]
    load(lake, read(nullable, "range", column="id", nulls=False), *rows(4))
    assert ids(lake) == [None, 4]
    load(lake, read(nullable, "range", column="id", start=4, nulls=True), *rows(5))
    assert ids(lake) == [5]


@pytest.mark.parametrize(
    ("kind", "values", "start", "kept"),
    [
        (
            {"type": "string", "format": "date-time"},
            ["2024-01-01T00:00:00.000001Z", "2024-01-01T00:00:00.000002Z"],
            "2024-01-01T01:00:00.000002+01:00",
            1,
        ),
        (
            {"type": "string", "x-sql-datatype": "timestamp_ntz"},
            ["2024-01-01T00:00:00.000001", "2024-01-01T00:00:00.000002"],
            "2024-01-01T00:00:00.000002",
            1,
        ),
        ({"type": "string", "format": "date"}, ["2024-01-01", "2024-01-02"], "2024-01-02", 1),
        ({"type": "string", "x-sql-datatype": "decimal(38,2)"}, ["0.99", "1.00"], "1", 1),
        ({"type": "string"}, ["a'", "b\\"], "b\\", 1),
    ],
)
def test_ends_of_any_type_are_exact(lake, kind, values, start, kept):
    chosen = {"load_method": "delete-insert", "range_column": "k"}
    message = schema("s", {"k": kind})
    load(lake, read(message), *(record("s", {"k": one}) for one in values), chosen=chosen)
    load(lake, read(message, "range", column="k", start=start), chosen=chosen)
    assert len(lake.rows("s")) == kept


PARTS = {"load_method": "partition-overwrite", "partition_by": ["v"]}


@pytest.mark.parametrize(
    ("message", "chosen", "says"),
    [
        (read(KEYED, "range", column="id", start=1), {"load_method": "overwrite"}, "upsert or del"),
        (read(KEYED, "some", why="sample"), {"load_method": "overwrite"}, "(sample)"),
        (read(KEYED, "some", why="max_rows"), PARTS, "(max_rows)"),
        (read(KEYED, "range", column="id", start=1), PARTS, "(by id)"),
        (read(KEYED, "some", why="where"), RANGE, "range_column to the replication key"),
        (read(KEYED, "range", column="v", start="a"), RANGE, "(by v)"),
        (read(KEYLESS, "some", why="where"), {}, "appends its rows again"),
        (read(KEYLESS, "range", column="id", by="no"), {}, "does not arrive as a column"),
    ],
)
def test_a_part_is_refused_before_a_row_moves(lake, message, chosen, says):
    with pytest.raises(SettingsError) as raised:
        load(lake, message, *rows(1), chosen=chosen)
    assert says in raised.value.message
    assert raised.value.exit_code == 78
    assert (lake.root.exists(), lake.states) == (False, [])


@pytest.mark.parametrize(
    ("message", "chosen"),
    [
        (read(KEYLESS, "some", why="where"), {"load_method": "append-only"}),
        (read(KEYLESS, "some", why="changes only"), {}),
        (read(KEYED, "some", why="sample"), {"load_method": "delete-insert"}),
        (read(KEYED, "some", why="sample"), {}),
    ],
)
def test_a_part_is_fine_where_nothing_is_replaced(lake, message, chosen):
    load(lake, message, *rows(1), chosen=chosen)
    load(lake, message, *rows(2), chosen=chosen)
    assert DeltaTable(str(lake.root / "s")).to_pyarrow_table().num_rows == 2
