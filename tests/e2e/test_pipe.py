"""Tap into target through a shell's pipe, resumed from the last STATE, on a real PostgreSQL."""

from __future__ import annotations

import json
import shlex
import struct
import subprocess

import psycopg
import pytest

from tests.support.commands import command, write_json
from tests.support.singer import Loaded
from tests.support.tap import Postgres

TABLE = """
create table orders (
  id bigint primary key, small smallint, whole integer, big numeric(38,0), price numeric(20,5),
  share double precision, ratio real, ok boolean, name text, code varchar(10), token uuid,
  raw bytea, day date, local timestamp, updated_at timestamptz not null, tags text[]
);
create table untouched (id integer primary key, note text);
insert into untouched values (1, 'full table');
"""
ROWS = """
insert into orders
select n, n % 100, n, repeat('9', 38)::numeric - n, n + 0.00001, n / 7.0, 0.1, n % 2 = 0,
  case when n % 10 = 0 then null else 'name "' || n || E'"\\n\\u00e9' end, 'c' || n,
  ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid,
  decode(lpad(to_hex(n), 8, '0'), 'hex'),
  date '0001-01-01' + n, timestamp '1899-12-31 23:59:59.999999' + n * interval '1 microsecond',
  timestamptz '2024-01-01 00:00:00.000001+00' + n * interval '1001 microseconds',
  array['a', null, n::text]
from generate_series({first}, {last}) n
"""
TALKATIVE = {"spark_conf": {"spark.driver.extraJavaOptions": "-Xlog:gc:stdout"}}
CHANGES = """
update orders set name = 'changed', price = -0.00001, updated_at = '2024-06-01 00:00:00.000001+00'
  where id in (1, 500);
insert into orders (id, updated_at) values (2000, '2024-06-02 12:00:00.123456+02');
"""


@pytest.fixture(scope="module")
def postgres():
    server = Postgres()
    yield server
    server.stop()


def connect(server):
    return psycopg.connect(
        host="127.0.0.1", port=server.port, user=server.user, password=server.password
    )


def float32(value):
    """Return the double that a single-precision value stands for."""
    return struct.unpack("f", struct.pack("f", value))[0]


def source_rows(server):
    """Read the source with a client of its own."""
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("set time zone 'UTC'")
        cursor.execute("select * from orders order by id")
        names = [column.name for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    for row in rows:
        row["token"] = None if row["token"] is None else str(row["token"])
        row["ratio"] = None if row["ratio"] is None else float32(row["ratio"])
    return rows


def pipe(folder, *, state=None):
    """Run `tap | tee | target` in a shell, as the README has it."""
    options = f"--state {shlex.quote(str(state))}" if state else ""
    tap, target = command("tap-spark-source"), command("target-spark-delta")
    script = (
        f"set -o pipefail; {tap} --config tap.json --catalog catalog.json {options} "
        f"| tee messages.jsonl | {target} --config target.json > state.jsonl"
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    messages = [json.loads(line) for line in (folder / "messages.jsonl").open()]
    states = (folder / "state.jsonl").read_text().splitlines()
    return [m["record"] for m in messages if m["type"] == "RECORD"], states[-1]


def test_every_value_arrives_and_the_next_run_moves_only_what_changed(postgres, tmp_path):
    postgres.run(TABLE)
    postgres.run(ROWS.format(first=1, last=1000))
    tap = {
        **postgres.config,
        # A JVM that prints: every line of the tap's output must be a message all the same.
        **TALKATIVE,
        "tables": ["public.orders", "public.untouched"],
        "stream_options": {"public-orders": {"replication_key": "updated_at"}},
    }
    write_json(tmp_path / "tap.json", tap)
    lake = Loaded(tmp_path / "lake")
    write_json(tmp_path / "target.json", {**lake.config, **TALKATIVE})
    discovered = subprocess.run(
        [command("tap-spark-source"), "--config", tmp_path / "tap.json", "--discover"],
        capture_output=True,
        check=True,
    )
    catalog = json.loads(discovered.stdout)
    for entry in catalog["streams"]:
        chosen = entry["tap_stream_id"] == "public-orders"
        root = next(item for item in entry["metadata"] if item["breadcrumb"] == [])
        root["metadata"]["selected"] = chosen
    write_json(tmp_path / "catalog.json", catalog)

    moved, last = pipe(tmp_path)
    assert len(moved) == 1000
    assert lake.rows("public_orders") == source_rows(postgres)

    postgres.run(CHANGES)
    (tmp_path / "last.json").write_text(last)
    moved, last = pipe(tmp_path, state=tmp_path / "last.json")
    assert {record["id"] for record in moved} == {1, 500, 1000, 2000}, "and the one at the bookmark"
    assert lake.rows("public_orders") == source_rows(postgres)
    bookmark = json.loads(last)["bookmarks"]["public-orders"]
    assert bookmark["replication_key_value"] == "2024-06-02T10:00:00.123456+00:00"
