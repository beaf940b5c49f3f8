"""Nothing new, nothing moved: a run that finds the rows at its bookmark as they were sent."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from singer_spark.assignment import RUN_FILE
from tests.support.tap import run_tap

STREAM = "main-orders"
MADE = """
create table orders (id integer primary key, at integer, code text);
insert into orders values (1, 10, 'a'), (2, 20, null), (3, 20, 'c'), (4, null, 'd');
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    told = tmp_path / "run.json"
    told.write_text(json.dumps({"loads": {"*": {}}}))
    monkeypatch.setenv(RUN_FILE, str(told))
    return Shop(tmp_path / "shop.db")


class Shop:
    def __init__(self, path) -> None:
        self.config = {
            "source_url": f"jdbc:sqlite:{path}",
            "tables": ["main.orders"],
            "stream_options": {"*": {"replication_key": "at"}},
        }
        self._path = path
        self.run(MADE)

    def run(self, statements: str) -> None:
        with closing(sqlite3.connect(self._path)) as connection:
            connection.executescript(statements)

    def read(self, state=None, **more):
        return run_tap({**self.config, **more}, state=state)


def ids(output) -> list[int]:
    return sorted(row["id"] for row in output.records())


def test_only_what_has_changed_makes_a_run_send_rows(shop):
    first = shop.read()
    assert first.bookmark(STREAM)["at_bookmark"]["rows"] == 3
    second = shop.read(first.state)
    assert set(second.kinds) == {"SCHEMA", "STATE"}
    assert second.kinds[-1] == "STATE"
    assert second.state == first.state

    shop.run("update orders set code = 'b' where id = 2")
    third = shop.read(second.state)
    assert ids(third) == [2, 3, 4]
    assert third.bookmark(STREAM)["at_bookmark"] != first.bookmark(STREAM)["at_bookmark"]
    assert shop.read(third.state).records() == []

    shop.run("insert into orders values (5, 30, 'e')")
    fourth = shop.read(third.state)
    assert ids(fourth) == [2, 3, 4, 5]
    assert fourth.bookmark(STREAM)["at_bookmark"]["rows"] == 2
    assert shop.read(fourth.state).records() == []


def test_files_and_lines_give_one_digest(shop, tmp_path):
    batch = {
        "encoding": {"format": "parquet", "compression": "none"},
        "storage": {"root": f"file://{tmp_path}/batches"},
    }
    lines, files = shop.read(), shop.read(batch_config=batch)
    assert files.of("BATCH")
    assert files.bookmark(STREAM) == lines.bookmark(STREAM)


def test_slices_add_up_and_another_selection_is_another_digest(shop):
    first = shop.read(slice_rows=1)
    assert first.bookmark(STREAM) == shop.read().bookmark(STREAM)
    options = {"*": {"replication_key": "at", "where": "id > 0"}}
    assert ids(shop.read(first.state, stream_options=options)) == [2, 3, 4]


def test_a_pipe_whose_target_is_unknown_sends_the_rows_again(shop, monkeypatch):
    state = shop.read().state
    monkeypatch.delenv(RUN_FILE)
    assert ids(shop.read(state)) == [2, 3, 4]
