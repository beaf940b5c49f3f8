"""What happens to a commit that another writer overtakes."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from singer_spark.errors import TransientError
from target_spark_delta import retry
from target_spark_delta.table import Table

TABLE = Table.at_path("/lake", "sales", "orders")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(retry.time, "sleep", lambda _: None)


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

    assert retry.with_retry(TABLE, action) == "committed"


def test_a_commit_that_always_loses_is_safe_to_run_again():
    def action():
        raise PySparkException("[DELTA_CONCURRENT_APPEND] overtaken")

    with pytest.raises(TransientError, match="/lake/sales/orders: another writer"):
        retry.with_retry(TABLE, action)


def test_another_failure_is_not_repeated():
    attempts = []

    def action():
        attempts.append(1)
        raise PySparkException("[SOMETHING_ELSE] broken")

    with pytest.raises(PySparkException, match="SOMETHING_ELSE"):
        retry.with_retry(TABLE, action)
    assert len(attempts) == 1


def test_a_table_is_named_by_its_place():
    assert TABLE.sql == "delta.`/lake/sales/orders`"
    assert Table.at_path("s3://lake/", "orders").path == "s3a://lake/orders"
    catalog = Table.in_catalog("spark_catalog", "my sales", "orders")
    assert catalog.sql == "`spark_catalog`.`my sales`.`orders`"
    assert (str(catalog), catalog.name) == ("spark_catalog.my sales.orders", "orders")
