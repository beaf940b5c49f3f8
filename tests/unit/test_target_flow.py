"""What is committed in which order, with which STATE, and when a version is activated; no Spark."""

from __future__ import annotations

import contextlib
import io
import json
import logging

import pytest

from singer_spark.errors import ProtocolError
from target_spark_delta import target
from target_spark_delta.commits import closing, lanes
from target_spark_delta.intake.segments import Range
from target_spark_delta.streams.schema_message import SchemaMessage, destination_of
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import activate, batch, lines, read, record, schema, stand_in, state

ID = {"id": {"type": "integer"}}
KEYED, KEYLESS = schema("s", ID, ["id"]), schema("s", ID)


class Spark:
    """Stands for Spark: notes what it is given to do."""

    def __init__(self):
        self.commits, self.segments, self.done, self.made = [], [], [], []

    def load_segment(self, _spark, _work, segment, commit, *, if_made):
        self.made.append(if_made.state)
        self.segments.append(segment)
        what = (
            [one.rpartition("/")[2] for one in segment.manifest.files]
            if segment.manifest
            else (segment.rows)
        )
        self.commits.append((what, commit.state))
        self.done.append(segment.stream)

    def activate_version(self, _spark, _work, version, _commit):
        self.done.append(version)


@pytest.fixture
def spark(monkeypatch):
    spark = Spark()
    jobs = {"load_segment": spark.load_segment, "activate_version": spark.activate_version}
    stand_in(monkeypatch, **jobs)
    return spark


@pytest.fixture
def load(spark, tmp_path):
    def load(*messages, **config):
        spark.__init__()
        config = {"path": str(tmp_path / "lake"), **config}
        TargetSparkDelta(config=config).listen(io.StringIO(lines(messages)))
        return spark

    return load


@pytest.fixture
def files(tmp_path):
    for name in ("b1", "b2"):
        (tmp_path / name).write_text("")

    def files(*names, **more):
        return batch("s", *((tmp_path / name).as_uri() for name in names), **more)

    return files


def bookmark(value):
    return state({"bookmarks": {"s": value}})


PARTS = {"load_method": "partition-overwrite", "partition_by": ["id"]}
RANGES = {"load_method": "delete-insert", "range_column": "id"}


@pytest.mark.parametrize("options", [PARTS, RANGES])
def test_a_run_that_replaces_parts_releases_no_state_before_its_end(load, capsys, options):
    def released(*messages):
        begun = KEYED, bookmark("A"), record("s", {"id": 1}), bookmark("B"), record("s", {"id": 2})
        with contextlib.suppress(ProtocolError):
            load(*begun, *messages, stream_options={"s": options}, batch_size_rows=1)
        lines = capsys.readouterr().out.splitlines()
        return [json.loads(line)["bookmarks"]["s"] for line in lines]

    assert released({"type": "STATE"}) == ["A"], "the run fails; from B on it would replace again"
    assert released() == ["A"], "not complete"
    assert released(bookmark({"full_table": {}})) == ["A"], "to be resumed"
    assert released(bookmark("C")) == ["A", "C"]
    assert released(activate("s", 1)) == ["A", "B"]


@pytest.mark.parametrize("options", [PARTS, RANGES])
def test_parts_end_with_the_output_of_a_tap_that_says_nothing_of_their_end(
    load, monkeypatch, options
):
    ended = []
    monkeypatch.setattr(closing, "end_parts", lambda *_: ended.append(1))
    chosen = {"stream_options": {"s": options}, "on_invalid_record": "quarantine"}
    load(KEYED, record("s", {"id": 1}), **chosen)
    assert ended == [1], "no STATE at all"
    with contextlib.suppress(ProtocolError):
        load(KEYED, bookmark("A"), record("s", {"id": 1}), **chosen)
    assert ended == [1], "a tap that writes STATE has not confirmed it"


@pytest.mark.parametrize("options", [PARTS, RANGES])
def test_rows_that_wait_for_the_end_of_a_stream_are_not_dropped_as_if_they_were_loaded(
    load, monkeypatch, options
):
    def stage(_spark, work, *_, **__):
        work.progress.staged.append("rows")

    ended, dropped = [], []
    jobs = {"end_parts": ended.append, "drop_staged": dropped.append}
    stand_in(monkeypatch, **{name: lambda *_, do=do, **__: do(1) for name, do in jobs.items()})
    stand_in(monkeypatch, load_segment=stage)
    chosen = {"stream_options": {"s": options}, "on_invalid_record": "quarantine"}
    rows = KEYLESS, bookmark("A"), record("s", {"id": 1})
    syncing = state({"bookmarks": {}, "currently_syncing": "s"})
    for last in ([], [bookmark({"full_table": {}})], [syncing]):
        with pytest.raises(ProtocolError, match="nothing says that s is complete"):
            load(*rows, *last, **chosen)
    with pytest.raises(ProtocolError, match="nothing says that s is complete"):
        load(read(KEYLESS), record("s", {"id": 1}), **chosen)
    assert (ended, dropped) == ([], [1] * 4)
    load(*rows, bookmark("B"), **chosen)
    load(KEYLESS, record("s", {"id": 1}), **chosen)
    assert len(ended) == 2, "a confirmed end, and a tap that writes no STATE at all"


