"""What a column takes, exactly, and what it refuses."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import types as T

from singer_spark.errors import RecordError
from singer_spark.types import to_json_schema
from target_spark_delta.rows import records
from target_spark_delta.rows.values import scalar
from target_spark_delta.streams.destination import Destination
from tests.support.singer import record, schema

UTC = dt.timezone.utc
ACCEPTED = {
    T.LongType(): {
        "12": 12,
        "-9223372036854775808": -(2**63),
        "9223372036854775807": 2**63 - 1,
        "1.0": 1,
        "1e3": 1000,
        "1.5e1": 15,
        "1500e-2": 15,
        "0": 0,
    },
    T.IntegerType(): {"2147483647": 2147483647, "1.0": 1},
    T.ByteType(): {"-128": -128},
    T.DecimalType(38, 0): {"99999999999999999999999999999999999999": Decimal("9" * 38)},
    T.DecimalType(10, 2): {
        "1.23": Decimal("1.23"),
        "1.2300": Decimal("1.23"),
        "5": Decimal("5.00"),
        "-0.01": Decimal("-0.01"),
        "123e-2": Decimal("1.23"),
        "1.23e1": Decimal("12.30"),
        "1E2": Decimal("100.00"),
    },
    T.DecimalType(38, 10): {
        "1234567890123456789012345678.0123456789": Decimal(
            "1234567890123456789012345678.0123456789"
        )
    },
    T.DoubleType(): {
        "1.5": 1.5,
        "-1e-300": -1e-300,
        "0.1": 0.1,
        "Infinity": float("inf"),
        "-Infinity": float("-inf"),
        "1.7976931348623157e308": 1.7976931348623157e308,
    },
    T.BooleanType(): {"true": True, "false": False},
    T.DateType(): {
        "0001-01-01": dt.date(1, 1, 1),
        "9999-12-31": dt.date(9999, 12, 31),
        "2024-02-29": dt.date(2024, 2, 29),
        "2024-01-02T00:00:00Z": dt.date(2024, 1, 2),
        "2024-01-02 00:00:00.000": dt.date(2024, 1, 2),
    },
    T.TimestampType(): {
        "2024-01-02T03:04:05.123456+00:00": dt.datetime(2024, 1, 2, 3, 4, 5, 123456, UTC),
        "2024-01-02T03:04:05.123456000Z": dt.datetime(2024, 1, 2, 3, 4, 5, 123456, UTC),
        "2024-01-02T03:04:05.5+05:30": dt.datetime(2024, 1, 1, 21, 34, 5, 500000, UTC),
        "2024-01-02 03:04:05": dt.datetime(2024, 1, 2, 3, 4, 5, 0, UTC),
        "2024-01-02t03:04:05z".upper(): dt.datetime(2024, 1, 2, 3, 4, 5, 0, UTC),
        "2024-01-02T03:04:05-0800": dt.datetime(2024, 1, 2, 11, 4, 5, 0, UTC),
        "2024-01-02": dt.datetime(2024, 1, 2, 0, 0, 0, 0, UTC),
        "0001-01-01T00:00:00Z": dt.datetime(1, 1, 1, tzinfo=UTC),
        "9999-12-31T23:59:59.999999Z": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        "1900-01-01T00:00:00+00:09:21": dt.datetime(1899, 12, 31, 23, 50, 39, 0, UTC),
    },
    T.TimestampNTZType(): {
        "2024-01-02T03:04:05.123456": dt.datetime(2024, 1, 2, 3, 4, 5, 123456),  # noqa: DTZ001
        "0001-01-01 00:00:00": dt.datetime(1, 1, 1),  # noqa: DTZ001
    },
    T.BinaryType(): {"AAH/": b"\x00\x01\xff", "": b""},
}
REFUSED = {
    T.LongType(): ["1.9", "9223372036854775808", "1e-1", "x", "true", "[1]", "{}", "1e19", "1.5e0"],
    T.IntegerType(): ["2147483648", "1.5"],
    T.DecimalType(38, 0): ["1" + "0" * 38, "1e40", "0.5"],
    T.DecimalType(10, 2): ["1.239", "100000000.00", "1.239e0", "1e-3", "x", "true", "", "NaN"],
    T.DoubleType(): ["1e400", "-1e400", "x", "1.5d", "true", "", "inf", "nan"],
    T.BooleanType(): ["1", "yes", "TRUE"],
    T.DateType(): ["2024-02-30", "2024-1-2", "20240102", "5", "2024-01-02T10:00:00Z", ""],
    T.TimestampType(): [
        "nonsense",
        "1700000000",
        "2024",
        "2024-01-02T03:04:05.1234567Z",
        "2024-02-30T00:00:00Z",
        "2024-01-02T25:00:00Z",
        "10:00:00",
        "",
    ],
    T.TimestampNTZType(): ["2024-01-02T03:04:05Z", "2024-01-02T03:04:05+00:00", "x"],
    T.BinaryType(): ["AAH", "!!!!"],
}


def _values(spark, datatype, texts):
    frame = spark.createDataFrame([(text,) for text in texts], "t string")
    return frame.selectExpr(f"{scalar('t', datatype)} as v").toArrow()["v"].to_pylist()


@pytest.mark.parametrize("datatype", ACCEPTED, ids=lambda t: t.simpleString())
def test_a_column_takes_every_spelling_of_its_values_exactly(spark, datatype):
    expected = ACCEPTED[datatype]
    assert _values(spark, datatype, expected) == list(expected.values())


@pytest.mark.parametrize("datatype", REFUSED, ids=lambda t: t.simpleString())
def test_a_column_refuses_what_it_would_have_to_bend(spark, datatype):
    texts = REFUSED[datatype]
    assert dict(zip(texts, _values(spark, datatype, texts), strict=True)) == dict.fromkeys(texts)


def test_numbers_that_json_lacks_travel_as_strings_into_double_columns_only(lake):
    properties = {"id": {"type": "integer"}, "x": {"type": "number"}}
    lake.load(
        schema("s", properties, ["id"]),
        *(record("s", {"id": i, "x": x}) for i, x in enumerate(["NaN", "Infinity", "-Infinity"])),
    )
    assert [str(row["x"]) for row in lake.rows("s")] == ["nan", "inf", "-inf"]
    exact = {"id": {"type": "integer"}, "x": {"type": "number", "multipleOf": 0.01}}
    with pytest.raises(RecordError, match="line 2"):
        lake.load(schema("t", exact, ["id"]), record("t", {"id": 1, "x": "NaN"}))


def test_every_spark_type_goes_through_its_json_schema_unchanged(lake):
    types = T.StructType(
        [
            T.StructField("id", T.IntegerType()),
            T.StructField("b", T.ByteType()),
            T.StructField("f", T.FloatType()),
            T.StructField("d", T.DecimalType(20, 5)),
            T.StructField("bin", T.BinaryType()),
            T.StructField("ntz", T.TimestampNTZType()),
            T.StructField("m", T.MapType(T.StringType(), T.DecimalType(5, 1))),
            T.StructField("st", T.StructType([T.StructField("odd name", T.DateType())])),
        ]
    )
    properties = {field.name: to_json_schema(field.dataType) for field in types}
    values = (
        '{"id":1,"b":-5,"f":0.1,"d":123456789012345.12345,"bin":"/w==","ntz":"2024-01-01T00:00:00",'
        '"m":{"k":1.5},"st":{"odd name":"2024-05-06"}}'
    )
    lake.load(
        schema("s", properties, ["id"]),
        f'{{"type":"RECORD","stream":"s","record":{values}}}\n',
    )
    (row,) = lake.rows("s")
    assert row == {
        "id": 1,
        "b": -5,
        "f": pytest.approx(0.1, rel=1e-7),
        "d": Decimal("123456789012345.12345"),
        "bin": b"\xff",
        "ntz": dt.datetime(2024, 1, 1),  # noqa: DTZ001
        "m": [("k", Decimal("1.5"))],
        "st": {"odd name": dt.date(2024, 5, 6)},
    }


KEYED = {
    "i": (T.IntegerType(), {"1": "2.5"}, [(1, Decimal("2.5"))]),
    "d": (T.DecimalType(5, 2), {"1.50": "1"}, [(Decimal("1.50"), Decimal("1.0"))]),
    "on": (T.DateType(), {"2024-02-29": "1"}, [(dt.date(2024, 2, 29), Decimal("1.0"))]),
    "at": (
        T.TimestampType(),
        {"2024-01-01 00:00:00.5": "1"},
        [(dt.datetime(2024, 1, 1, microsecond=500000, tzinfo=UTC), Decimal("1.0"))],
    ),
    "s": (T.StringType(), {"1": "1", "01": "2"}, [("1", Decimal("1.0")), ("01", Decimal("2.0"))]),
}


def test_keys_of_maps_have_their_type_or_are_refused(lake):
    properties = {
        name: to_json_schema(T.MapType(kind, T.DecimalType(5, 1)))
        for name, (kind, *_) in KEYED.items()
    }
    declared = schema("s", {"id": {"type": "integer"}, **properties}, ["id"])

    def told(number, values):
        texts = ", ".join(
            f'"{name}": {{' + ", ".join(f'"{key}": {text}' for key, text in entries.items()) + "}"
            for name, entries in values.items()
        )
        return f'{{"type":"RECORD","stream":"s","record":{{"id": {number}, {texts}}}}}\n'

    lake.load(declared, told(1, {name: sent for name, (_, sent, _) in KEYED.items()}))
    (row,) = lake.rows("s")
    assert row == {"id": 1, **{name: expected for name, (*_, expected) in KEYED.items()}}
    wrong = {"i": {"x": 1}}, {"i": {"1": 1, "01": 2}}, {"on": {"2024-02-30": 1}}, {"i": {"1": 0.25}}
    sent = [told(number, one) for number, one in enumerate(wrong, 2)]
    with pytest.raises(RecordError, match=r"line 2: i: a value does not fit map<int,decimal"):
        lake.load(declared, sent[0])
    lake.load(declared, *sent, told(9, {"i": {}}), on_invalid_record="quarantine")
    assert [row["i"] for row in lake.rows("s")] == [[(1, Decimal("2.5"))], []]
    errors = [row["error"] for row in lake.rows("_quarantine/s", order="line")]
    assert errors == [
        'i: {"x":"1"} does not fit map<int,decimal(5,1)>',
        'i: {"1":"1","01":"2"} does not fit map<int,decimal(5,1)>',
        'on: {"2024-02-30":"1"} does not fit map<date,decimal(5,1)>',
        "i{}: 0.25 does not fit decimal(5,1)",
    ]


def test_segments_reach_a_spark_that_does_not_share_this_disk(lake, monkeypatch):
    staging = lake.root / "_singer_spark" / "spool"
    monkeypatch.setattr(Destination, "spool_folder", lambda *_: staging.as_uri())
    monkeypatch.setattr(records, "_PIECE_BYTES", 200)
    properties = {"id": {"type": "integer"}, "free": {"type": "object"}}
    raw = '{"type":"RECORD","stream":"s","record":{"id":%d,"free":{"é":1.10}}}\n'
    lake.load(schema("s", properties, ["id"]), *(raw % number for number in range(20)))
    assert [row["id"] for row in lake.rows("s")] == list(range(20))
    assert {row["free"] for row in lake.rows("s")} == {'{"é":1.10}'}
    assert not any(path.stat().st_size for path in staging.rglob("*.txt")), "and removed"
