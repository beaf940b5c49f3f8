"""Events that a real Debezium wrote, recorded: rows, deletions and types, with and without schema.

The recording is of one table with a column of each type: a row that is read, updated, inserted,
moved to another key and deleted. tests/integration/test_tap_kafka_debezium.py makes such events.
"""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from tap_spark_source.sources.kafka import connect, debezium

RECORDED = Path(__file__).parents[1] / "data" / "debezium"
EVENT = {"before": None, "after": {"id": 1}, "op": "c", "source": {"ts_ms": 0}, "ts_ms": 0}


AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)


def event(offset: int, value: dict | None, key: dict | None = None) -> dict:
    texts = {"key": json.dumps(key or {"id": 1}), "value": value and json.dumps(value)}
    return {"topic": "a.b", "partition": 0, "offset": offset, **texts}


def recorded(name: str) -> list[dict]:
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]


def frame(spark, rows: list[dict]):
    columns = "topic string, partition int, offset bigint, key string, value string"
    texts = [tuple(row.values()) for row in rows]
    found = spark.createDataFrame(texts, columns).coalesce(1)
    found = found.selectExpr("*", "timestamp_seconds(1700000000 + offset) as timestamp")
    return found.withColumns({name: found[name].cast("binary") for name in ("key", "value")})


def shape(rows: list[dict]):
    events = [debezium.read_event(row["key"], row["value"]) for row in rows[::-1]]
    events = [event for event in events if event]
    return debezium.fields_of(events), debezium.keys_of(events)


def changed(spark, rows: list[dict], where: str | None = None) -> list[dict]:
    fields, keys = shape(rows)
    return debezium.changes(frame(spark, rows), fields, keys, where).toArrow().to_pylist()


@pytest.mark.parametrize("name", ["full", "plain"])
def test_events_become_rows_and_deletions_in_their_order(spark, name):
    rows = changed(spark, recorded(name))
    assert [(row["id"], row["name"], row["_sdc_deleted_at"] is not None) for row in rows] == [
        (1, "a", False),
        (1, "b", False),
        (2, "x", False),
        (2, None, True),
        (3, "x", False),
        (1, None, True),
    ]


def test_a_row_that_no_longer_fulfils_the_condition_is_gone(spark):
    rows = changed(spark, recorded("full"), "name = 'a'")
    assert [(row["id"], row["name"], row["_sdc_deleted_at"] is not None) for row in rows] == [
        (1, "a", False),
        (1, "b", True),
        (2, None, True),
        (1, None, True),
    ]


def test_types_are_those_of_the_database(spark):
    row = changed(spark, recorded("full"))[0]
    assert row == {
        "id": 1,
        "name": "a",
        "price": Decimal("1.10"),
        "big": "123456789012345678901234567890.5",
        "at": datetime(2023, 12, 31, 22, 0, 0, 123456, tzinfo=timezone.utc),
        "ts": datetime(2024, 1, 1, 0, 0, 0, 123456),  # noqa: DTZ001 - without a zone it is
        "d": date(2024, 1, 1),
        "t": "10:00:00.500000",
        "tz": "08:00:00.5Z",
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "j": '{"a": 1}',
        "b": b"\x00\xff",
        "ok": True,
        "r": 1.5,
        "f": 1e300,
        "arr": [1, None],
        "s": 1,
        "i": 2,
        "bits": b"\xaa",
        "bit1": True,
        "iv": 93600000000,
        "m": Decimal("12.34"),
        "ts3": datetime(2024, 1, 1, 0, 0, 0, 123000),  # noqa: DTZ001 - without a zone it is
        "_sdc_deleted_at": None,
    }


def test_decimals_are_exact_up_to_38_digits_of_both_signs(spark):
    import base64

    numbers = [0, 1, -1, 127, 128, -128, -129, 10**38 - 1, 1 - 10**38, -(10**20)]
    texts = [
        base64.b64encode(n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True)).decode()
        for n in numbers
    ]
    for scale in (0, 2, 38):
        parameters = {"scale": str(scale), "connect.decimal.precision": "38"}
        kind = "org.apache.kafka.connect.data.Decimal"
        schema = {"type": "bytes", "name": kind, "parameters": parameters, "field": "x"}
        read = connect.field_of(schema).value("x")
        rows = spark.createDataFrame([(text,) for text in texts], "x string").coalesce(1)
        found = rows.selectExpr(f"cast({read} as string) as y").toArrow().column(0).to_pylist()
        assert [Decimal(text) for text in found] == [Decimal(f"{n}e-{scale}") for n in numbers]