def test_a_commit_that_replaces_a_part_carries_no_state_unless_it_is_the_last(load):
    options = {"stream_options": {"s": PARTS}}
    first, last = [record("s", {"id": n}) for n in range(1, 4)], record("s", {"id": 4})
    messages = KEYED, *first, bookmark("B"), last, bookmark("C")
    assert load(*messages, batch_size_rows=3, **options).commits == [(3, None), (1, "C")]
    assert load(*messages[:-1], batch_size_rows=3, **options).commits == [(3, None), (1, None)]


@pytest.mark.parametrize(
    ("message", "options", "is_reload", "job"),
    [
        (KEYED, PARTS, False, "end_parts"),
        (KEYED, RANGES, False, "end_parts"),
        (KEYLESS, PARTS, True, "end_parts"),
        (KEYED, {}, True, "retire_gone"),
    ],
)
def test_where_the_end_removes_rows_only_its_commit_carries_the_state(
    load, monkeypatch, message, options, is_reload, job
):
    ended = []
    monkeypatch.setattr(closing, job, lambda _, __, commit, *___: ended.append(commit.state))
    monkeypatch.setattr(target, "with_key", lambda _, destination: destination)
    if is_reload:
        monkeypatch.setattr("singer_spark.assignment.Assignment.reloads", lambda *_: True)
    chosen = {"stream_options": {"s": options}, "on_invalid_record": "quarantine"}
    first, last = record("s", {"id": 1}, version=2), record("s", {"id": 2}, version=2)
    stream = read(message), first, bookmark("B"), last, activate("s", 2), bookmark("C")
    done = load(*stream, batch_size_rows=1, **chosen)
    assert done.commits == [(1, None), (1, None)]
    assert ended == ["C"]
    assert done.made[-1] == "C", "in a table that the run has made there is nothing to remove"


def test_delete_insert_by_key_releases_a_state_as_soon_as_it_is_true(load, capsys):
    options = {"stream_options": {"s": {"load_method": "delete-insert"}}}
    load(KEYED, record("s", {"id": 1}), bookmark("B"), record("s", {"id": 2}), **options)
    assert '"B"' in capsys.readouterr().out


def test_of_appended_files_only_the_last_commit_carries_their_state(load, files):
    done = load(KEYLESS, files("b1"), files("b2"), bookmark("S"))
    assert done.commits == [(["b1"], None), (["b2"], "S")]


def test_records_beside_appended_files_are_committed_before_the_state_is_carried(load, files):
    a_record = record("s", {"id": 1})
    done = load(
        KEYLESS,
        a_record,
        bookmark("P"),
        a_record,
        files("b1"),
        a_record,
        bookmark("S"),
        a_record,
        files("b2"),
    )
    assert done.commits == [(3, "P"), (["b1"], "S"), (1, "S"), (["b2"], "S")]


def test_a_version_whose_records_are_all_filtered_or_invalid_has_come(load, caplog):
    def run(bad, **config):
        return load(KEYED, activate("s", 2), record("s", bad, version=2), **config).done

    assert run({"id": "x"}, on_invalid_record="quarantine") == ["s"]
    assert run({"id": 1}, stream_maps={"s": {"__filter__": "id > 1"}}) == []
    assert caplog.text.count("nothing says that the stream is complete") == 2


def test_what_has_no_version_counts_as_following_an_activation(load, files):
    for one in (files("b1", kind="parquet"), files("b1"), record("s", {"id": 1})):
        assert load(KEYED, activate("s", 2), one).done == ["s"]
        assert load(KEYED, activate("s", 2), one, bookmark({})).done == ["s", 2]
        assert load(KEYED, one, activate("s", 2)).done == ["s", 2]


def test_without_a_record_a_version_is_activated_at_the_end_of_the_input(load):
    assert load(KEYED, activate("s", 2)).done == [2]
    assert load(KEYED, activate("s", 2), bookmark({})).done == [2]


