"""Another writer commits while ours is at work: the first try is lost, the next one is not."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from singer_spark.engine.session import isolated
from target_spark_delta.table import commit
from target_spark_delta.table.table import Table
from tests.support.singer import data, record, schema


@pytest.fixture
def session(spark):
    return isolated()


@pytest.fixture
def table(lake):
    lake.load(data("methods/overwrite_first"))
    return Table.at_path(str(lake.root), "orders")


@pytest.fixture
def overtaken(table, tmp_path, caplog):
    """Return a condition during which another writer, once, removes row 1 of the table."""
    path, begun = table.path, tmp_path / "begun"

    def overtake(_):
        try:
            begun.touch(exist_ok=False)
        except FileExistsError:
            return True
        DeltaTable(path).delete("id = 1")
        return True

    # With Arrow, Spark 4.2 never ends where it reads columns of Parquet.
    yield F.udf(overtake, "boolean", useArrow=False)(F.col("id"))
    said = [record.getMessage() for record in caplog.get_records("call")]
    assert any("another writer was faster, trying again" in one for one in said)


def ids(lake):
    return [row["id"] for row in lake.rows("orders")]


def test_a_merge(lake, session, table, overtaken):
    session.range(2, 5).where(overtaken).createOrReplaceTempView("merged")
    commit.execute(
        session,
        table,
        f"merge into {table.sql} t using merged s on t.id = s.id "
        "when matched then update set t.name = 'merged' "
        "when not matched then insert (id, name) values (s.id, 'merged')",
    )
    assert [(row["id"], row["name"]) for row in lake.rows("orders")] == [
        (2, "merged"),
        (3, "merged"),
        (4, "merged"),
    ]


def test_versions_are_worked_out_anew(lake, monkeypatch):
    """Another writer ends the current version while ours links its records."""
    declared = schema("v", {"id": {"type": "integer"}, "name": {"type": "string"}}, ["id"])
    rows = [record("v", {"id": 1, "name": name}) for name in "ab"]
    lake.config["stream_options"] = {"v": {"load_method": "scd2"}}
    lake.load(declared, rows[0])
    execute, tries = commit.execute, []

    def lose_once(*given, **named):
        tries.append(given)
        if len(tries) == 1:
            update = {"valid_to": "valid_from", "is_current": "false", "name": "'theirs'"}
            lake.table("v").update(updates=update)
            raise PySparkException("[DELTA_CONCURRENT_APPEND] another writer")
        return execute(*given, **named)

    monkeypatch.setattr(commit, "execute", lose_once)
    lake.load(declared, rows[1])
    assert len(tries) == 2
    assert [(row["name"], row["is_current"]) for row in lake.rows("v", order="valid_from")] == [
        ("theirs", False),
        ("b", True),
    ]


def test_a_replacement_of_all_rows(lake, session, table, overtaken):
    rows = session.sql("select 7L as id, 'x' as name, 1L as qty").where(overtaken)
    commit.replace(session, table, rows)
    assert ids(lake) == [7]


def test_a_rewrite_that_widens_a_column(lake, table, overtaken, monkeypatch):
    rows = Table.rows
    monkeypatch.setattr(Table, "rows", lambda *one: rows(*one).where(overtaken))
    lake.load(data("methods/overwrite_wider"))
    assert ids(lake) == [2, 3, 9]
    assert str(lake.rows("orders")[-1]["qty"]) == "1.50", table
