"""The SQL that MySQL, MariaDB, SQL Server, Oracle and SQLite get, and how their types are read."""

from __future__ import annotations

import sqlite3

import pytest

from tap_spark_source.dialects.base import Dialect
from tap_spark_source.dialects.derby import Derby
from tap_spark_source.dialects.mysql import MariaDB, MySQL
from tap_spark_source.dialects.oracle import Oracle
from tap_spark_source.dialects.postgres import Postgres
from tap_spark_source.dialects.reading import DECIMAL_HINT, PLAIN
from tap_spark_source.dialects.sqlite import SQLite
from tap_spark_source.dialects.sqlserver import SQLServer
from tap_spark_source.plan.table import Column


def every(label: str) -> str:
    return f"{label} is not null"


def column(datatype: str) -> Column:
    return Column(name="c", datatype=datatype, schema={})


@pytest.mark.parametrize(
    ("dialect", "quoted"),
    [(SQLServer(), '[a"b`]]]'), (Oracle(), '"a""b`]"'), (MySQL(), '`a"b``]`')],
)
def test_identifiers_are_quoted(dialect, quoted):
    assert dialect.quote('a"b`]') == quoted


@pytest.mark.parametrize(
    ("dialect", "datatype", "value", "literal"),
    [
        (MySQL(), "timestamp", "2024-01-01T00:00:00.1+00:00", "TIMESTAMP '2024-01-01 00:00:00.1'"),
        (MySQL(), "string", "a\\'b", "'a\\\\''b'"),
        (SQLServer(), "string", "it's", "N'it''s'"),
        (SQLServer(), "timestamp", "x", "cast(N'x' as datetimeoffset(6))"),
        (SQLServer(), "timestamp_ntz", "x", "cast(N'x' as datetime2(6))"),
        (SQLServer(), "date", "x", "cast(N'x' as date)"),
        (
            Oracle(),
            "timestamp",
            "2024-01-01T00:00:00.1+00:00",
            "TIMESTAMP '2024-01-01 00:00:00.1 +00:00'",
        ),
        (SQLite(), "bigint", "5", "5"),
        (SQLite(), "string", "2024", "'2024'"),
        (SQLite(), "binary", "AP8=", "X'00ff'"),
        (SQLServer(), "binary", "AP8=", "0x00ff"),
        (Oracle(), "binary", "AP8=", "hextoraw('00ff')"),
        (MySQL(), "binary", "AP8=", "X'00ff'"),
    ],
)
def test_a_bookmark_becomes_a_literal_of_its_type(dialect, datatype, value, literal):
    assert dialect.literal(column(datatype), value) == literal


@pytest.mark.parametrize(
    ("native", "literal"),
    [
        ("varchar", "'it''s'"),
        ("CHAR", "'it''s'"),
        ("nvarchar", "N'it''s'"),
        ("nchar", "N'it''s'"),
        ("", "N'it''s'"),
    ],
)
def test_a_text_of_sql_server_is_compared_by_the_rules_of_its_column(native, literal):
    code = Column(name="code", datatype="string", schema={}, native=native)
    assert SQLServer().literal(code, "it's") == literal


def test_variables_of_the_session_join_those_of_the_tap():
    ours = "time_zone='+00:00'"
    assert MySQL().connection({})["sessionVariables"] == ours
    given = {"sessionVariables": "sql_mode='ANSI'", "useSSL": "true"}
    assert MySQL().connection(given) == {
        "sessionVariables": f"sql_mode='ANSI',{ours}",
        "useCursorFetch": "true",
        "useSSL": "true",
    }


@pytest.mark.parametrize(
    ("dialect", "unordered", "ordered"),
    [
        (MySQL(), "enum,set,json,JSON,point", "varchar,int,timestamp"),
        (Postgres(), "json,json[],xml,point,box,xid,cid", "jsonb,xid8,points,json.kind,text"),
        (SQLServer(), "sql_variant,xml,text,ntext,image,geography", "varchar,nvarchar,xmlns"),
        (Oracle(), "CLOB,NCLOB,BLOB,LONG,LONG RAW,XMLTYPE", "VARCHAR2,RAW"),
        (Derby(), "CLOB(2147483647),LONG VARCHAR NOT NULL,XML", "VARCHAR(10),BIGINT"),
    ],
)
def test_what_a_database_does_not_sort_as_it_compares_it_is_no_key(dialect, unordered, ordered):
    assert not [native for native in unordered.split(",") if dialect.has_order(native)]
    assert all(dialect.has_order(native) for native in ordered.split(","))
    assert all(Dialect().has_order(native) for native in unordered.split(","))


@pytest.mark.parametrize(
    ("kinds", "parse", "can_be_key"),
    [
        (("integer", "integer"), "as bigint", True),
        (("integer", "real"), "'real:'", True),
        (("text", "text"), "'text:'", True),
        (("blob", "blob"), "unhex", True),
        (("null", "null"), "'text:'", True),
        (("integer", "text"), "'text:'", False),
    ],
)
def test_an_expression_of_sqlite_is_what_its_lowest_and_highest_values_are(
    kinds, parse, can_be_key
):
    reading = SQLite().reading_of("string", kinds)
    assert parse in reading.parse
    assert reading.can_be_key is can_be_key
    assert not SQLite().reading({"native": ""}).can_be_key


def test_mariadb_is_reached_by_the_scheme_that_spark_knows():
    assert MariaDB().url("jdbc:mariadb://h:1/d") == "jdbc:mysql://h:1/d?permitMysqlScheme"
    assert MariaDB().url("jdbc:mariadb://h/d?a=b") == "jdbc:mysql://h/d?a=b&permitMysqlScheme"
    assert MySQL().url("jdbc:mysql://h/d") == "jdbc:mysql://h/d"
    assert MariaDB().connection({})["driver"] == "org.mariadb.jdbc.Driver"