def test_a_stream_whose_records_are_all_filtered_is_complete_as_any_other(load, monkeypatch):
    done = []
    for name in ("swap_in", "drop_staged"):
        monkeypatch.setattr(closing, name, lambda *_, name=name, **__: done.append(name))
    chosen = {"load_method": "overwrite", "stream_maps": {"s": {"__filter__": "id > 1"}}}
    filtered = record("s", {"id": 1})
    with pytest.raises(ProtocolError, match="s is complete"):
        load(KEYED, bookmark({}), filtered, **chosen)
    load(KEYED, filtered, bookmark({}), **chosen)
    assert done == ["drop_staged", "swap_in"]


def test_an_activation_that_acted_takes_the_place_of_one_that_waited(load, caplog):
    messages = activate("s", 1), record("s", {"id": 1}, version=2), activate("s", 2)
    with caplog.at_level(logging.WARNING):
        assert load(KEYED, *messages, record("s", {"id": 2}, version=2)).done == ["s", 2, "s"]
    assert "not activated" not in caplog.text


def test_a_full_stream_that_waits_for_a_state_does_not_flush_the_others(load):
    other = schema("other", ID, ["id"])
    pairs = [record(name, {"id": n}) for n in range(10) for name in ("other", "s")]
    done = load(KEYLESS, other, *pairs, batch_size_rows=4, flush_all_streams=True).done
    assert done.count("other") == 3


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ({"type": "integer"}, True),
        ({"anyOf": [{"type": ["integer"]}, {"type": "null"}]}, True),
        ({"type": "integer", "x-sql-datatype": "int"}, True),
        ({"type": ["string", "null"]}, True),
        ({"$ref": "#/definitions/number"}, True),
        ({"type": ["integer", "string"]}, False),
        ({"type": "integer", "x-sql-datatype": "string"}, False),
        ({"type": "string", "x-sql-datatype": "int"}, False),
        ({"type": "string", "format": "date-time"}, False),
        ({"type": "object"}, False),
        ({}, False),
        (True, False),
    ],
)
def test_keys_are_told_apart_while_spooling_only_where_the_column_does_it_alike(load, key, told):
    declared = schema("s", {"id": key}, ["id"], definitions={"number": {"type": "integer"}})
    good = "x" if key is not True and "string" in str(key.get("type")) else 5
    if key == {"type": "object"}:
        good = {"k": 1}
    (segment,) = load(declared, record("s", {"id": good})).segments
    assert (segment.facts is not None) == told
    if told:
        assert segment.facts.ranges == {"id": Range(str(good), str(good), 0, (str(good),))}


def test_lines_for_a_remote_spark_are_sent_to_a_folder_of_the_run():
    target = TargetSparkDelta(config={"path": "s3://lake", "spark_remote": "sc://host:15002"})
    declared = SchemaMessage(schema=KEYED["schema"], keys=["id"])
    destination = destination_of("s", declared, target._settings)
    spool = "s3a://lake/_singer_spark/spool"
    assert destination.spool_folder("run 1") == f"{spool}/run_1"
    assert destination.spool_folder("run-2") == f"{spool}/run_2"


def test_a_history_that_cannot_be_repeated_is_warned_of(load, caplog):
    columns = {**ID, "at": {"type": "string", "format": "date-time"}}

    def warnings(**options):
        caplog.clear()
        chosen = {"s": {"load_method": "scd2", **options}}
        load(schema("s", columns, ["id"]), stream_options=chosen)
        return caplog.text.count("Stream s: scd2 without dedupe_by")

    assert warnings() == 1
    assert warnings(dedupe_by="at") == 0


def test_a_number_of_5000_digits_is_refused_by_a_map_too(load):
    line = '{"type": "RECORD", "stream": "s", "record": {"id": ' + "9" * 5000 + "}}\n"
    maps = {"stream_maps": {"s": {"more": "id"}}, "on_invalid_record": "quarantine"}
    (segment,) = load(KEYED, line, **maps).segments
    assert (segment.rows, segment.rejected) == (1, 1)


def test_the_engine_starts_when_it_is_known_where_the_files_are(load, monkeypatch):
    def noted(loader):
        known.append(set(loader._engine.__self__._urls))
        warm_up(loader)

    known, warm_up = [], lanes.Lanes.warm_up
    monkeypatch.setattr(lanes.Lanes, "warm_up", noted)
    load(KEYED, batch("s", "s3://there/1.jsonl"), state(1))
    assert "s3://there/1.jsonl" in known[0]
