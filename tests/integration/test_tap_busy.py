"""A PostgreSQL that is written to all the time, and runs that end suddenly: nothing is missing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.commands import WARM, command, write_json
from tests.support.tap import Output, Postgres, run_tap

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SCHEMA = ""
LONGEST = 8.0  # seconds that a transaction stays open; a run takes fewer


def config(database: Postgres, table: str, **options) -> dict:
    sizes = {"slice_rows": 500, "num_partitions": 2}
    return database.reads(table, settings=sizes, **options)


def applied(target: dict, records: list[dict]) -> None:
    """Take over records by key; of two the newer wins, as with a target that merges in order."""
    target |= {record["id"]: (record["at"], record["v"]) for record in records}


def rows_of(database: Postgres, table: str) -> dict:
    """Read the source with a client of its own."""
    at = """to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""
    return {row[0]: row[1:] for row in database.rows(f"select id, {at}, v from {table}")}


class Writer(threading.Thread):
    """Inserts and updates in transactions that stay open for a while, stamped at their start."""

    def __init__(self, database: Postgres, number: int, done: threading.Event) -> None:
        super().__init__(daemon=True)
        self._database, self._done = database, done
        self._random = random.Random(number)  # noqa: S311
        self.transactions = 0

    def run(self) -> None:
        while not self._done.is_set():
            with self._database.connect() as connection:
                connection.execute(
                    "insert into busy select nextval('busy_id'), now(), 0 "
                    "from generate_series(1, 20)"
                )
                connection.execute(
                    "update busy set v = v + 1, at = now() where id in "
                    "(select id from busy order by random() limit 5 for update skip locked)"
                )
                time.sleep(self._random.uniform(0, LONGEST))
            self.transactions += 1


def test_after_the_writers_stop_one_more_run_has_everything(database):
    database.run(
        "create sequence busy_id; create table busy (id int primary key, at timestamptz not null, "
        "v int); create index on busy (at); "
        "insert into busy select nextval('busy_id'), now(), 0 from generate_series(1, 2000)"
    )
    done = threading.Event()
    writers = [Writer(database, number, done) for number in range(4)]
    for writer in writers:
        writer.start()
    settings = config(database, "busy", replication_key="at", lookback=LONGEST + 10)
    target, state, bookmark, late = {}, None, "", 0
    for run in range(40):
        if run >= 8 and late and min(writer.transactions for writer in writers) > 3:
            break
        output = run_tap(settings, state=state)
        new = [r for r in output.records() if target.get(r["id"]) != (r["at"], r["v"])]
        late += sum(record["at"] < bookmark for record in new)
        applied(target, output.records())
        state, bookmark = output.state, output.bookmark("public-busy")["replication_key_value"]
    done.set()
    for writer in writers:
        writer.join()
    applied(target, run_tap(settings, state=state).records())
    assert min(writer.transactions for writer in writers) > 3
    assert late, "the writers were too quick for rows to appear behind the bookmark"
    assert target == rows_of(database, "busy")


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_runs_that_end_anywhere_add_up_to_the_source(database, data):
    database.run(
        "drop table if exists random_rows; "
        "create table random_rows (id serial primary key, at timestamptz, v int)"
    )
    key = data.draw(st.sampled_from(["at", ["at", "id"], None]))
    target, state = {}, None
    for _ in range(data.draw(st.integers(1, 3))):
        _write(database, data)
        options = {"replication_key": key, "lookback": 0} if key else {}
        sizes = {"slice_rows": data.draw(st.integers(1, 9)), "num_partitions": 2}
        output = run_tap({**config(database, "random_rows", **options), **sizes}, state=state)
        applied(target, output.records())
        kept = data.draw(st.sampled_from(output.of("STATE")))
        state = kept["value"]
    # A full load that was interrupted has to end before the next one begins.
    for _ in range(2):
        output = run_tap(config(database, "random_rows", **options), state=state)
        applied(target, output.records())
        state = output.state
    assert target == rows_of(database, "random_rows")


def _write(database: Postgres, data) -> None:
    """Add rows, some alike and some without a key, and change some; always above what was."""
    steps = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=15))
    ats = ", ".join(f"({step})" for step in steps)
    database.run(
        "insert into random_rows (at, v) select case when s = 0 then null else "
        "clock_timestamp() + s * interval '1 microsecond' end, s "
        f"from (values {ats}) x(s); "
        "update random_rows set v = v + 100, at = clock_timestamp() where id % 7 = 1"
    )


@pytest.mark.parametrize("key", ["at", None])
def test_a_killed_tap_goes_on_where_it_stopped(database, tmp_path, key):
    table = f"killed_{key}".lower()
    database.run(
        f"create table {table} (id int primary key, at timestamptz not null, v int); "
        f"insert into {table} select n, now() + n / 9 * interval '1 second', n "
        "from generate_series(1, 20000) n"
    )
    options = {"replication_key": key} if key else {}
    settings = {**config(database, table, **options), **WARM}
    arguments = [command("tap-spark-source"), "--config", write_json(tmp_path / "c.json", settings)]
    lines = []
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        for line in process.stdout:
            lines.append(line)
            if sum(b'"STATE"' in line for line in lines) == 4 and b'"RECORD"' in line:
                process.send_signal(signal.SIGKILL)
                break
    first = Output(messages=[json.loads(line) for line in lines], text="")
    assert 1500 <= len(first.records()) < 5000
    second = run_tap(settings, state=first.state)
    assert len(second.records()) < 20000 - 1500
    target: dict = {}
    applied(target, first.records() + second.records())
    assert target == rows_of(database, table)
