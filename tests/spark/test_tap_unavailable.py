"""What Debezium writes in place of a large value that did not change is told from values."""

from __future__ import annotations

import json

from singer_spark.names import literal
from tap_spark_source.sources.kafka.debezium import is_unavailable

TEXT = "__debezium_unavailable_value"
CODES = list(TEXT.encode())
MISSING = [
    ("string", TEXT),
    ("string", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
    ("array<string>", [TEXT]),
    ("array<string>", ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]),
    ("array<string>", ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
    ("array<int>", CODES),
    ("array<bigint>", CODES),
    ("map<string, string>", {TEXT: TEXT}),
    # As arrays and maps are read where the events carry no schema.
    ("string", [TEXT]),
    ("string", CODES),
    ("string", {TEXT: TEXT}),
]
THERE = [
    ("string", f"not {TEXT}"),
    ("string", None),
    ("array<string>", [f"not {TEXT}", None]),
    ("array<string>", [TEXT, TEXT]),
    ("array<string>", []),
    ("array<string>", None),
    ("array<int>", [*CODES, None]),
    ("array<smallint>", CODES[1:]),
    ("array<double>", [95.0]),
    ("map<string, string>", {"a": TEXT, TEXT: None}),
    ("struct<a: int>", {"a": 1}),
    ("bigint", 95),
]


def test_values_that_are_missing_are_told_from_those_that_are_there(spark):
    cases = MISSING + THERE
    read = (
        f"from_json({literal(json.dumps({'v': value}))}, {literal(f'v {kind}')}).v as v{number}"
        for number, (kind, value) in enumerate(cases)
    )
    asked = (
        f"coalesce({is_unavailable([(f'v{number}', kind)]) or 'false'}, false) as m{number}"
        for number, (kind, _) in enumerate(cases)
    )
    (row,) = spark.range(1).selectExpr(*read).selectExpr(*asked).toArrow().to_pylist()
    assert list(row.values()) == [True] * len(MISSING) + [False] * len(THERE)
