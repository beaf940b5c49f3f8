"""A pipeline of our tap and target, both fake, whose failed runs have left rows in real tables."""

from __future__ import annotations

import json

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from singer_spark.pipeline.plugins import Plugin
from singer_spark.runner import RunOptions
from singer_spark.runner.supervisor import ChildError
from tests.support.bench import TARGET

STORED = {"bookmarks": {"events": {"files": {"modified": 1}}, "orders": {"at": 1}}}
REACHED = {"files": {"modified": 2, "names": ["b"]}}
TAP = """
given = option("--state")
note("tap-state", open(given).read() if given else "{}")
note("run-id", os.environ["SINGER_SPARK_RUN_ID"])
note("run-file", open(os.environ["SINGER_SPARK_RUN_FILE"]).read())
"""
IDLE = TAP
TAP += """
fact = {"kind": "writes", "stream": "events"}
open(os.environ["SINGER_SPARK_REPORT"], "a").write(json.dumps(fact) + chr(10))
"""
SOURCE = """
fact = {{"kind": "source", "stream": "", **{!r}}}
open(os.environ["SINGER_SPARK_REPORT"], "a").write(json.dumps(fact) + chr(10))
say(type="SCHEMA", stream="events", schema={{}}, key_properties=[])
"""
NONE = {"fresh": [], "settled": [], "owes": [], "source": None}
MOVED = {"bookmarks": {**STORED["bookmarks"], "events": REACHED}}
COPIES = {"events": {}, "more": {"__source__": "events"}}


class Shop:
    """A bench whose tap and target bear the names of ours, and a folder of tables."""

    def __init__(self, bench):
        self.bench = bench
        self.lake = bench.folder / "lake"
        self.locks = True
        self.target = {"path": str(self.lake)}
        self.tap = {"source_url": "delta:x"}
        bench.write("target-spark-delta", TARGET)

    def pipeline(self):
        folder = self.bench.folder
        return {
            "tap": Plugin(str(folder / "tap-spark-source"), self.tap),
            "target": Plugin(str(folder / "target-spark-delta"), self.target),
            "transport": "records",
            "locks": self.locks,
        }

    def fail(self, *, source=None, sends=None, **options):
        """Run and fail; returns the run's id."""
        tell = SOURCE.format(source) if source else ""
        if sends:
            tell += f'say(type="STATE", value={sends!r})\nawait_note("committed")\n'
        self.bench.write("tap-spark-source", TAP + tell + "sys.exit(3)")
        self.bench.fail(ChildError, RunOptions(**options), **self.pipeline())
        return self.bench.note("run-id")

    @property
    def assigned(self):
        return json.loads(self.bench.note("run-file"))

    def run(self, *, sends=None, **options):
        """Run and succeed; returns the state that the tap was given."""
        said = f'say(type="STATE", value={sends!r})\n' if sends else ""
        schema = 'say(type="SCHEMA", stream="events", schema={}, key_properties=[])\n'
        self.bench.write("tap-spark-source", TAP + schema + said)
        changes = options.pop("changes", {})
        self.bench.run(RunOptions(**options), **{**self.pipeline(), **changes})
        return json.loads(self.bench.note("tap-state"))

    def commit(self, run_id, state=REACHED, *, table="events", **said):
        """Append a row in a commit like those of target-spark-delta."""
        told = {"pipeline": "p", "run_id": run_id, "stream": table, "rows": 1, "appends": True}
        text = json.dumps({**told, "state": state, **said})
        properties = CommitProperties(custom_metadata={"userMetadata": text})
        rows = pa.table({"id": [1]})
        path = str(self.lake / table)
        write_deltalake(path, rows, mode="append", commit_properties=properties)
