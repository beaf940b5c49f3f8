"""The statements that find and read slices, in each database's own words."""

from __future__ import annotations

import pytest

from singer_spark.errors import SourceError
from tap_spark_source.dialects.base import Dialect
from tap_spark_source.dialects.derby import Derby
from tap_spark_source.dialects.mysql import MySQL
from tap_spark_source.dialects.postgres import Postgres
from tap_spark_source.dialects.sqlserver import SQLServer
from tap_spark_source.dialects.statements import KeyNames, SparkSQL, conditions_of, survey_statement
from tap_spark_source.plan.key import Edge, Key, Range, Reach, Slice
from tap_spark_source.plan.read_plan import ReadPlan
from tap_spark_source.plan.table import Column, Index, Table
from tap_spark_source.plan.warnings import table_warnings
from tap_spark_source.plan.window import Window
from tap_spark_source.sources.base import one_per_stream


def column(name: str, datatype: str = "bigint", **more) -> Column:
    return Column(name=name, datatype=datatype, schema={}, **more)


AT = column("at", "timestamp", is_nullable=False)
ID = column("id", is_nullable=False)
NOTE = column("note", "string")
PAIR = Key(parts=(AT, ID))
LOW, HIGH = Edge(("2024-01-01T00:00:00", "5")), Edge(("2024-01-02T00:00:00",), is_inclusive=False)


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            Postgres(),
            """("at", "id") >= ('2024-01-01T00:00:00', '5') and "at" < '2024-01-02T00:00:00'""",
        ),
        (
            Dialect(),
            """("at" >= TIMESTAMP '2024-01-01 00:00:00' and ("at" > TIMESTAMP """
            """'2024-01-01 00:00:00' or "id" >= 5)) and "at" < TIMESTAMP '2024-01-02 00:00:00'""",
        ),
        (
            SparkSQL(),
            """(`at` >= cast('2024-01-01T00:00:00' as timestamp) and (`at` > """
            """cast('2024-01-01T00:00:00' as timestamp) or `id` >= cast('5' as bigint))) and """
            """`at` < cast('2024-01-02T00:00:00' as timestamp)""",
        ),
    ],
)
def test_a_list_key_is_compared_in_order(dialect, expected):
    names = KeyNames.in_table(dialect, PAIR)
    assert names.within(Range(low=LOW, high=HIGH)) == expected


def test_every_connection_has_a_condition_and_rows_without_a_key_one_of_their_own():
    names = KeyNames.in_query(Postgres(), Key(parts=(NOTE,)))
    ranges = Range(low=Edge(("a",))).split([("f",), ("k",)])
    assert names.predicates(Slice(ranges=tuple(ranges), with_nulls=True)) == [
        """"_key0" >= 'a' and "_key0" <= 'f'""",
        """"_key0" > 'f' and "_key0" <= 'k'""",
        """"_key0" > 'k'""",
        '"_key0" is null',
    ]
    assert names.predicates(Slice(ranges=(Range(),))) == ['"_key0" is not null']
    assert names.predicates(Slice(ranges=())) == ["1 = 0"]


def test_a_row_that_lacks_a_part_of_its_key_is_in_no_range():
    names = KeyNames.in_table(Dialect(), Key(parts=(ID, NOTE)))
    assert names.within(Range().beyond(("1", "x"))).endswith('and "note" is not null')
    assert names.missing() == '"id" is null or "note" is null'


@pytest.mark.parametrize(
    ("dialect", "first", "last", "number"),
    [
        (
            Postgres(),
            """where ("x") and "id" > '7' order by "id" limit 100""",
            """order by "id" desc limit 1)""",
            'row_number() over (order by "_key0")',
        ),
        (
            MySQL(),
            """where ("x") and `id` > 7 order by `id` limit 100""",
            """order by `id` desc limit 1)""",
            "row_number() over (order by `_key0`)",
        ),
        (
            Derby(),
            """where ("x") and "id" > 7 order by "id" fetch first 100 rows only""",
            """order by "id" desc fetch first 1 rows only)""",
            "row_number() over ()",
        ),
    ],
)
def test_a_survey_walks_the_key_no_further_than_a_slice(dialect, first, last, number):
    key = Key(parts=(ID,))
    limits = Range().beyond(("7",))
    reach = Reach(limits=limits, top=limits, rows=100, step=10)
    query = survey_statement(KeyNames.in_table(dialect, key), "t", '"x"', reach)
    for part in (first, last, number, "n in (1, 100) or mod(n, 10) = 0"):
        assert part in query
    assert "offset" not in query


