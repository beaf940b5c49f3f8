"""What is said of a stream before a run, by how it is read and loaded."""

from __future__ import annotations

import pytest

from singer_spark.protocol import Scope
from singer_spark.runner.loading import Loading

ALL = Scope()
RANGE = Scope(rows="range", column="at")
WHERE = Scope(rows="some", why="where")
CHANGES = Scope(rows="some", why="changes only")
KEY = ("id",)
FULL = {"method": "FULL_TABLE", "scope": ALL}
FIRST = {"method": "INCREMENTAL", "bookmark": "at", "scope": ALL}
LATER = {**FIRST, "scope": RANGE}


@pytest.mark.parametrize(
    ("loading", "said"),
    [
        (Loading(load_method="upsert", keys=KEY, **FULL), None),
        (Loading(load_method="upsert", keys=KEY, **LATER), None),
        (Loading(load_method="upsert", **FULL), "no key: replaced at each run"),
        (Loading(load_method="upsert", **FIRST), "no key: appended, only what the table lacks"),
        (Loading(load_method="upsert", **LATER), "no key: appended, only what the table lacks"),
        (Loading(load_method="append-only", keys=KEY, **LATER), "appended, only what the table"),
        (Loading(load_method="append-only", **FULL), "no key: appended at each run, whatever"),
        (Loading(load_method="upsert", method="FULL_TABLE", scope=WHERE),
         "refused: no key, and the read is limited (where); set key_properties, or"),
        (Loading(load_method="upsert", method="LOG_BASED", scope=CHANGES), "no key: each change"),
        (Loading(load_method="upsert", method="LOG_BASED", scope=ALL), "no key: replaced by this"),
        (Loading(load_method="upsert"), "no key: appended as it comes; what the tap sends again"),
        (Loading(load_method="overwrite", **FULL), "replaced at each run"),
        (Loading(load_method="overwrite", keys=KEY, **FIRST),
         "refused from the second run on: overwrite needs a whole read; use upsert, or"),
        (Loading(load_method="overwrite", keys=KEY, **LATER),
         "refused: overwrite needs a whole read, and this one is limited (by at); use upsert"),
        (Loading(load_method="overwrite", method="LOG_BASED", keys=KEY, scope=ALL),
         "refused from the second run on: overwrite needs a whole read; use upsert"),
        (Loading(load_method="overwrite", method="INCREMENTAL", scope=ALL),
         "refused from the second run on: overwrite needs a whole read; use append-only"),
        (Loading(load_method="partition-overwrite", method="FULL_TABLE", scope=WHERE),
         "refused: partition-overwrite needs a whole read, and this one is limited (where)"),
        (Loading(load_method="delete-insert", range_column="at", **LATER), None),
        (Loading(load_method="delete-insert", range_column="at", **FIRST), None),
        (Loading(load_method="delete-insert", range_column="at", keys=KEY,
                 **{**FIRST, "scope": WHERE}),
         "refused: delete-insert needs a whole read, and this one is limited (where); use upsert"),
        (Loading(load_method="delete-insert", range_column="day", **FULL), None),
        (Loading(load_method="delete-insert", range_column="day", **LATER), "refused: delete-ins"),
        (Loading(load_method="delete-insert", keys=KEY, **LATER), None),
        (Loading(load_method="scd2", keys=KEY, **LATER), None),
        (Loading(**FULL), None),
    ],
)  # fmt: skip
def test_what_doubles_or_replaces_is_said(loading, said):
    if said is None:
        assert loading.verdict is None
    else:
        assert loading.verdict.startswith(said)
        assert len(loading.verdict) < 160
        assert "None" not in loading.verdict
