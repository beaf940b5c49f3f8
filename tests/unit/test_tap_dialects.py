"""The SQL that each database gets."""

from __future__ import annotations

import pytest

from singer_spark.engine.java import Java, arguments
from singer_spark.errors import SettingsError
from tap_spark_source.dialects.base import Dialect, matching, named
from tap_spark_source.dialects.derby import Derby
from tap_spark_source.dialects.mysql import MariaDB, MySQL
from tap_spark_source.dialects.oracle import Oracle
from tap_spark_source.dialects.postgres import Postgres
from tap_spark_source.dialects.reading import PLAIN
from tap_spark_source.dialects.sqlite import SQLite
from tap_spark_source.dialects.sqlserver import SQLServer
from tap_spark_source.plan.table import Column, Index, is_wanted


def column(datatype: str) -> Column:
    return Column(name="c", datatype=datatype, schema={})


@pytest.mark.parametrize(
    ("dialect", "quoted"), [(Dialect(), '"a""b`"'), (MySQL(), '`a"b```'), (Postgres(), '"a""b`"')]
)
def test_identifiers_are_quoted(dialect, quoted):
    assert dialect.quote('a"b`') == quoted


@pytest.mark.parametrize(
    ("dialect", "datatype", "value", "literal"),
    [
        (Dialect(), "bigint", "5", "5"),
        (Dialect(), "decimal(10,2)", "5.10", "5.10"),
        (Dialect(), "string", "it's", "'it''s'"),
        (Dialect(), "date", "2024-01-01", "DATE '2024-01-01'"),
        (Dialect(), "timestamp_ntz", "2024-01-01T00:00:00.1", "TIMESTAMP '2024-01-01 00:00:00.1'"),
        (MySQL(), "string", "a\\'b", "'a\\\\''b'"),
        (Derby(), "date", "2024-01-01", "DATE('2024-01-01')"),
        (Derby(), "timestamp_ntz", "2024-01-01T00:00:00.1", "TIMESTAMP('2024-01-01 00:00:00.1')"),
        (Derby(), "int", "5", "5"),
        (Postgres(), "timestamp", "2024-01-01T00:00:00.1+00:00", "'2024-01-01T00:00:00.1+00:00'"),
    ],
)
def test_a_bookmark_becomes_a_literal_of_its_type(dialect, datatype, value, literal):
    assert dialect.literal(column(datatype), value) == literal


@pytest.mark.parametrize("dialect", [Postgres(), MySQL(), MariaDB(), SQLServer()])
def test_no_driver_waits_for_ever_unless_the_user_says_so(dialect):
    waits = dialect.waits({}, "jdbc:x://h/d")
    first_row = next(value for name, value in waits.items() if "socket" in name or "Read" in name)
    assert int(first_row) in (1800, 1_800_000)
    for name in waits:
        others = {one for one in waits if one != name}
        assert set(dialect.waits({name.upper(): "1"}, "jdbc:x://h/d")) == others
        assert set(dialect.waits({}, f"jdbc:x://h/d?a=b&{name}=1")) == others


def test_oracles_driver_has_its_timeouts_from_java():
    java = arguments(Java("java", "17"), [], {}, [])
    assert "-Doracle.jdbc.ReadTimeout=1800000" in java
    assert Oracle().url_with("jdbc:oracle:thin:@h", {}) == "jdbc:oracle:thin:@h"
    with pytest.raises(SettingsError, match=r"-Doracle\.net\.SDU"):
        Oracle().url_with("jdbc:oracle:thin:@h", {"oracle.net.SDU": "1"})


@pytest.mark.parametrize(
    ("dialect", "url", "found"),
    [
        (Postgres(), "jdbc:postgresql://h/d", "jdbc:postgresql://h/d?loginTimeout=2+s%26"),
        (Postgres(), "jdbc:postgresql://h/d?a=b", "jdbc:postgresql://h/d?a=b&loginTimeout=2+s%26"),
        (SQLServer(), "jdbc:sqlserver://h;", "jdbc:sqlserver://h;loginTimeout={2 s&}"),
        (Derby(), "jdbc:derby:x", "jdbc:derby:x;loginTimeout=2 s&"),
    ],
)
def test_properties_of_a_driver_keep_their_case_in_the_url(dialect, url, found):
    assert dialect.url_with(url, {"loginTimeout": "2 s&"}) == found


