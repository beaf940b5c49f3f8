"""scd2: every version of a row, with the time for which it was valid."""

from __future__ import annotations

import json

import pytest

from singer_spark.errors import SchemaError, SettingsError
from singer_spark.report import REPORT_FILE, last_told
from tests.support.singer import data, record, schema

KEY = '"key_properties": ["id"]'
BY_SEEN = {"stream_options": {"customers": {"load_method": "scd2", "dedupe_by": "seen"}}}


def versions(lake, table):
    def day(value):
        return None if value is None else value.strftime("%m-%d")

    rows = lake.rows(table, order="valid_from")
    found = [
        (row["id"], row["city"], day(row["valid_from"]), day(row["valid_to"]), row["is_current"])
        for row in rows
    ]
    return sorted(found, key=lambda one: (one[0], one[2]))


@pytest.mark.slow
def test_changes_late_records_repetitions_and_deletions_find_their_place_in_history(lake):
    lake.load(data("methods/scd2_first"), **BY_SEEN)
    lake.load(data("methods/scd2_change"), **BY_SEEN)
    assert versions(lake, "customers") == [
        (1, "Bern", "01-10", "01-20", False),
        (1, "Zug", "01-20", "01-30", False),
        (1, "Chur", "01-30", None, True),
        (2, "Basel", "01-10", None, True),
    ]
    before = lake.version("customers")
    lake.load(data("methods/scd2_change"), **BY_SEEN)
    lake.load(data("methods/scd2_first"), **BY_SEEN)
    assert lake.version("customers") == before, "what repeats makes no version and no commit"

    lake.load(data("methods/scd2_late"), **BY_SEEN)
    assert lake.version("customers") == before + 1
    assert versions(lake, "customers")[:5] == [
        (1, "Olten", "01-05", "01-10", False),
        (1, "Bern", "01-10", "01-15", False),
        (1, "Genf", "01-15", "01-20", False),
        (1, "Zug", "01-20", "01-30", False),
        (1, "Chur", "01-30", None, True),
    ]
    lake.load(data("methods/scd2_delete"), **BY_SEEN)
    assert versions(lake, "customers")[4:] == [
        (1, "Chur", "01-30", "02-10", False),
        (2, "Basel", "01-10", "01-25", False),
        (2, "Visp", "01-25", "02-11", False),
    ]
    lake.load(data("methods/scd2_back"), **BY_SEEN)
    assert versions(lake, "customers")[4:7] == [
        (1, "Chur", "01-30", "01-31", False),
        (1, "Chur", "01-31", "02-10", False),
        (1, "Chur", "03-01", None, True),
    ], "seen is a column too, so a new time is a new version"
    before = lake.version("customers")
    lake.load(data("methods/scd2_delete"), **BY_SEEN)
    assert lake.version("customers") == before, "nor does a deletion that repeats"


def test_without_a_column_the_time_of_extraction_counts_and_versions_are_closed(lake):
    chosen = {"load_method": "scd2"}
    lake.load(data("methods/scd2_by_extraction"), batch_size_rows=2, **chosen)
    assert versions(lake, "places") == [
        (1, "Bern", "01-01", "01-03", False),
        (1, "Zug", "01-03", None, True),
        (2, "Thun", "01-01", None, True),
    ]
    lake.load(data("methods/scd2_activated"), **chosen)
    found = versions(lake, "places")
    assert found[:2] == [
        (1, "Bern", "01-01", "01-03", False),
        (1, "Zug", "01-03", None, True),
    ], "seen again in the new version, so it stays open"
    assert found[2][3] is not None
    assert not found[2][4]


def test_the_columns_of_history_must_be_free_and_their_time_a_time(lake):
    chosen = {"stream_options": {"s": {"load_method": "scd2", "dedupe_by": "n"}}}
    number = {"type": "integer"}
    with pytest.raises(SchemaError, match="scd2 adds the columns valid_to"):
        lake.load(schema("s", {"n": number, "Valid_To": number}, ["n"]), **chosen)
    with pytest.raises(SettingsError, match="n is bigint"):
        lake.load(schema("s", {"n": number}, ["n"]), record("s", {"n": 1}), **chosen)


def test_only_versions_below_the_bookmark_that_history_did_not_have_are_late(
    lake, tmp_path, monkeypatch
):
    lake.load(data("methods/scd2_first"), data("methods/scd2_change"), **BY_SEEN)
    monkeypatch.setenv(REPORT_FILE, str(tmp_path / "report"))
    again = {"column": "seen", "below": "2024-01-30T00:00:00+00:00"}
    member = {"singer_spark": {"read": {"rows": "some", "again": again}}}
    change, late = (
        data(f"methods/scd2_{name}").replace(KEY, f"{KEY}, {json.dumps(member)[1:-1]}")
        for name in ("change", "late")
    )
    newer = record("customers", {"id": 2, "city": "Visp", "seen": "2024-02-01T00:00:00Z"})
    lake.load(change, late, newer, **BY_SEEN)
    told = last_told("late", "customers", tmp_path / "report")
    assert (told["rows"], told["seconds"]) == (2, 25 * 86_400)
