"""Late rows, by the real tap and the real target: what was read before is not late once more."""

from __future__ import annotations

import pytest

from singer_spark.health.lag import suggest_lookback
from singer_spark.report import REPORT_FILE
from singer_spark.runner.streams import Reports, Tally
from tests.support.singer import Loaded
from tests.support.tap import run_tap

KEYS = {
    "at": "timestamptz '2024-01-01 00:00:00+02' + n * interval '1 minute'",
    "ts": "timestamp '2024-01-01 00:00:00' + n * interval '1 minute'",
    "day": "date '2024-01-01' + n",
    "version": "n",
}
SCHEMA = ""  # each test makes its own table
LOOKBACK = {"at": 3600, "ts": 3600, "day": 60 * 86_400, "version": 60}


class Pipeline:
    """A tap with a lookback and a target, that go on run after run."""

    def __init__(self, database, lake, monkeypatch, key="at", lookback=None, **target):
        self.database, self.lake, self.patch, self.target = database, lake, monkeypatch, target
        self.lookback = LOOKBACK.get(key, 3600) if lookback is None else lookback
        self.options = {"replication_key": key, "lookback": self.lookback}
        self.state, self.runs = None, 0

    def run(self):
        self.runs += 1
        report = self.lake.root.parent / f"report-{self.runs}"
        self.patch.setenv(REPORT_FILE, str(report))
        output = run_tap(self.database.reads("late", **self.options), state=self.state)
        self.lake.load(output.text, **self.target)
        self.state = output.state
        facts = Reports(report)
        facts.refresh()
        return facts.by_stream(Tally())["public-late"]


@pytest.fixture
def source(database):
    database.run("drop table if exists late")
    named = ", ".join(f"{sql} as {name}" for name, sql in KEYS.items())
    database.run(
        f"create table late as select n as id, 'a' as note, {named} from generate_series(1, 100) n;"
        "alter table late add primary key (id)"
    )
    return database


def insert(source, first: int, last: int, *, id_after: int) -> None:
    values = ", ".join(KEYS.values())
    rows = f"generate_series({first}, {last}) n"
    source.run(f"insert into late select {id_after} + n, 'more', {values} from {rows}")


SLOW = [pytest.param(key, marks=pytest.mark.slow) for key in ("at", "ts", "day")]


@pytest.mark.parametrize("key", ["version", *SLOW])
def test_only_rows_that_the_table_did_not_have_are_late(source, tmp_path, monkeypatch, key):
    pipeline = Pipeline(source, Loaded(tmp_path / "lake"), monkeypatch, key)
    assert pipeline.run().late is None
    known = pipeline.run()
    assert (known.loaded, known.late, known.late_seconds) == (61, 0, None)

    insert(source, 70, 89, id_after=1000)
    source.run("update late set note = 'changed' where id = 80")
    insert(source, 101, 101, id_after=2000)
    facts = pipeline.run()
    assert (facts.inserted, facts.updated, facts.late) == (21, 1, 21)
    seconds = {"at": 1800.0, "ts": 1800.0, "day": 30 * 86_400.0, "version": None}
    assert facts.late_seconds == seconds[key]
    assert suggest_lookback(facts.late_seconds or 0, pipeline.lookback) is None

    after = pipeline.run()
    assert (after.late, after.late_seconds) == (0, None)


def test_rows_near_the_edge_of_the_lookback_ask_for_a_wider_one(source, tmp_path, monkeypatch):
    pipeline = Pipeline(source, Loaded(tmp_path / "lake"), monkeypatch)
    pipeline.run()
    insert(source, 50, 50, id_after=1000)
    facts = pipeline.run()
    assert (facts.late, facts.late_seconds) == (1, 3000.0)
    assert suggest_lookback(facts.late_seconds, pipeline.lookback) == 7200


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("at", {"skip_unchanged": False}),
        ("at", {"load_method": "append-only"}),
        ("coalesce(at, ts)", {}),
    ],
)
def test_where_nobody_can_tell_late_rows_from_known_ones_none_are_told(
    source, tmp_path, monkeypatch, key, target
):
    pipeline = Pipeline(source, Loaded(tmp_path / "lake"), monkeypatch, key, **target)
    pipeline.run()
    facts = pipeline.run()
    assert facts.loaded == 61
    assert facts.late is None
