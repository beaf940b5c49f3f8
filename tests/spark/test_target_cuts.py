"""However a stream is cut into batches, its table is the same, and the one that the rules say."""

from __future__ import annotations

import random
import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.cases import in_order, plain
from tests.support.model import DELETED_AT, partitioned, upserted
from tests.support.singer import Loaded, record, schema, state

STRING, NUMBER = {"type": ["string", "null"]}, {"type": ["integer", "null"]}
TIME = {**STRING, "format": "date-time"}
COLUMNS = {"id": NUMBER, "name": STRING, "qty": NUMBER, "at": NUMBER, "part": STRING}
STREAMS = {
    "whole": {},
    "dated": {"dedupe_by": "at"},
    "partial": {"partial_records": True},
    "partial_dated": {"partial_records": True, "dedupe_by": "at"},
    "inserted": {"load_method": "delete-insert"},
    "parts": {"load_method": "partition-overwrite", "partition_by": ["part"]},
    "staged": {"load_method": "overwrite", "dedupe_by": "at"},
    "added": {"load_method": "append-only"},
    "history": {"load_method": "scd2", "dedupe_by": "at"},
}
KEYS = range(1, 9)


class Source:
    """A source whose rows change at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.clock = dict.fromkeys(KEYS, 0)

    def change(self, *, parts: str, deletions: bool = True) -> dict:
        chance = self.random
        values = {
            "name": chance.choice(["a", "b", "c", None]),
            "qty": chance.choice([0, 1, 2, None]),
            "at": chance.choice([0, 1, 2, 3, 4, 5, None]),
            "part": chance.choice(parts),
        }
        whole = {"id": chance.choice(KEYS), **values}
        carried = {name: whole[name] for name in values if chance.random() < 0.5}
        deleted_at = f"2024-05-0{chance.randint(1, 9)}T00:00:00+00:00"
        is_deletion = deletions and chance.random() < 0.3
        return {
            "whole": whole,
            "carried": {"id": whole["id"], **carried},
            "mark": {DELETED_AT: deleted_at} if is_deletion else {},
        }

    def records(self, stream: str, changes: list[dict]) -> list[dict]:
        if stream == "history":
            return [self.version(change) for change in changes]
        partial = STREAMS[stream].get("partial_records")
        return [
            change["carried"] | change["mark"] if partial or change["mark"] else change["whole"]
            for change in changes
        ]

    def version(self, change: dict) -> dict:
        """Date a change; of rows with odd keys, which are never deleted, in any order."""
        key, mark = change["whole"]["id"], change["mark"]
        if key % 2:
            return change["whole"] | {
                "at": f"2024-01-0{1 + (change['whole']['at'] or 0)}T00:00:00Z"
            }
        self.clock[key] += 0 if mark else 1
        at = f"2024-01-01T{self.clock[key] // 60:02}:{self.clock[key] % 60:02}:00Z"
        whole = change["whole"] | {"at": at}
        # A deletion repeats the time of its version, or tells none.
        carried = {name: whole[name] for name in change["carried"]}
        return carried | {DELETED_AT: at.replace("00Z", "30Z")} if mark else whole


def messages(stream: str, records: list[dict]) -> list[dict]:
    columns = COLUMNS | {"at": TIME} if stream == "history" else COLUMNS
    keys = [] if stream == "added" else ["id"]
    return [schema(stream, columns, keys), *(record(stream, one) for one in records)]


def expected(
    stream: str, first: list[dict], second: list[dict], *, hard: bool
) -> list[dict] | None:
    names, options = list(COLUMNS), STREAMS[stream]
    if stream == "parts":
        before = partitioned([], first, names, hard=hard, by="part")
        return partitioned(before, second, names, hard=hard, by="part")
    if options.get("load_method", "delete-insert") != "delete-insert":
        return None
    rules = {
        "partial": options.get("partial_records", False),
        "dedupe_by": options.get("dedupe_by"),
    }
    before = upserted([], first, names, hard=hard, **rules)
    return upserted(before, second, names, hard=hard, **rules)


def found(lake: Loaded, stream: str) -> list[dict]:
    rows = plain(lake.rows(stream))
    return rows if stream == "history" else [{DELETED_AT: None, **row} for row in rows]


def of_key(rows: list[dict], key: int) -> list[dict]:
    return in_order([row for row in rows if row["id"] == key])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32), hard=st.booleans())
def test_a_table_is_the_same_however_its_stream_is_cut(tmp_path_factory, seed, hard):
    source, root = Source(seed), tmp_path_factory.mktemp("cuts")
    first = [source.change(parts="ABCDEF", deletions=False) for _ in range(12)]
    second = [source.change(parts="ABCD") for _ in range(30)]
    told = {name: [source.records(name, part) for part in (first, second)] for name in STREAMS}
    config = {"hard_delete": hard, "stream_options": STREAMS}
    whole, cut = Loaded(root / "whole", **config), Loaded(root / "cut", **config)
    runs = [
        [m for name in STREAMS for m in messages(name, told[name][run])] + [state({"run": run})]
        for run in (0, 1)
    ]
    whole.load(*runs[0])
    shutil.copytree(whole.root, cut.root)
    whole.load(*runs[1])
    cut.load(*runs[1], batch_size_rows=source.random.randint(9, 14))
    for name in STREAMS:
        one, other = found(whole, name), found(cut, name)
        model = expected(name, *told[name], hard=hard)
        for key in KEYS:
            history = [[r for r in part if r["id"] == key] for part in told[name]]
            assert of_key(other, key) == of_key(one, key), (name, history)
            assert model is None or of_key(one, key) == of_key(model, key), (name, history)
