"""A folder with a table that a pipeline has loaded, and a target that finds it again; no Spark."""

from __future__ import annotations

import io
import json

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from singer_spark.assignment import RUN_FILE, Assignment, TableIdentity
from singer_spark.report import REPORT_FILE, read_report
from target_spark_delta.target import TargetSparkDelta
from tests.support.singer import lines, schema, state

USERS = schema("users", {"id": {"type": "integer"}}, ["id"])


def note(run_id, **said):
    text = json.dumps({"pipeline": "shop", "run_id": run_id, "rows": 1, **said})
    return CommitProperties(custom_metadata={"userMetadata": text})


class AskedSparkError(Exception):
    """A test without Spark has come to where it is needed."""


def ask(_self):
    raise AskedSparkError


class Lake:
    """A folder with a table that a pipeline has loaded, and what its runner remembers."""

    def __init__(self, root, monkeypatch):
        self.root, self._monkeypatch = root / "lake", monkeypatch
        self.told, self._run_file = root / "report", root / "run.json"
        monkeypatch.setenv(REPORT_FILE, str(self.told))
        monkeypatch.setattr(TargetSparkDelta, "_engine", ask)
        for run_id in ("run-0", "run-1"):
            self.write(run_id)
        self.known = TableIdentity(
            location=self.path,
            id=str(self.table.metadata().id),
            version=1,
            run_id="run-1",
            key=("id",),
        )

    @property
    def path(self):
        return str(self.root / "users")

    @property
    def table(self):
        return DeltaTable(self.path)

    def write(self, run_id, table="users", **said):
        """Append rows in a commit like those of the target."""
        path, said = str(self.root / table), {"stream": table, **said}
        rows = pa.table({"id": [1, 2]})
        write_deltalake(path, rows, mode="append", commit_properties=note(run_id, **said))

    def run(self, *messages, known=True, place=None, config=None, **told):
        """Let a run find nothing new; return what it tells of the table."""
        tables = {"users": self.known} if known is True else known or {}
        run = Assignment(run_id="run-2", pipeline="shop", generation=5, tables=tables, **told)
        self._run_file.write_text(run.to_json())
        for name, value in (
            (RUN_FILE, str(self._run_file)),
            ("SINGER_SPARK_RUN_ID", "run-2"),
            ("SINGER_SPARK_PIPELINE", "shop"),
        ):
            self._monkeypatch.setenv(name, value)
        self.told.write_text("")
        messages = messages or (USERS, state({"bookmarks": {"users": {}}}))
        target = TargetSparkDelta(config={"path": place or str(self.root), **(config or {})})
        target.listen(io.StringIO(lines(messages)))
        facts = [fact for _, fact in read_report(self.told)]
        return [fact for fact in facts if fact["kind"] == "table"]