def test_a_given_schema_says_what_numbers_mean(spark):
    fields = [
        connect.given_field("id", "bigint"),
        connect.given_field("ts", "io.debezium.time.Timestamp"),
        connect.given_field("price", "string"),
    ]
    rows = debezium.changes(frame(spark, recorded("plain")[:1]), fields, ["id"])
    (row,) = rows.toArrow().to_pylist()
    assert str(row["ts"]) == "2024-01-01 00:00:00.123000"
    assert row["price"] == "1.10"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{", "is no JSON of the columns' types"),
        (json.dumps({**EVENT, "after": {"id": "many"}}), "is no JSON of the columns' types"),
        ('{"status": "BEGIN"}', "is no event of Debezium"),
        (json.dumps({**EVENT, "op": "t", "after": None}), "empties the table"),
        (json.dumps({**EVENT, "op": "z"}), "has an operation that is unknown"),
        (json.dumps({**EVENT, "after": None}), "carries no row"),
        (
            json.dumps({**EVENT, "after": {"id": 1, "v": "__debezium_unavailable_value"}}),
            "lacks a large value that did not change",
        ),
        (
            json.dumps({**EVENT, "after": {"id": 1, "a": ["__debezium_unavailable_value"]}}),
            "lacks a large value that did not change",
        ),
    ],
)
def test_an_event_that_cannot_be_read_says_where_it_is(spark, value, problem):
    rows = [{"topic": "a.b", "partition": 3, "offset": 17, "key": '{"id":1}', "value": value}]
    kinds = {"id": "bigint", "v": "string", "a": "array<string>"}
    fields = [connect.given_field(name, kind) for name, kind in kinds.items()]
    with pytest.raises(Exception, match=f"event 17 of partition 3 of topic a.b {problem}"):
        debezium.changes(frame(spark, rows), fields, ["id"]).toArrow()


def test_a_large_value_is_missed_only_where_its_column_is_wanted(spark):
    row = {**EVENT, "op": "u", "after": {"id": 1, "v": "__debezium_unavailable_value"}}
    events = frame(spark, [event(0, row)])
    fields = [connect.given_field(*one) for one in (("id", "bigint"), ("v", "string"))]
    (found,) = debezium.changes(events, fields, ["id"], selected=["id"]).toArrow().to_pylist()
    assert (found["id"], found["_sdc_deleted_at"]) == (1, None)
    for where, selected in ((None, ["id", "v"]), ("v = 'x'", ["id"])):
        with pytest.raises(Exception, match="lacks a large value that did not change"):
            debezium.changes(events, fields, ["id"], where, selected=selected).toArrow()


def test_a_deletion_without_its_row_is_known_by_the_key_of_the_message(spark):
    gone = json.dumps({**EVENT, "op": "d", "after": None})
    rows = [{"topic": "a", "partition": 0, "offset": 0, "key": '{"id":5}', "value": gone}]
    fields = [connect.given_field("id", "bigint")]
    (row,) = debezium.changes(frame(spark, rows), fields, ["id"]).toArrow().to_pylist()
    assert row["id"] == 5
    # Nor does this event tell when: the message does.
    gone = {"before": None, "after": None, "op": "d"}
    (row,) = debezium.changes(frame(spark, [event(0, gone)]), fields, ["id"]).toArrow().to_pylist()
    assert row == {"id": 1, "_sdc_deleted_at": AT}
    with pytest.raises(Exception, match="deletes a row, and the stream has no key"):
        debezium.changes(frame(spark, rows), fields, []).toArrow()
    keyless = [event(0, gone, {"other": 1})]
    with pytest.raises(Exception, match="deletes a row, and does not tell its whole key"):
        debezium.changes(frame(spark, keyless), fields, ["id"]).toArrow()


def test_a_tombstone_that_no_deletion_precedes_is_one(spark):
    gone = {**EVENT, "op": "d", "after": None}
    rows = [
        event(0, EVENT),
        event(1, gone),
        event(2, None),
        event(5, None, {"id": 2}),
        event(6, EVENT),
        event(7, None),
    ]
    events = frame(spark, rows)
    found = debezium.look(events).toArrow().sort_by("offset").to_pylist()
    assert [(row["offset"], row["is_orphan"]) for row in found] == [(5, True), (7, True)]
    fields = [connect.given_field("id", "bigint")]
    marked = events.selectExpr("*", "offset in (5, 7) as is_orphan")
    told = debezium.changes(marked, fields, ["id"]).toArrow().to_pylist()
    deleted = [(row["id"], row["_sdc_deleted_at"]) for row in told if row["_sdc_deleted_at"]]
    late = [(2, AT + timedelta(seconds=5)), (1, AT + timedelta(seconds=7))]
    assert deleted == [(1, datetime.fromtimestamp(0, tz=timezone.utc)), *late]
    assert len(told) == 5


