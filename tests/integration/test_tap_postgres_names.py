"""The tap on a real PostgreSQL whose names somebody chose who wants to run SQL of their own."""

from __future__ import annotations

import pytest

from singer_spark.errors import StateError
from tests.support.hostile import NAMES
from tests.support.tap import run_tap

SCHEMA = "create table t (n int)"
FITTING = [name for name in NAMES if len(name.encode()) < 64]  # bytes; PostgreSQL cuts longer ones


def quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


@pytest.fixture(scope="module")
def hostile(database):
    database.run("drop table t", autocommit=True)
    columns = ", ".join(f"{quoted(name)} int not null" for name in FITTING)
    database.run(f"create table t ({columns})", autocommit=True)
    for number in (1, 2):
        values = ", ".join([str(number)] * len(FITTING))
        database.run(f"insert into t values ({values})", autocommit=True)
    for name in FITTING:
        database.run(f"create table {quoted(name)} as select 7 as n", autocommit=True)
    return database.config


def test_columns_and_tables_keep_their_names(hostile):
    output = run_tap(hostile)
    rows = sorted(output.records("public-t"), key=lambda row: row[FITTING[0]])
    assert rows == [dict.fromkeys(FITTING, number) for number in (1, 2)]
    for name in FITTING:
        assert output.records(f"public-{name}") == [{"n": 7}], name


def test_keys_keep_theirs_and_a_state_is_no_sql(hostile):
    keys = {"replication_key": FITTING[:3], "key_properties": FITTING[3:5]}
    config = {**hostile, "tables": ["public.t"], "stream_options": {"public-t": keys}}
    output = run_tap(config)
    assert output.bookmark("public-t")["replication_key_value"] == [2, 2, 2]
    assert len(run_tap(config, state=output.state).records("public-t")) == 1
    bookmark = {**output.bookmark("public-t"), "replication_key_value": ["1) or 1=1 --", 1, 1]}
    run_tap(config, state={"bookmarks": {"public-t": bookmark}}, fails=StateError)
