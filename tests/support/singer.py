"""Singer messages for tests, a target run in this process, and tables read by another engine."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from target_spark_delta.commits import closing, cutting, opening, queue
from target_spark_delta.target import TargetSparkDelta

DATA = Path(__file__).parents[1] / "data"


def schema(stream: str, properties: dict[str, Any], keys: list[str] | None = None, **more: Any):
    message = {"type": "SCHEMA", "stream": stream, "schema": {"properties": properties, **more}}
    return message if keys is None else {**message, "key_properties": keys}


def read(message: dict[str, Any], rows: str = "all", *, by: str | None = None, **limits: Any):
    """Say in a SCHEMA what was read of its table; `start` and `end` are those of a range."""
    names = {"start": "from", "end": "to"}
    told = {"rows": rows, **{names.get(name, name): value for name, value in limits.items()}}
    more = {"bookmark_properties": [by]} if by else {}
    return {**message, **more, "singer_spark": {"read": told}}


def record(stream: str, values: dict[str, Any], **more: Any):
    return {"type": "RECORD", "stream": stream, "record": values, **more}


def batch(stream: str, *files: str, kind: str = "jsonl", compression: str = "none", **more: Any):
    encoding = {"format": kind, "compression": compression}
    return {"type": "BATCH", "stream": stream, "encoding": encoding, "manifest": files, **more}


def state(value: Any):
    return {"type": "STATE", "value": value}


def activate(stream: str, version: int):
    return {"type": "ACTIVATE_VERSION", "stream": stream, "version": version}


def lines(messages) -> str:
    """Write messages as lines; a text stands for itself."""
    return "".join(m if isinstance(m, str) else json.dumps(m) + "\n" for m in messages)


def data(name: str) -> str:
    """Return the messages of a file."""
    return (DATA / f"{name}.singer").read_text(encoding="utf-8")


def runs(name: str) -> list[str]:
    """Return the messages of a file whose empty lines each end a run."""
    return [f"{part.rstrip()}\n" for part in data(name).split("\n\n")]


def stand_in(monkeypatch, **jobs: Any) -> None:
    """Give a target other jobs than Spark's, by their names, and start no Spark."""
    for name, job in jobs.items():
        (module,) = [one for one in (queue, cutting, closing, opening) if hasattr(one, name)]
        monkeypatch.setattr(module, name, job)
    monkeypatch.setattr(TargetSparkDelta, "_engine", lambda _: None)
    monkeypatch.setattr(TargetSparkDelta, "_isolate", lambda *_: object())


class Loaded:
    """A target run into a folder of tables."""

    def __init__(self, root: Path, **config: Any) -> None:
        self.root = root
        self.config = {"path": str(root), **config}
        self.states: list[Any] = []

    def load(self, *messages: Any, **config: Any) -> list[Any]:
        """Run the target over the messages; return the STATEs that it released."""
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        target = TargetSparkDelta(config={**self.config, **config})
        try:
            with redirect_stdout(out):
                target.listen(io.StringIO(lines(messages)))
        finally:
            out.seek(0)
            self.states = [json.loads(line) for line in out]
        return self.states

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(str(self.root / name))

    def rows(self, name: str, *, order: str = "id") -> list[dict[str, Any]]:
        """Read a table with delta-rs."""
        result = QueryBuilder().register("t", self.table(name)).execute("select * from t")
        rows = pa.table(result.read_all()).to_pylist()
        return sorted(rows, key=lambda row: (row.get(order) is not None, row.get(order)))

    def commits(self, name: str) -> list[dict[str, Any]]:
        """Return what the commits that wrote rows say of themselves, oldest first."""
        history = self.table(name).history()[::-1]
        said = [json.loads(entry["userMetadata"]) for entry in history]
        return [one for one in said if one["rows"] is not None]

    def version(self, name: str) -> int:
        return self.table(name).version()