def test_sql_server_has_a_sign_for_the_rest_of_a_division():
    reach = Reach(limits=Range(), top=None, rows=100, step=10)
    query = survey_statement(KeyNames.in_table(SQLServer(), Key(parts=(ID,))), "t", None, reach)
    assert query.endswith("n in (1, 100) or n % 10 = 0")


def test_a_small_sample_is_a_number_that_databases_read():
    table = Table(stream="t", name="t", columns=(ID,))
    plan = ReadPlan(table=table, columns=(ID,), key_properties=(), sample=1e-7)
    assert conditions_of(Dialect(), plan) == ["rand() < 0.0000001"]


def test_bytes_are_compared_as_bytes():
    raw = column("raw", "binary")
    assert Dialect().literal(raw, "AP8=") == "X'00ff'"
    assert Postgres().literal(raw, "AP8=") == "decode('00ff', 'hex')"


def advised(
    key: Column = AT, indexes: tuple[Index, ...] | None = (), *, is_view: bool = False, **options
) -> str:
    table = Table(
        stream="t",
        name="t",
        columns=(AT, ID, NOTE),
        indexes=indexes,
        is_view=is_view,
        knows_nulls=options.pop("knows_nulls", True),
    )
    plan = ReadPlan(
        table=table,
        columns=table.columns,
        key_properties=options.pop("keys", ()),
        partition_column=options.pop("partition_column", None),
        key=Key(parts=(key,)),
        window=Window(**options),
    )
    return " ".join(table_warnings(plan))


def test_advice_is_about_what_the_source_tells():
    assert "no index begins with the replication key at" in advised()
    assert advised(indexes=None) == advised(is_view=True) == ""
    assert advised(indexes=(Index(columns=("at", "id")),)) == ""
    assert "no index" in advised(indexes=(Index(columns=("id", "at")),))
    expression = column("coalesce(a, b)", sql="coalesce(a, b)", is_nullable=False)
    assert "no index" in advised(expression, (Index(columns=("at",)),))
    assert advised(expression, (Index(columns=("COALESCE(a, b)",)),)) == ""


def test_advice_about_nulls_says_what_happens_to_them():
    indexes = (Index(columns=("note",)),)
    assert "are read in every run" in advised(NOTE, indexes)
    assert "are never read" in advised(NOTE, indexes, null_keys="exclude")
    assert advised(NOTE, indexes, null_keys="fail") == ""
    assert "are read in every run" in advised(NOTE, None)
    assert advised(NOTE, None, is_view=True) == advised(NOTE, None, knows_nulls=False) == ""


def test_key_properties_want_a_unique_index():
    at, unique = Index(columns=("at",)), Index(columns=("id",), is_unique=True)
    assert "no unique index guarantees that id" in advised(indexes=(at,), keys=("id",))
    assert advised(indexes=(at, unique), keys=("id", "note")) == ""
    assert "no unique index" in advised(indexes=(at, unique), keys=("note",))


def test_an_option_without_effect_is_told():
    indexes = (Index(columns=("at",)),)
    assert "partition_column id has no effect" in advised(indexes=indexes, partition_column="id")
    assert advised(indexes=indexes) == ""


def test_tables_that_would_be_one_stream_are_refused():
    tables = [Table(stream="a-b-c", schema=a, name=b) for a, b in (("a", "b-c"), ("a-b", "c"))]
    assert one_per_stream(tables[:1]) == tables[:1]
    with pytest.raises(SourceError, match=r"one stream for a\.b-c and a-b\.c; name the one"):
        one_per_stream(tables)
