"""Whose table it is, by what its commits say; no Spark."""

from __future__ import annotations

import json

import pytest

from singer_spark.errors import DataError
from target_spark_delta.table import earlier_rows
from target_spark_delta.table.table import Table

TABLE = Table.at_path("/lake", "events")
OURS, OTHERS = {"pipeline": "shop", "run_id": "1"}, {"pipeline": "crm", "run_id": "1"}


@pytest.fixture
def check(monkeypatch):
    """Check a table whose log has these commits, newest first; the oldest has that version."""

    def check(*said, oldest=0):
        commits = [
            {
                "version": oldest + len(said) - 1 - number,
                "operation": "WRITE",
                "operationParameters": {"mode": "Append"},
                "userMetadata": one and json.dumps(one),
            }
            for number, one in enumerate(said)
        ]
        answers = {"": commits, "limit 10": commits[:10]}
        monkeypatch.setattr(earlier_rows, "_commits", lambda _spark, _table, limit: answers[limit])
        earlier_rows.check_owner(None, TABLE, "shop")

    return check


@pytest.mark.parametrize("oldest", [0, 40])
@pytest.mark.parametrize("commits", [1, 12])
def test_a_table_of_somebody_else_is_not_replaced_whatever_is_left_of_its_log(
    check, oldest, commits
):
    with pytest.raises(DataError, match="was not made by this target"):
        check(*[None] * commits, oldest=oldest)


@pytest.mark.parametrize("oldest", [0, 40])
def test_one_that_this_pipeline_alone_has_loaded_is(check, oldest):
    check(*[None] * 12, OURS, oldest=oldest)
    with pytest.raises(DataError, match="loaded by the pipeline crm too"):
        check(OURS, *[None] * 12, OTHERS, oldest=oldest)