@pytest.mark.parametrize(
    ("base", "native", "precision", "read"),
    [
        ("int", "int(11) unsigned", 10, None),
        ("tinyint", "tinyint(4)", 3, None),
        ("tinyint", "tinyint(1)", 3, "cast({} as signed)"),
        ("bit", "bit(1)", 1, None),
        ("bit", "bit(8)", 8, "cast({} as unsigned)"),
        ("decimal", "decimal(38,2)", 38, None),
        ("decimal", "decimal(65,2)", 65, "cast({} as char)"),
        ("date", "date", None, "cast({} as char)"),
        ("timestamp", "timestamp(6)", None, "concat(cast({} as char), '+00:00')"),
        ("float", "float", 12, "({} + 0e0)"),
        ("point", "point", None, "st_asbinary({})"),
    ],
)
def test_mysql_types(base, native, precision, read):
    row = {"base": base, "native": native, "p": precision}
    assert MySQL().reading(row).read == read


@pytest.mark.parametrize(
    ("native", "precision", "scale", "is_plain"),
    [
        ("NUMBER", 10, 2, True),
        ("NUMBER", None, None, False),
        ("NUMBER", None, 0, False),
        ("NUMBER", 5, -2, False),
        ("NUMBER", 2, 5, False),
        ("FLOAT", 126, None, False),
        ("VARCHAR2", None, None, True),
    ],
)
def test_oracle_numbers_without_bounds_are_texts(native, precision, scale, is_plain):
    reading = Oracle().reading({"native": native, "p": precision, "sc": scale})
    assert (reading is PLAIN) is is_plain
    if not is_plain:
        assert reading.hint == DECIMAL_HINT


@pytest.mark.parametrize(
    ("dialect", "native", "kind"),
    [
        (Oracle(), "DATE", "timestamp_ntz"),
        (Oracle(), "TIMESTAMP(9)", "timestamp_ntz"),
        (Oracle(), "TIMESTAMP(6) WITH TIME ZONE", "timestamp)"),
        (SQLServer(), "datetime2", "timestamp_ntz"),
        (SQLServer(), "datetimeoffset", "timestamp)"),
    ],
)
def test_times_are_parsed_as_what_they_are(dialect, native, kind):
    assert kind in dialect.reading({"native": native, "p": None, "sc": None}).parse


@pytest.mark.parametrize("dialect", [MySQL(), SQLServer(), Oracle(), SQLite()])
def test_every_database_tells_its_columns_and_keys(dialect):
    for query in (dialect.columns_query(every), dialect.indexes_query(every)):
        assert " as s," in query
        assert " as pos" in query
    assert " as required" in dialect.columns_query(every)


def test_sqlite_follows_its_rules_of_affinity():
    integer = SQLite().reading({"native": "BIGINT UNSIGNED"})
    text = SQLite().reading({"native": "VARCHAR(10)"})
    assert "as bigint" in integer.parse
    assert SQLite().reading({"native": "DATETIME"}) is text
    assert SQLite().reading({"native": ""}).parse == text.parse
    assert SQLite().reading({"native": "DECIMAL(10,2)"}).hint == DECIMAL_HINT


def test_a_datetime_of_sql_server_is_compared_by_its_own_300ths_of_a_second():
    at = Column(name="at", datatype="timestamp_ntz", schema={}, native="datetime")
    literal = "cast(N'2024-01-01T00:00:00.003' as datetime)"
    assert SQLServer().literal(at, "2024-01-01T00:00:00.003000") == literal
    assert SQLServer().literal(at, "2024-01-01") == "cast(N'2024-01-01' as datetime)"


def test_a_text_of_oracle_is_left_as_it_is():
    assert Oracle().literal(column("string"), "key+00:00") == "'key+00:00'"


def test_oracle_sorts_texts_as_it_compares_them():
    ours = "execute immediate 'alter session set nls_sort = binary nls_comp = binary';"
    assert Oracle().connection({"a": "b"}) == {
        "a": "b",
        "sessionInitStatement": f"begin {ours} end;",
    }
    given = {"sessionInitStatement": "alter session set nls_language = 'GERMAN'"}
    assert Oracle().connection(given)["sessionInitStatement"] == (
        f"begin execute immediate 'alter session set nls_language = ''GERMAN'''; {ours} end;"
    )


def test_only_columns_of_sqlite_that_cannot_be_null_are_required():
    with sqlite3.connect(":memory:") as connection:
        connection.executescript(
            "create table a (id integer primary key, v int not null, w int);"
            "create table b (id text primary key);"
            "create table c (id integer primary key desc);"
            "create table d (x int, y int, primary key (x, y));"
            "create table e (x int, y int, primary key (x, y)) without rowid;"
        )
        rows = connection.execute(SQLite().columns_query(every)).fetchall()
    connection.close()
    required = {(row[1], row[3]) for row in rows if row[6]}
    assert required == {("a", "id"), ("a", "v"), ("e", "x"), ("e", "y")}


def test_sqlite_tells_columns_and_keys_in_one_answer():
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table a (id integer primary key, v int)")
        found = connection.execute(SQLite().tables_query(every))
        names = [one[0] for one in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found]
    connection.close()
    assert names == list(SQLite().table_fields)
    assert sorted((row["what"], row["c"], row["is_primary"]) for row in rows) == [
        (0, "id", None),
        (0, "v", None),
        (1, "id", 1),
    ]
    assert MySQL().tables_query(every) is None