def decimal_field(scale: int) -> dict:
    parameters = {"scale": str(scale), "connect.decimal.precision": "10"}
    kind = "org.apache.kafka.connect.data.Decimal"
    return {"type": "bytes", "name": kind, "parameters": parameters, "field": "price"}


def test_events_are_read_by_the_schema_that_they_had(spark):
    older, newest = connect.field_of(decimal_field(2)), connect.field_of(decimal_field(4))
    key = connect.given_field("id", "bigint")
    row = {**EVENT, "after": {"id": 1, "price": "bg=="}}
    types = {"id": "bigint", "price": "decimal(10,4)"}
    fields = connect.carried([key, newest], [key, older], types)
    (found,) = debezium.changes(frame(spark, [event(0, row)]), fields, ["id"]).toArrow().to_pylist()
    assert found["price"] == Decimal("1.1000")
    fields = connect.carried([key, older], [key, newest], {**types, "price": "decimal(10,2)"})
    fine = {**EVENT, "after": {"id": 1, "price": "bw=="}}
    with pytest.raises(Exception, match=r"price: a value is no value of its column's"):
        debezium.changes(frame(spark, [event(0, fine)]), fields, ["id"]).toArrow()


def test_a_look_tells_where_the_schema_changes(spark):
    def told(scale: int) -> dict:
        return {"schema": {"fields": [decimal_field(scale)]}, "payload": EVENT}

    rows = [event(n, told(2 if n < 3 else 4)) for n in range(6)]
    found = debezium.look(frame(spark, rows)).toArrow().sort_by("offset").to_pylist()
    assert [row["offset"] for row in found] == [0, 3]
    assert len({row["schema"] for row in found}) == 2


def test_values_that_a_given_type_cannot_hold_are_errors_and_times_of_day_have_no_bounds(spark):
    price = connect.given_field("price", "decimal(10,2)")
    read = spark.sql("select cast(1.230 as decimal(38,30)) as x, 90000000000 as t, -1 as n")
    time = connect.given_field("t", "io.debezium.time.MicroTime").value
    (row,) = read.selectExpr(
        f"{price.value('x')} as price",
        f"{time('t')} as long",
        f"{time('n')} as negative",
    ).collect()
    assert tuple(row) == (Decimal("1.23"), "25:00:00.000000", "-00:00:00.000001")
    fine = {**EVENT, "after": {"id": 1, "price": 1.239}}
    fields = [connect.given_field("id", "bigint"), price]
    with pytest.raises(Exception, match=r"price: a value is no value of its column's"):
        debezium.changes(frame(spark, [event(0, fine)]), fields, ["id"]).toArrow()


def test_an_update_that_changes_a_key_of_ones_own_deletes_the_old_one(spark):
    def update(offset: int, before: dict | None, after: dict) -> dict:
        return event(offset, {**EVENT, "op": "u", "before": before, "after": after})

    rows = [
        update(0, {"id": 1, "code": "a", "v": 1}, {"id": 1, "code": "b", "v": 2}),
        update(1, {"id": 1, "code": "b", "v": 2}, {"id": 1, "code": "b", "v": 3}),
        update(2, None, {"id": 1, "code": "c", "v": 4}),
        event(3, {**EVENT, "op": "d", "before": {"id": 1, "code": "c", "v": 4}, "after": None}),
    ]
    fields = [connect.given_field(*one) for one in (("code", "string"), ("v", "bigint"))]
    found = debezium.changes(frame(spark, rows), fields, ["code"], has_own_key=True)
    told = [
        (row["code"], row["v"], row["_sdc_deleted_at"] is not None)
        for row in found.toArrow().to_pylist()
    ]
    assert told == [
        ("a", None, True),
        ("b", 2, False),
        ("b", 3, False),
        ("c", 4, False),
        ("c", None, True),
    ]
    # Debezium itself tells a change of the messages' key; what else `before` holds is no key.
    plain = debezium.changes(frame(spark, rows), fields, ["code"]).toArrow().to_pylist()
    assert [row["code"] for row in plain] == ["b", "b", "c", "c"]


@pytest.mark.parametrize("scale", [2_000_000_000, -2_000_000_000, 20_000, -20_000])
def test_a_scale_beyond_that_of_every_database_is_one_error(spark, scale):
    """Written out, one such number would fill Spark's memory."""
    kind = "io.debezium.data.VariableScaleDecimal"
    field = connect.field_of({"type": "struct", "name": kind, "field": "x"})
    text = json.dumps({"scale": scale, "value": "AQ=="})
    rows = spark.createDataFrame([(text,)], "x string")
    read = field.value(f"from_json(x, '{field.json_type}')")
    with pytest.raises(PySparkException, match=f"{scale} is no scale of a number"):
        rows.selectExpr(f"length({read}) as y").toArrow()
