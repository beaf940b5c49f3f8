"""Which load method a stream gets, and which are refused, by what its tap says of the read."""

from __future__ import annotations

import pytest

from singer_spark.errors import SettingsError
from target_spark_delta.intake.mapping import mappings_of
from target_spark_delta.intake.messages import MessageReader
from target_spark_delta.settings import Settings
from target_spark_delta.streams.safety import warn_of_repetition
from target_spark_delta.streams.schema_message import (
    SchemaMessage,
    destination_of,
    read_schema_message,
)
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import lines, read, schema

COLUMNS = {"id": {"type": "integer"}, "at": {"type": "integer"}}
KEYLESS, KEYED = schema("s", COLUMNS), schema("s", COLUMNS, ["id"])


def settings(**chosen) -> Settings:
    return TargetSparkDelta(config={"path": "lake", **chosen})._settings


def declared(message) -> SchemaMessage:
    return read_schema_message(MessageReader()._parse(lines([message]).encode(), 1))


def destination(message, *, reloads=False, **chosen):
    return destination_of("s", declared(message), settings(**chosen), reloads=reloads)


@pytest.mark.parametrize(
    ("message", "method", "compares_by"),
    [
        (KEYED, "upsert", None),
        (KEYLESS, "append-only", None),
        (read(KEYLESS), "overwrite", None),
        (read(KEYLESS, by="at"), "append-only", "at"),
        (read(KEYED, by="at"), "upsert", None),
        (read(KEYLESS, "some", why="changes only"), "append-only", None),
        ({**KEYLESS, "bookmark_properties": ["at"]}, "append-only", "at"),
        ({**KEYLESS, "bookmark_properties": "at"}, "append-only", None),
        ({**KEYLESS, "bookmark_properties": ["at", "id"]}, "append-only", "at"),
        ({**KEYLESS, "singer_spark": {"read": {"rows": "unknown"}}}, "append-only", None),
    ],
)
def test_what_a_stream_is(message, method, compares_by):
    found = destination(message)
    assert (found.method, found.compares_by) == (method, compares_by)


def test_rows_are_not_compared_where_unchanged_ones_are_not_skipped():
    assert destination(read(KEYLESS, by="at"), skip_unchanged=False).compares_by is None


@pytest.mark.parametrize(
    ("message", "method", "is_retired"),
    [
        (read(KEYED), "upsert", True),
        (read(KEYED), "delete-insert", True),
        (read(KEYED), "scd2", True),
        (read(KEYED), "append-only", False),
        (read(KEYED), "overwrite", False),
        (read(KEYLESS), "upsert", False),
        (read(KEYED, "some", why="sample"), "upsert", False),
        (KEYED, "upsert", False),
    ],
)
def test_what_a_reload_retires(message, method, is_retired):
    assert destination(message, reloads=True, load_method=method).retires is is_retired
    assert not destination(message, load_method=method).retires


@pytest.mark.parametrize(
    ("message", "remembers", "is_warned"),
    [
        (KEYLESS, False, True),
        (KEYLESS, True, False),
        (KEYED, False, False),
        ({**KEYLESS, "bookmark_properties": ["at"]}, False, False),
    ],
)
def test_changes_that_a_failed_run_has_appended_come_again_where_nothing_remembers_it(
    message, remembers, is_warned, caplog
):
    found = destination(read(message, "some", why="changes only"))
    warn_of_repetition(found, remembers=remembers)
    assert ("nothing remembers runs that fail" in caplog.text) is is_warned


def test_a_map_that_changes_the_replication_key_makes_a_range_some_rows():
    part = declared(read(KEYED, "range", column="at", start=1))
    chosen = {"stream_options": {"s": {"load_method": "delete-insert", "range_column": "at"}}}
    for expression, is_fine in (("at", True), ("at + 1", False)):
        ours = settings(stream_maps={"s": {"at": expression}}, **chosen)
        (one,) = mappings_of(ours.maps or {}, "s", part.schema, part.keys)
        if is_fine:
            assert destination_of("s", part.mapped(one), ours).replaces_range
        else:
            with pytest.raises(SettingsError, match="stream_maps change"):
                destination_of("s", part.mapped(one), ours)
