"""What happens to a commit that another writer overtakes."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from singer_spark.deltalog import CommitInfo
from singer_spark.errors import StateError, TransientError
from singer_spark.report import REPORT_FILE, read_report
from target_spark_delta.table import commit, races
from target_spark_delta.table.table import Table

TABLE = Table.at_path("/lake", "sales", "orders")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(races.time, "sleep", lambda _: None)


@pytest.mark.parametrize(
    "condition",
    [
        "DELTA_CONCURRENT_APPEND",
        "DELTA_CONCURRENT_DELETE_READ",
        "DELTA_METADATA_CHANGED",
        "DELTA_PROTOCOL_CHANGED",
    ],
)
def test_a_commit_that_loses_a_race_is_repeated(condition):
    outcomes = [PySparkException(f"[{condition}] overtaken"), "committed"]

    def action():
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert races.with_retry(TABLE, action) == "committed"


def test_a_commit_that_always_loses_is_safe_to_run_again():
    def action():
        raise PySparkException("[DELTA_CONCURRENT_APPEND] overtaken")

    with pytest.raises(TransientError, match="/lake/sales/orders: another writer"):
        races.with_retry(TABLE, action)


def test_another_failure_is_not_repeated():
    attempts = []

    def action():
        attempts.append(1)
        raise PySparkException("[SOMETHING_ELSE] broken")

    with pytest.raises(PySparkException, match="SOMETHING_ELSE"):
        races.with_retry(TABLE, action)
    assert len(attempts) == 1


def test_a_table_is_named_by_its_place():
    assert TABLE.sql == "delta.`/lake/sales/orders`"
    assert Table.at_path("s3://lake/", "orders").path == "s3a://lake/orders"
    catalog = Table.in_catalog("spark_catalog", "my sales", "orders")
    assert catalog.sql == "`spark_catalog`.`my sales`.`orders`"
    assert (str(catalog), catalog.name) == ("spark_catalog.my sales.orders", "orders")


def _committed(monkeypatch, **metrics):
    """Let every commit be made at once, and say this of itself; return those taken back."""
    info = CommitInfo(version=7, operation="?", metadata={}, metrics=metrics)
    taken = []
    monkeypatch.setattr(commit, "take_back", lambda *given: taken.append(given[-1]))
    monkeypatch.setattr(commit, "_made", lambda *_, **__: (None, info))
    return taken


def test_a_merge_that_read_half_of_its_rows_is_taken_back(monkeypatch):
    changed = {"affected": 60, "updated": 20, "deleted": 0, "inserted": 40}
    said = pa.table({f"num_{name}_rows": [count] for name, count in changed.items()})
    monkeypatch.setattr(commit, "answer_of", lambda _: said)
    taken = _committed(monkeypatch, numSourceRows="60")
    with pytest.raises(TransientError, match="60 rows were found where 100 were received"):
        commit.execute(None, TABLE, "merge", count=100)
    assert taken == [7]
    assert commit.execute(None, TABLE, "merge", count=60) == commit.Counts(40, 20, 0)
    _committed(monkeypatch, numSourceRows="0")
    assert commit.execute(None, TABLE, "merge", count=60), "Spark has not counted the source"


class _Rows:
    """Stands for rows, a writer of them and the session."""

    conf = property(lambda self: self)
    sparkSession = property(lambda self: self)  # noqa: N815
    write = property(lambda self: self)

    def __getattr__(self, _):
        return lambda *_, **__: self


def test_a_part_that_was_replaced_by_fewer_rows_is_taken_back(monkeypatch):
    taken = _committed(monkeypatch, numOutputRows="150", numCopiedRows="50")
    replaced = {"where": "id < 9", "table": TABLE, "spark": _Rows(), "rows": _Rows()}
    commit.replace(**replaced, count=100)
    assert taken == []
    with pytest.raises(TransientError, match="100 rows were found where 120 were received"):
        commit.replace(**replaced, count=120)
    assert taken == [7]


def test_who_else_loads_a_table_is_asked_before_each_attempt_to_replace_it(monkeypatch):
    asked = []

    def made(_spark, _table, action):
        action()
        action()
        return None, None

    monkeypatch.setattr(commit, "_made", made)
    rows, check = _Rows(), lambda: asked.append(1)
    commit.replace(rows, TABLE, rows, where="true", check=check)
    assert asked == [1, 1]


def test_a_table_that_delta_makes_anew_has_lost_its_rows(monkeypatch):
    monkeypatch.setattr(commit, "last_commit", lambda _: 0)
    monkeypatch.setattr(commit.races, "_run_of", lambda _: None)
    with pytest.raises(StateError, match=r"the table was removed .* --refresh"):
        commit.append(TABLE, _Rows(), 1)


def test_the_runner_learns_of_rows_before_they_are_committed(tmp_path, monkeypatch):
    """A run of which it has learned nothing has left none, however it ended."""
    monkeypatch.setenv(REPORT_FILE, str(tmp_path / "report"))
    said = commit.Commit(pipeline="p", run_id="r", stream="s", rows=3)
    spark = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None))
    commit.describe_commits(spark, said.without_rows())
    assert not (tmp_path / "report").exists()
    commit.describe_commits(spark, said)
    ((_, fact),) = read_report(tmp_path / "report")
    assert fact == {"kind": "writes", "stream": "s"}
