"""Names that come from outside stay names: none becomes SQL."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from singer_spark.errors import SchemaError
from singer_spark.names import literal, quote
from singer_spark.types import parse_datatype, to_ddl, to_json_schema, to_spark_type
from tap_spark_source.dialects.derby import Derby
from tap_spark_source.dialects.mysql import MySQL
from tap_spark_source.dialects.oracle import Oracle
from tap_spark_source.dialects.postgres import Postgres
from tap_spark_source.dialects.sqlite import SQLite
from tap_spark_source.dialects.sqlserver import SQLServer
from tap_spark_source.dialects.statements import SparkSQL
from tap_spark_source.sources.kafka import connect, debezium
from target_spark_delta.methods.batch import Bookmark, count_late
from target_spark_delta.rows.values import misfit, typed
from tests.support.hostile import NAMES, bare_sql

DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
KINDS = [
    DECIMAL,
    {"type": "bytes"},
    {"type": "bytes", "name": "io.debezium.data.VariableScaleDecimal"},
    *({"type": "int64", "name": name} for name in connect._SEMANTIC),
]


def nested(name, inner):
    """Put a field of a name into a struct, an array and a map, each below the other."""
    struct = {"type": "struct", "fields": [{**inner, "field": name}, {**DECIMAL, "field": "n"}]}
    array = {"type": "array", "items": struct}
    return {"type": "struct", "fields": [{"type": "map", "values": array, "field": name}]}


@pytest.mark.parametrize("name", NAMES)
def test_names_in_the_schema_of_an_event_stay_names(name):
    for kind in KINDS:
        field = connect.field_of({**nested(name, kind), "field": name})
        older = connect.field_of({**nested(name, {"type": "string"}), "field": name})
        (read,) = connect.carried([field], [older], {name: f"struct<{quote(name)}:int>"})
        for one in (field, read):
            sql = one.value("_0")
            assert quote(name) in sql
            said = bare_sql(sql)
            assert "reflect" not in said
            assert "{" not in said
            assert "--" not in said
            assert "reflect" not in bare_sql(one.json_type)


def test_a_schema_of_an_event_that_is_too_deep_is_one_clear_error():
    schema = {"type": "string"}
    for _ in range(200):
        schema = {"type": "array", "items": schema}
    with pytest.raises(SchemaError, match="nested deeper than 30 levels"):
        connect.field_of({**schema, "field": "a"})


@pytest.mark.parametrize("scale", ["1000", -1, "x", None, [], 2**70])
def test_a_decimal_of_an_event_that_no_column_holds_is_one_clear_error(scale):
    column = {**DECIMAL, "field": "a", "parameters": {"scale": scale}}
    after = {"field": "after", "fields": [column]}
    event = debezium.Event(schema={"fields": [after]}, payload={"after": {}}, keys=())
    with pytest.raises(SchemaError, match="the schema of an event is none of a table's rows"):
        debezium.fields_of([event])


def test_an_event_of_very_deep_json_is_none():
    assert debezium.read_event(None, "[" * 200_000) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_type_is_written_with_its_names_quoted_and_read_back(name):
    struct = T.StructType([T.StructField(name, T.IntegerType(), metadata={"comment": name})])
    for kind in (struct, T.ArrayType(struct), T.MapType(T.StringType(), struct)):
        assert quote(name) in to_ddl(kind)
        assert "reflect" not in bare_sql(to_ddl(kind, comments=True))
        assert parse_datatype(to_ddl(kind)).simpleString() == kind.simpleString()
        assert to_spark_type(to_json_schema(kind)).simpleString() == kind.simpleString()


@pytest.mark.parametrize("name", NAMES)
def test_the_target_quotes_names_at_every_depth(name):
    struct = T.StructType([T.StructField(name, T.DecimalType(10, 2))])
    wider = T.StructType([*struct, T.StructField(f"{name}2", struct)])
    for before, after in ((struct, wider), (T.ArrayType(struct), T.ArrayType(wider))):
        for sql in (
            typed(f"record.{quote(name)}", before, after, name, "1"),
            misfit(f"record.{quote(name)}", quote(name), before, after, name),
        ):
            assert "reflect" not in bare_sql(sql)
            assert "--" not in bare_sql(sql)


class Frame:
    """A frame that notes the SQL it is given."""

    def __init__(self, schema):
        self.schema, self.said = schema, []

    def where(self, sql):
        self.said.append(sql)
        return self

    def selectExpr(self, *sql):  # noqa: N802 - as in Spark
        self.said.extend(sql)
        return self

    def toArrow(self):  # noqa: N802 - as in Spark
        raise InterruptedError


@pytest.mark.parametrize("name", NAMES)
def test_the_type_of_a_bookmark_stays_a_type(name):
    struct = T.StructType([T.StructField(name, T.IntegerType())])
    frame = Frame(T.StructType([T.StructField(name, struct)]))
    with pytest.raises(InterruptedError):
        count_late(frame, Bookmark(name, name))
    assert frame.said
    assert not any("reflect" in bare_sql(sql) for sql in frame.said)


@pytest.mark.parametrize("dialect", [Derby, MySQL, Oracle, Postgres, SparkSQL, SQLite, SQLServer])
def test_every_database_quotes_names_and_texts(dialect):
    for name in NAMES:
        one = dialect()
        left, right = one.quote("a").split("a")
        inside = one.quote(name)[len(left) : -len(right)]
        assert inside.replace(right * 2, "").count(right) == 0
        text = one.text(name)
        assert text[-1] == "'"
        assert text.removeprefix("N")[0] == "'"


def test_quoting_is_undone_by_reading():
    for name in NAMES:
        assert bare_sql(quote(name)).strip() == ""
        assert bare_sql(literal(name)).strip() == ""
