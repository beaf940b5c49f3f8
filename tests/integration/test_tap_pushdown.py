"""What never leaves a real PostgreSQL: rows, columns and tables that were not asked for."""

from __future__ import annotations

import re

import pytest

from tests.support.tap import Postgres, discover, entry_of, metadata_of, run_tap

ROWS = 40_000
SCHEMA = f"""
create table wide (id int primary key, at timestamptz not null, kind text, secret text);
insert into wide select n, timestamptz '2024-01-01' + n / 4 * interval '1 second', 'k' || n % 10,
  repeat('x', 50) from generate_series(1, {ROWS}) n;
create index on wide (at, id);
create table "a-{{label}}" (id int primary key, v text);
insert into "a-{{label}}" values (1, 'x');
create table b (at date, id int not null, unique (id));
vacuum analyze wide;
"""
LATEST = "2024-01-01T02:45:00.000000+00:00"


def config(database: Postgres, settings: dict | None = None, **options) -> dict:
    return database.reads("wide", settings=settings, **options)


def statements(database: Postgres, start: int) -> list[str]:
    """Return what the tap asked of the table."""
    asked = [line for line in database.asked(start) if '"public"."wide"' in line]
    return [line.partition("execute ")[2].partition(": ")[2] for line in asked]


def explained(database: Postgres, statement: str) -> str:
    return "\n".join(row[0] for row in database.rows(f"explain {statement}"))


def described(database: Postgres, start: int) -> list[str]:
    """Return what the tap asked of the catalog, without Spark's question for the types of that."""
    asked = [line for line in database.asked(start) if " as what" in line]
    return [line for line in asked if "SELECT * FROM" not in line]


def test_all_tables_of_a_run_are_described_by_one_query(database):
    settings = {**database.config, "tables": ["public.*"]}
    start = len(database.log())
    catalog = discover(settings)
    assert len(described(database, start)) == 1
    assert [entry["key_properties"] for entry in catalog["streams"]] == [["id"], [], ["id"]]
    for entry in catalog["streams"]:
        # As other taps write catalogs: where the schema ends shows only in the database.
        entry.pop("table_name", None)
        metadata_of(entry).pop("schema-name", None)
    metadata_of(entry_of(catalog, "public-wide"))["selected"] = False
    start = len(database.log())
    output = run_tap(settings, catalog=catalog)
    assert output.records() == [{"id": 1, "v": "x"}]
    assert len(described(database, start)) == 1
    assert "'public.wide'" not in database.log()[start:]


@pytest.mark.parametrize("key", ["at", ["at", "id"]], ids=str)
def test_the_plans_of_an_incremental_run_use_the_index(database, key):
    value = LATEST if key == "at" else [LATEST, 1]
    bookmark = {"replication_key": key, "replication_key_value": value}
    start = len(database.log())
    output = run_tap(
        config(database, replication_key=key), state={"bookmarks": {"public-wide": bookmark}}
    )
    assert 0 < len(output.records()) < 500
    asked = statements(database, start)
    assert len(asked) == 2
    for statement in asked:
        plan = explained(database, statement)
        assert "Index" in plan
        assert "Seq Scan" not in plan


def test_boundaries_are_found_and_slices_read_along_the_index(database):
    start = len(database.log())
    settings = {"slice_rows": 5000, "num_partitions": 4}
    output = run_tap(config(database, settings))
    assert len(output.records()) == ROWS
    asked = statements(database, start)
    surveys = [statement for statement in asked if "row_number()" in statement]
    reads = [statement for statement in asked if "row_number()" not in statement]
    assert len(surveys) == ROWS // 5000 + 1
    assert len(reads) == ROWS // 5000 * 4
    assert not any("offset" in statement.lower() for statement in asked)
    for statement in [surveys[3], reads[9]]:
        plan = explained(database, statement)
        assert "Index" in plan
        assert "Seq Scan" not in plan


def test_unselected_columns_and_rows_never_leave_the_database(database):
    catalog = discover(config(database))
    metadata_of(entry_of(catalog, "public-wide"), "properties", "secret")["selected"] = False
    start = len(database.log())
    output = run_tap(config(database, where="kind = 'k3' and id < 100"), catalog=catalog)
    assert len(output.records()) == 10
    asked = statements(database, start)
    assert asked
    assert not any("secret" in statement for statement in asked)
    (read,) = [statement for statement in asked if "row_number()" not in statement]
    found = re.search(r"actual time=\S+ rows=(\d+)", explained(database, f"analyze {read}"))
    assert found[1] == "10"


def test_a_sample_is_drawn_by_the_database(database):
    start = len(database.log())
    output = run_tap(config(database, sample=0.05))
    assert ROWS * 0.03 < len(output.records()) < ROWS * 0.07
    assert any("random() < 0.05" in statement for statement in statements(database, start))
