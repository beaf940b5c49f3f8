"""A run whose lock another has taken commits nothing more; who takes it over claims the tables."""

from __future__ import annotations

import json

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import functions as F

from singer_spark.assignment import RUN_FILE, STATE_URL, Assignment
from singer_spark.engine.session import isolated
from singer_spark.errors import TransientError
from singer_spark.state import create_state_store
from singer_spark.state.lock import RunLock
from target_spark_delta.table import commit, races
from target_spark_delta.table.commit import Commit, describe_commits
from target_spark_delta.table.table import Table
from tests.support.singer import activate, state
from tests.support.users import USERS, user

PIPELINE = "shop"


@pytest.fixture
def holder(spark):
    """Return a session of a run that holds the pipeline's lock in a generation."""

    def holder(generation, **more):
        session = isolated()
        run = Assignment(run_id=f"run-{generation}", pipeline=PIPELINE, generation=generation)
        races.fence(session, run)
        describe_commits(session, Commit(pipeline=PIPELINE, run_id=run.run_id, stream="users"))
        return session

    return holder


@pytest.fixture
def assigned(monkeypatch, tmp_path):
    """Have the next load be of a run with this assignment."""

    def assigned(**told):
        run = Assignment(run_id=f"run-{told['generation']}", pipeline=PIPELINE, **told)
        (tmp_path / "run.json").write_text(run.to_json())
        monkeypatch.setenv(RUN_FILE, str(tmp_path / "run.json"))
        monkeypatch.setenv("SINGER_SPARK_RUN_ID", run.run_id)
        monkeypatch.setenv("SINGER_SPARK_PIPELINE", PIPELINE)

    return assigned


def transactions(lake):
    """Return generation and operation of each commit that carries a transaction."""
    found = []
    for path in sorted((lake.root / "users" / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        operation = next(one["commitInfo"]["operation"] for one in actions if "commitInfo" in one)
        found += [(one["txn"]["version"] >> 20, operation) for one in actions if "txn" in one]
    return found


def test_a_paused_run_commits_nothing_after_a_claim(lake, holder, caplog):
    lake.load(USERS, user(1, "a"), user(2, "b"))
    table = Table.at_path(str(lake.root), "users")
    old, new = holder(7), holder(8)
    commit.note(new, table)
    version = lake.version("users")
    rows = old.sql("select 3L as id, 'c' as name, 1L as qty")
    rows.createOrReplaceTempView("late_rows")
    for late in (
        lambda: commit.append(table, rows, 1),
        lambda: commit.replace(old, table, rows),
        lambda: commit.execute(old, table, f"delete from {table.sql} where id = 1"),
        lambda: commit.execute(old, table, f"update {table.sql} set name = 'x' where id = 1"),
        lambda: commit.execute(
            old,
            table,
            f"merge into {table.sql} t using late_rows s on t.id = s.id "
            "when not matched then insert (id, name, qty) values (s.id, s.name, s.qty)",
        ),
    ):
        with pytest.raises(TransientError, match="another run has taken over"):
            late()
    assert lake.version("users") == version
    assert [row["id"] for row in lake.rows("users")] == [1, 2]
    assert "trying again" not in caplog.text


def test_a_claim_that_comes_while_rows_are_written_refuses_them(lake, holder, tmp_path, caplog):
    lake.load(USERS, user(1, "a"))
    table, begun = Table.at_path(str(lake.root), "users"), tmp_path / "begun"
    path, newer = table.path, 8 << 20

    def claim(_):
        try:
            begun.touch(exist_ok=False)
        except FileExistsError:
            return True
        nothing = DeltaTable(path).to_pyarrow_table().slice(0, 0)
        claims = CommitProperties(app_transactions=[Transaction(f"singer-spark:{PIPELINE}", newer)])
        write_deltalake(path, nothing, mode="append", commit_properties=claims)
        return True

    # With Arrow, Spark 4.2 never ends where it reads columns of Parquet.
    claims = F.udf(claim, "boolean", useArrow=False)
    rows = holder(7).sql("select 3L as id, 'c' as name, 1L as qty").where(claims("id"))
    with pytest.raises(TransientError, match="another run has taken over"):
        commit.append(table, rows, 1)
    assert [row["id"] for row in lake.rows("users")] == [1]
    assert "trying again" not in caplog.text


def test_the_commits_of_one_holder_all_count_and_others_claim_nothing(lake, assigned):
    assigned(generation=7)
    lake.load(USERS, user(1, "a"), user(2, "b"), user(3, "c"), batch_size_rows=1)
    lake.load(USERS, user(1, "x", version=5), activate("users", 5), hard_delete=True)
    assert [(row["id"], row["name"]) for row in lake.rows("users")] == [
        (1, "x"),
        (2, "b"),
        (3, "c"),
    ]
    done = transactions(lake)
    assert {generation for generation, _ in done} == {7}
    written = [one for one in lake.commits("users") if one["rows"]]
    assert len(done) == len(written), "no commit but those that write rows"


def test_who_takes_a_lock_over_claims_the_table_first(lake, assigned):
    lake.load(USERS, user(1, "a"))
    assigned(generation=9, claims=True)
    lake.load(USERS, user(1, "a"), state({"at": 1}))
    assert transactions(lake) == [(9, "WRITE")], "though nothing else is new"
    assert [row["id"] for row in lake.rows("users")] == [1]


def test_a_table_is_made_and_changed_only_by_who_holds_the_lock(
    lake, assigned, monkeypatch, tmp_path
):
    store = create_state_store(str(tmp_path / "state"))
    monkeypatch.setenv(STATE_URL, json.dumps(str(tmp_path / "state")))
    lock = RunLock(store, PIPELINE, "run-of-another")
    lock.acquire()
    assigned(generation=4)
    with pytest.raises(TransientError, match="lost its lock"):
        lake.load(USERS, user(1, "a"))
    lock.release()
    assert not (lake.root / "users").exists()
