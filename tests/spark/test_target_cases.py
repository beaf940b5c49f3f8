"""Every case of tests/data/cases: its messages are loaded, its tables read back by delta-rs."""

from __future__ import annotations

import pytest

from singer_spark.errors import SingerSparkError
from tests.support.cases import as_expected, cases, in_order

CASES = [
    pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.is_long else [])
    for case in cases()
]


def written(lake, table):
    return len(lake.commits(table)) if (lake.root / table / "_delta_log").exists() else 0


@pytest.mark.parametrize("case", CASES)
def test_case(lake, case):
    for run in case.runs:
        before = {table: written(lake, table) for table in run.commits}
        code, said = 0, ""
        try:
            lake.load(run.messages, **{**case.config, **run.config})
        except SingerSparkError as error:
            code, said = error.exit_code, error.message
        assert (code, run.says in said) == (run.exit_code, True), said
        for table, expected in run.rows.items():
            assert as_expected(lake.rows(table), expected) == in_order(expected), table
        for table, commits in run.commits.items():
            assert written(lake, table) - before[table] == commits, table
        if run.states is not None:
            assert lake.states == run.states
