"""Records that vanish between their receipt and the table end the run before any STATE leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_spark.assignment import PIPELINE, RUN_ID, Attempt, TableIdentity
from singer_spark.errors import TransientError
from singer_spark.state.reached import Known, find_reached
from singer_spark.state.recover import read_logs
from singer_spark.storage.open import open_objects
from target_spark_delta.intake.segments import Segment
from target_spark_delta.table.identity import history_in_files, misfit
from tests.support.singer import batch, record, schema, state

ID = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}
KEYED, KEYLESS = schema("s", ID, ["id"]), schema("s", ID)
BY_TIME = schema("s", ID, ["at"])
ROWS = [record("s", {"id": number, "at": f"2024-01-01T00:00:{number:02}Z"}) for number in range(50)]

FEWER = "30 rows were found where 50 were received"


def cut(path: Path, lines: int) -> None:
    kept = [line for line in path.read_bytes().splitlines(keepends=True) if line.strip()][:lines]
    path.write_bytes(b"".join(kept))


@pytest.fixture
def cut_spool(monkeypatch):
    """Cut each spooled file to 30 lines: before its size is looked at, or after."""

    def cut_spool(*, late: bool):
        check = Segment.check_size

        def checked(segment):
            if late:
                check(segment)
            cut(segment.path, 30)
            if not late:
                check(segment)

        monkeypatch.setattr(Segment, "check_size", checked)

    return cut_spool


def test_a_spool_file_that_was_cut_is_noticed_before_its_commit(lake, cut_spool):
    cut_spool(late=False)
    with pytest.raises(TransientError, match="bytes are left of what was spooled"):
        lake.load(KEYED, *ROWS, state({"at": 50}))
    assert lake.states == []
    assert not (lake.root / "s").exists()


@pytest.mark.parametrize("declared", [KEYED, KEYLESS, BY_TIME], ids=["key", "append", "looked up"])
def test_rows_that_spark_does_not_read_release_no_state(lake, cut_spool, declared):
    lake.load(declared, *ROWS[:40], state({"at": 40}))
    cut_spool(late=True)
    with pytest.raises(TransientError, match=FEWER):
        lake.load(declared, *ROWS, state({"at": 50}))
    assert lake.states == []
    assert len(lake.rows("s")) == 40, "a commit that lacks rows is taken back"


@pytest.mark.parametrize(
    "options",
    [{"hard_delete": True}, {}, {"stream_options": {"s": {"load_method": "scd2"}}}],
    ids=["removed", "marked", "scd2"],
)
def test_records_with_deletions_that_spark_does_not_read_release_no_state(lake, cut_spool, options):
    lake.load(KEYED, *ROWS[:40], state({"at": 40}), **options)
    before = len(lake.rows("s"))
    cut_spool(late=True)
    gone = record("s", {"id": 1, "_sdc_deleted_at": "2024-02-01T00:00:00Z"})
    with pytest.raises(TransientError, match=FEWER):
        lake.load(KEYED, gone, *ROWS[1:], state({"at": 50}), **options)
    assert lake.states == []
    assert len(lake.rows("s")) == before


def test_rows_of_a_part_that_spark_does_not_read_release_no_state(lake, cut_spool):
    by_range = {"stream_options": {"s": {"load_method": "delete-insert", "range_column": "id"}}}
    lake.load(KEYLESS, *ROWS[:40], state({"at": 40}), **by_range)
    lake.load(KEYLESS, *ROWS[5:45], state({"at": 45}), **by_range)
    assert lake.states == [{"at": 45}], "rows that are copied are no more than came"
    cut_spool(late=True)
    with pytest.raises(TransientError, match=r"30 rows were found|bytes are left"):
        lake.load(KEYLESS, *ROWS[5:], state({"at": 50}), **by_range)
    assert lake.states == []
    assert len(lake.rows("s")) == 45, "a commit that lacks rows is taken back"


def test_the_run_after_one_that_lost_rows_has_all_of_them_once(lake, monkeypatch):
    """Also of a stream that nothing tells apart, which goes on from what a commit carries."""
    monkeypatch.setenv(PIPELINE, "p")
    monkeypatch.setenv(RUN_ID, "1")
    lake.load(KEYLESS, *ROWS[:10], state({"bookmarks": {"s": {"at": 10}}}))
    monkeypatch.setenv(RUN_ID, "2")
    check = Segment.check_size

    def cut_second(segment):
        check(segment)
        if segment.rows == 30:
            cut(segment.path, 20)

    monkeypatch.setattr(Segment, "check_size", cut_second)
    middle, last = (state({"bookmarks": {"s": {"at": at}}}) for at in (20, 50))
    with pytest.raises(TransientError, match="20 rows were"):
        lake.load(KEYLESS, *ROWS[10:20], middle, *ROWS[20:], last, batch_size_rows=10)
    monkeypatch.setattr(Segment, "check_size", check)
    reached = find_reached({"url": str(lake.root)}, "p", Known({}, {"2": Attempt()}))
    assert reached.streams["s"].bookmark == {"at": 20}
    (log,) = read_logs(open_objects(str(lake.root)), "p")
    assert (log.commit.state, log.restored_in) == ({"at": 20}, None)
    history = history_in_files(str(lake.root / "s"))
    known = TableIdentity(location="", id=history.id, version=1, run_id="1")
    assert misfit(known, history) is None
    lake.load(KEYLESS, *ROWS[20:], last)
    assert [row["id"] for row in lake.rows("s")] == list(range(50))


def test_new_rows_that_spark_does_not_read_release_no_state(lake, cut_spool):
    cut_spool(late=True)
    with pytest.raises(TransientError, match=FEWER):
        lake.load(KEYED, *ROWS, state({"at": 50}))
    assert lake.states == []


def rows_written(count):
    return {"singer_spark": {"rows": count}}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("declared", [KEYED, KEYLESS], ids=["key", "append"])
def test_batch_files_with_fewer_rows_than_were_written_are_not_loaded(
    lake, tmp_path, kind, declared
):
    file = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"id": list(range(30))}), file)
    else:
        file.write_text("".join(f"{json.dumps({'id': number})}\n\n" for number in range(30)))
    whole, less = batch("s", str(file), kind=kind), batch("s", str(file), kind=kind)
    with pytest.raises(TransientError, match="have 30 records, and the tap has written 50"):
        lake.load(declared, {**less, **rows_written(50)}, state({"at": 50}))
    assert lake.states == []
    assert not (lake.root / "s").exists()
    assert lake.load(declared, {**whole, **rows_written(30)}, state({"at": 30})) == [{"at": 30}]
