"""Records that cannot be loaded are set aside with the reason, and the run goes on."""

from __future__ import annotations

import json
import logging
from decimal import Decimal

import pytest

from tests.support.singer import data, record, schema, state

QUARANTINE = {"on_invalid_record": "quarantine"}


def set_aside(lake, name):
    rows = lake.rows(f"_quarantine/{name}", order="line")
    return {row["line"]: (row["record"], row["error"]) for row in rows}


def test_every_bad_record_is_set_aside_and_every_good_one_loaded(lake, caplog, monkeypatch):
    report = lake.root.parent / "report"
    monkeypatch.setenv("SINGER_SPARK_REPORT", str(report))
    monkeypatch.setenv("SINGER_SPARK_RUN_ID", "run 1")
    with caplog.at_level(logging.INFO):
        assert lake.load(data("quarantine"), **QUARANTINE) == [{"bookmarks": {"people": 9}}]
    people = {row["id"]: row for row in lake.rows("people")}
    assert sorted(people) == [1, 5]
    assert people[1]["name"] == "Ada"
    assert people[1]["_sdc_deleted_at"] is not None
    assert people[5]["scores"] == [{"points": Decimal("1.25")}]
    assert set_aside(lake, "people") == {
        3: (
            '{"id": 2, "name": "bob", "n": 1.10}',
            "name breaks the rule pattern: 'bob' does not match '^[A-Z]'; "
            "fix the data or its schema",
        ),
        4: (
            '{"id": 3, "name": "Cy", "born": "2024-02-30"}',
            "born: 2024-02-30 does not fit date",
        ),
        5: ('{"name": "Nobody"}', "key property id is missing; look at the tap"),
        6: (
            '{"id": 4, "name": "Dee", "scores": [{"points": 1.25}, '
            '{"points": 12345678901234567890.125}]}',
            "scores[].points: 12345678901234567890.125 does not fit decimal(38,2)",
        ),
        9: (
            '{"id": 5, "_sdc_deleted_at": "yesterday"}',
            "_sdc_deleted_at: yesterday does not fit timestamp",
        ),
        10: ('[1, "no object"]', "the record is no object"),
    }
    (row, *_) = lake.rows("_quarantine/people", order="line")
    assert (row["stream"], row["run_id"]) == ("people", "run 1")
    assert row["time"] is not None
    assert "6 record(s) quarantined" in caplog.text
    facts = [json.loads(line) for line in report.read_text().splitlines()]
    assert sum(fact["rows"] for fact in facts if fact["kind"] == "quarantine") == 6
    assert [said["rows"] for said in lake.commits("people")] == [3]


def test_without_it_the_first_bad_record_ends_the_run(lake):
    with pytest.raises(Exception, match="line 3: name breaks the rule pattern"):
        lake.load(data("quarantine"))


def test_a_batch_of_bad_records_alone_makes_no_table_and_its_state_is_true(lake):
    people = schema("people", {"id": {"type": "integer"}}, ["id"])
    states = lake.load(people, record("people", {"id": "x"}), state(1), **QUARANTINE)
    assert states == [1]
    assert len(set_aside(lake, "people")) == 1
    assert not (lake.root / "people").exists()


def test_appended_streams_and_odd_shapes_are_told_apart_too(lake):
    numbers = schema("numbers", {"n": {"type": "integer"}, "list": {"type": "array"}})
    lake.load(
        numbers,
        record("numbers", {"n": 1, "list": [1]}),
        record("numbers", {"n": 2**70, "list": []}),
        state(1),
        record("numbers", {"n": 2, "list": 5}),
        record("numbers", {"n": 3}),
        state(2),
        batch_size_rows=2,
        validate_records=False,
        **QUARANTINE,
    )
    assert [row["n"] for row in lake.rows("numbers", order="n")] == [1, 3]
    errors = {line: error for line, (_, error) in set_aside(lake, "numbers").items()}
    assert errors[3] == f"n: {2**70} does not fit bigint"
    assert errors[5].startswith("an object or array stands where the schema declares something")


def test_a_second_run_adds_to_the_quarantine(lake):
    people = schema("people", {"id": {"type": "integer"}}, ["id"])
    for line in ({"id": "x"}, {"id": 2**64}):
        lake.load(people, record("people", line), record("people", {"id": 1}), **QUARANTINE)
    assert len(lake.rows("_quarantine/people", order="time")) == 2
    assert [said["rows"] for said in lake.commits("_quarantine/people")] == [1, 1]
    assert [row["id"] for row in lake.rows("people")] == [1]
