"""What a run remembers of a table between its batches; no Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as T

from singer_spark.errors import StateError, TransientError
from target_spark_delta.commits import completion, segment_commit
from target_spark_delta.intake.segments import Range, Segment
from target_spark_delta.methods import merge
from target_spark_delta.methods.batch import Progress, Staged, Work
from target_spark_delta.methods.merge import Changes
from target_spark_delta.streams.schema_message import SchemaMessage, destination_of
from target_spark_delta.table import commit
from target_spark_delta.table.commit import Commit, Counts
from target_spark_delta.table.table import Table
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import schema

ID = {"id": {"type": "integer"}}
TABLE = T.StructType([T.StructField("id", T.LongType())])
COMMIT = Commit(pipeline="shop", run_id="1", stream="s", state={"at": 2})


def _work(**options):
    settings = TargetSparkDelta(
        config={"path": "/lake", "stream_options": {"s": options}}
    )._settings
    declared = SchemaMessage(schema=schema("s", ID)["schema"], keys=["id"])
    return Work(destination_of("s", declared, settings), Progress())


@pytest.fixture
def found(monkeypatch):
    """Let tables be there or not, one look after the other."""
    looks = []
    monkeypatch.setattr(Table, "schema", lambda *_: looks.pop(0) if len(looks) > 1 else looks[0])
    monkeypatch.setattr(segment_commit.races, "must_claim", lambda _: False)
    return looks


def test_a_table_that_is_removed_between_two_batches_is_not_made_anew(found):
    work = _work()
    found[:] = [None, TABLE, None]
    assert segment_commit.first_look(None, work) is None, "not made yet"
    assert segment_commit.first_look(None, work) == TABLE
    with pytest.raises(
        StateError, match=r"removed or made anew while the run.*PIPELINE --refresh s$"
    ):
        segment_commit.first_look(None, work)
    whole = _work(load_method="overwrite")
    found[:] = [TABLE, None]
    assert segment_commit.first_look(None, whole) == TABLE
    assert segment_commit.first_look(None, whole) is None, "all of its rows are to come"


@pytest.mark.parametrize(
    ("said", "newest", "is_same"),
    [("1", 7, True), ("another", 7, False), (None, 9, True), (None, 2, False)],
)
def test_a_table_that_others_make_anew_between_two_batches_ends_the_run(
    monkeypatch, said, newest, is_same
):
    info = SimpleNamespace(metadata={"run_id": said}) if said else None
    monkeypatch.setattr(segment_commit, "read_commit", lambda *_: info)
    monkeypatch.setattr(segment_commit, "newest_version", lambda *_: newest)
    work = _work()
    segment_commit.see_same_table(None, work, "1")
    work.progress.versions = {3, 7}
    if is_same:
        segment_commit.see_same_table(None, work, "1")
        return
    with pytest.raises(StateError, match=r"made anew while the run"):
        segment_commit.see_same_table(None, work, "1")


def test_only_a_table_that_is_there_is_claimed(found, monkeypatch):
    work, noted, reported = _work(), [], []
    monkeypatch.setattr(segment_commit.races, "must_claim", lambda _: True)
    monkeypatch.setattr(segment_commit, "note", lambda *_: noted.append(1))
    monkeypatch.setattr(segment_commit, "report", lambda *what: reported.append(what))
    found[:] = [None, TABLE]
    segment_commit.first_look(None, work)
    assert (noted, reported) == ([], [])
    for _ in range(2):
        assert segment_commit.first_look(None, work) == TABLE
    assert (noted, reported) == ([1], [("claimed", "s")])


def test_the_columns_of_every_schema_of_a_run_are_written():
    columns = [T.StructField(name, T.LongType()) for name in ("id", "Old", "new", "other")]
    batch = SimpleNamespace(columns=["id", "new", "without_rows"])
    staged = [Staged(Table("t"), TABLE, ("id", "old"))]
    assert completion._all_columns(batch, staged, T.StructType(columns)) == ["id", "Old", "new"]


@pytest.mark.parametrize("changed", [Counts(), Counts(deleted=1)])
def test_a_state_that_no_commit_carries_gets_one(found, monkeypatch, changed):
    notes = []
    monkeypatch.setattr(completion, "note", lambda *_: notes.append(1))
    monkeypatch.setattr(completion, "describe_commits", lambda *_: None)
    monkeypatch.setattr(completion.races, "confirm", lambda _: None)
    monkeypatch.setattr(completion._End, "retire_older", lambda *_: changed)
    found[:] = [TABLE]
    work = _work()
    completion.activate_version(None, work, 2, COMMIT)
    assert not notes, "nothing has changed, or the activation carries it"
    work.progress.has_changed, work.progress.carried = True, {"at": 1}
    completion.activate_version(None, work, 2, COMMIT)
    assert notes == ([] if changed else [1])
    completion.activate_version(None, work, 2, COMMIT)
    assert notes == ([] if changed else [1]), "once"


@pytest.mark.parametrize("made_table", [False, True])
def test_the_end_of_replaced_parts_leaves_the_last_state_in_the_table(
    found, monkeypatch, made_table
):
    notes = []
    monkeypatch.setattr(completion, "note", lambda *_: notes.append(1))
    monkeypatch.setattr(completion, "describe_commits", lambda *_: None)
    found[:] = [TABLE]
    for carried, expected in ((None, [1]), (COMMIT.state, [1])):
        work = _work(load_method="partition-overwrite", partition_by=["id"])
        work.progress.has_changed, work.progress.carried = True, carried
        work.progress.made_table = made_table
        completion.end_parts(None, work, COMMIT)
        assert notes == expected


@pytest.mark.parametrize(("counts", "is_taken"), [(Counts(inserted=1), True), (None, False)])
def test_a_commit_of_rows_that_were_cut_meanwhile_is_taken_back(
    monkeypatch, tmp_path, counts, is_taken
):
    taken, own = [], {"run_id": "1", "batch": None}
    monkeypatch.setattr(commit, "newest_version", lambda *_: 7)
    monkeypatch.setattr(commit, "read_commit", lambda *_: SimpleNamespace(metadata=own))
    monkeypatch.setattr(commit, "take_back", lambda *given: taken.append(given[-1]))
    segment = Segment("s", tmp_path / "cut", rows=1, size=9)
    for _ in range(2):
        with pytest.raises(TransientError, match="0 of 9 bytes are left"):
            segment_commit._check_size(None, _work(), segment, counts, COMMIT)
        own["run_id"] = "another"
    assert taken == ([7] if is_taken else [])


CHANGES = Changes(
    rows=SimpleNamespace(createOrReplaceTempView=lambda _: None),
    count=20_000,
    keys=["id"],
    columns=["id"],
    schema=TABLE,
    ranges={"id": Range("1", "20000", 0)},
    folded=False,
    skip_unchanged=True,
    is_counted=True,
)
SPARK = SimpleNamespace(
    sql=lambda _: SimpleNamespace(isEmpty=lambda: True),
    conf=SimpleNamespace(set=lambda *_: None, get=lambda *_: "7"),
)


def test_an_insert_that_loses_a_race_is_not_repeated_but_merged(monkeypatch):
    given = []

    def execute(*_, **options):
        given.append(options["repeats"])
        raise PySparkException("[DELTA_CONCURRENT_APPEND] overtaken")

    monkeypatch.setattr(commit, "execute", execute)
    monkeypatch.setattr(merge, "merge_changed", lambda *_: Counts(updated=3))
    assert merge.merge(SPARK, Table("t"), CHANGES) == Counts(updated=3)
    assert given == [False]


def test_an_insert_that_left_rows_out_counts_and_is_taken_back_where_the_rest_fails(monkeypatch):
    taken = []
    monkeypatch.setattr(commit, "execute", lambda *_, **__: Counts(inserted=19_000))
    monkeypatch.setattr(commit, "take_back", lambda *given: taken.append(given[-1]))
    monkeypatch.setattr(merge, "merge_changed", lambda *_: Counts(unchanged=20_000))
    merged = merge.merge(SPARK, Table("t"), CHANGES)
    assert merged == Counts(inserted=19_000, unchanged=1_000)

    def lose(*_):
        raise TransientError("rows are lost")

    monkeypatch.setattr(merge, "merge_changed", lose)
    with pytest.raises(TransientError, match="lost"):
        merge.merge(SPARK, Table("t"), CHANGES)
    assert taken == [7]