@pytest.mark.parametrize(
    ("dialect", "native", "expected"),
    [
        (SQLite(), "TEXT", True),
        (SQLite(), "TEXT collate", False),
        (SQLite(), "DATETIME", False),
        (Postgres(), "text", False),
    ],
)
def test_texts_are_sorted_by_their_bytes_where_that_is_sure(dialect, native, expected):
    text = Column(name="c", datatype="string", schema={}, native=native)
    assert dialect.sorts_by_bytes(text) is expected


def test_patterns_are_pushed_down_as_far_as_sql_can_say_them():
    condition = matching(Dialect(), ["public.orders", "sa%les.*_x?", "a.[bc]*"])
    assert condition("l") == (
        "l = 'public.orders' or l like 'sa!%les.%!_x_' escape '!' or l like 'a.%' escape '!'"
    )
    assert is_wanted("a.bx", ["a.[bc]*"])
    assert not is_wanted("a.dx", ["a.[bc]*"])


@pytest.mark.parametrize("dialect", [Dialect(), Postgres(), MySQL(), SQLite(), Oracle(), Derby()])
def test_whatever_a_table_is_called_its_name_stays_a_text(dialect):
    names = ["a.{label}", "a.{schema}", "a.{}", "c.data_type as native", "it's"]
    for query in (dialect.columns_query, dialect.indexes_query):
        for wanted in (named(dialect, names), matching(dialect, names)):
            asked = query(wanted)
            assert all(dialect.text(name) in asked for name in names)
            assert asked.count("{") == 3 * asked.count("{label}")


@pytest.mark.parametrize(
    ("base", "dims", "read"),
    [
        ("integer", 0, None),
        ("character varying(10)", 0, None),
        ("numeric(20,5)", 0, None),
        ("numeric", 0, "cast({} as text)"),
        ("numeric(39,0)", 0, "cast({} as text)"),
        ("numeric(5,-2)", 0, "cast({} as text)"),
        ("bit(1)", 0, None),
        ("bit(8)", 0, "cast({} as text)"),
        ("time without time zone", 0, "to_char({}, 'HH24:MI:SS.US')"),
        ("time(3) without time zone", 0, "to_char({}, 'HH24:MI:SS.US')"),
        ("jsonb", 0, "cast({} as text)"),
        ("oid", 0, "cast({} as bigint)"),
        ("integer[]", 1, None),
        ("integer[]", 2, None),
        ("integer[]", 0, "cast({} as text)"),
        ("numeric[]", 1, "cast({} as text[])"),
        ("numeric(10,2)[]", 1, None),
        ("numeric[]", 2, "cast({} as text)"),
        ('"Odd (type)"', 0, "cast({} as text)"),
    ],
)
def test_postgres_types_are_read_so_that_nothing_is_bent(base, dims, read):
    assert Postgres().reading({"base": base, "dims": dims}).read == read


def test_postgres_times_are_guarded_against_what_no_calendar_has():
    for base in ("date", "timestamp(3) without time zone", "timestamp with time zone"):
        assert "is outside the years" in Postgres().reading({"base": base, "dims": 0}).read
        assert "unnest" in Postgres().reading({"base": f"{base}[]", "dims": 1}).read


@pytest.mark.parametrize(
    ("base", "dims", "text", "parse"),
    [
        ("timestamp without time zone", 0, " as text)", "cast({} as timestamp_ntz)"),
        ("timestamp(3) without time zone[]", 1, " as text[])", "cast({} as array<timestamp_ntz>)"),
        ("timestamp with time zone", 0, " end", None),
    ],
)
def test_postgres_times_without_a_zone_are_texts_that_spark_parses(base, dims, text, parse):
    reading = Postgres().reading({"base": base, "dims": dims})
    assert (reading.read.endswith(text), reading.parse) == (True, parse)
    if not dims and parse:
        assert Postgres().reading_of("timestamp_ntz") == reading


def test_derby_indexes_name_their_columns_in_their_order():
    columns = [{"pos": 1, "c": "ID"}, {"pos": 2, "c": "PART"}]
    rows = [
        {"columns": "UNIQUE BTREE (2, 1)", "is_primary": 1},
        {"columns": "BTREE (1)", "is_primary": 0},
    ]
    assert Derby().indexes(rows, columns) == (
        Index(columns=("PART", "ID"), is_unique=True, is_primary=True),
        Index(columns=("ID",)),
    )


def test_the_standard_reads_what_spark_cannot_hold_as_text():
    dialect = Dialect()
    assert "char(16)" in dialect.reading({"native": "TIME", "p": None}).read
    assert "char(80)" in dialect.reading({"native": "decimal", "p": 65}).read
    assert dialect.reading({"native": "decimal", "p": 38}) is PLAIN
