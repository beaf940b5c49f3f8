"""Sequences of runs through the real commands: after exit code 0 the tables are what the source is.

One first load is made; each test begins from a copy of what it left, at the same place.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import WARM, command, run, write_json
from tests.support.singer import Loaded

SOURCE = {
    # Neither a key nor a replication key.
    "visits": [{"page": "a", "n": 1}, {"page": "a", "n": 1}, {"page": "b", "n": 2}],
    # A replication key alone; two equal rows lie at the bookmark.
    "clicks": [{"at": 1, "on": "x"}, {"at": 2, "on": "y"}, {"at": 2, "on": "y"}],
    # Both.
    "orders": [{"id": n, "region": "eu", "at": n, "sum": n * 10} for n in range(1, 6)],
}
TAP = {
    "stream_options": {
        "clicks": {"replication_key": "at"},
        "orders": {"replication_key": "at", "key_properties": ["id"]},
    }
}


class Shop:
    """A pipeline from JSON files into Delta tables, in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake = Loaded(root / "lake")

    def put(self, stream: str, rows: list[dict[str, Any]]) -> None:
        folder = self.root / "source" / stream
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def write_pipeline(self, *, tap: Any = None, target: Any = None) -> None:
        tap = {"source_url": f"json:{self.root / 'source'}", **TAP, **WARM, **(tap or {})}
        target = {"path": str(self.root / "lake"), **WARM, **(target or {})}
        document = {
            "name": "shop",
            "source": {"tap": "tap-spark-source", "config": tap},
            "destination": {"target": "target-spark-delta", "config": target},
            "state": str(self.root / "state"),
        }
        write_json(self.root / "shop.yml", document)

    def singer_spark(self, *arguments: str):
        return run(command("singer-spark"), *arguments, cwd=self.root)

    def run(self, *options: str) -> None:
        done = self.singer_spark("run", "shop.yml", *options)
        assert done.returncode == 0, done.stderr

    def refuse(self, code: int, *options: str) -> str:
        """Run and expect an exit code; return what the run, or a side of it, said last."""
        done = self.singer_spark("run", "shop.yml", *options)
        assert done.returncode == code, done.stderr
        said = [line for line in done.stderr.splitlines() if "Error: " in line]
        return said[0]

    def rows(self, stream: str) -> Counter[str]:
        """Count the rows of a table; columns that the target adds aside."""
        found = self.lake.rows(stream, order="at")
        return Counter(
            json.dumps({k: v for k, v in row.items() if not k.startswith("_sdc_")}, sort_keys=True)
            for row in found
        )

    def versions(self, *streams: str) -> dict[str, int]:
        return {stream: self.lake.version(stream) for stream in streams}

    def recover(self) -> Any:
        """Lose the state, build it again from the tables, and return its bookmarks."""
        (self.root / "state" / "shop" / "state.json").write_text("{}")
        done = self.singer_spark("state", "recover", "shop.yml", "--yes")
        assert done.returncode == 0, done.stderr
        return self.state["bookmarks"]

    @property
    def state(self) -> Any:
        return json.loads((self.root / "state" / "shop" / "state.json").read_text())


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A shop after its first load, and the copy that others begin from."""
    root = tmp_path_factory.mktemp("shop") / "work"
    shop = Shop(root)
    for stream, rows in SOURCE.items():
        shop.put(stream, rows)
    shop.write_pipeline()
    shop.run()
    shutil.copytree(root, root.with_name("saved"))
    return shop


@pytest.fixture
def shop(loaded):
    """The shop as the first load left it."""
    shutil.rmtree(loaded.root)
    shutil.copytree(loaded.root.with_name("saved"), loaded.root)
    return loaded


def is_whole(shop: Shop) -> bool:
    return all(shop.rows(stream) == counted(rows) for stream, rows in SOURCE.items())


def test_a_second_run_doubles_nothing_and_the_state_can_be_recovered(shop):
    assert is_whole(shop)
    before, state = shop.versions("clicks", "orders"), shop.state
    shop.run()
    assert is_whole(shop)
    assert shop.versions("clicks", "orders") == before
    assert shop.state["bookmarks"] == state["bookmarks"]
    assert shop.lake.version("visits") > 0, "replaced, as it cannot be told apart"

    recovered = shop.recover()
    for stream in ("clicks", "orders"):
        value = recovered[stream]["replication_key_value"]
        assert value == state["bookmarks"][stream]["replication_key_value"]


def test_a_table_that_was_dropped_is_not_up_to_date(shop):
    shutil.rmtree(shop.root / "lake" / "orders")
    said = shop.refuse(74)
    assert "orders" in said
    assert "--refresh orders" in said
    assert not (shop.root / "lake" / "orders" / "_delta_log").exists()
    shop.run("--refresh", "orders")
    assert is_whole(shop)


def test_a_state_is_not_used_for_another_source(shop):
    shutil.copytree(shop.root / "source", shop.root / "other")
    shop.write_pipeline(tap={"source_url": f"json:{shop.root / 'other'}"})
    assert "singer-spark state accept shop" in shop.refuse(74)
    assert is_whole(shop)


def test_a_full_run_retires_what_is_gone_at_the_source(shop):
    shop.put("orders", SOURCE["orders"][1:])
    shop.run("--full")
    marked = {row["id"]: row["_sdc_deleted_at"] for row in shop.lake.rows("orders")}
    assert list(marked) == [1, 2, 3, 4, 5]
    assert [number for number, gone in marked.items() if gone] == [1]
    stored = shop.state["bookmarks"]["orders"]
    recovered = shop.recover()["orders"]
    assert recovered["replication_key_value"] == stored["replication_key_value"]
    assert shop.rows("clicks") == counted(SOURCE["clicks"])
    assert shop.rows("visits") == counted(SOURCE["visits"])


def test_another_key_is_refused_before_rows_are_doubled(shop):
    key = {"replication_key": "at", "key_properties": ["id", "region"]}
    shop.write_pipeline(tap={"stream_options": {**TAP["stream_options"], "orders": key}})
    shop.put("orders", [*SOURCE["orders"], {"id": 6, "region": "eu", "at": 6, "sum": 60}])
    said = shop.refuse(65)
    assert "--refresh orders" in said
    assert shop.rows("orders") == counted(SOURCE["orders"])


def test_a_range_never_replaces_a_whole_table(shop):
    replaced = {"stream_options": {"orders": {"load_method": "overwrite"}}}
    shop.write_pipeline(tap={"tables": ["orders"]}, target=replaced)
    said = shop.refuse(78, "--from", "1", "--to", "2")
    assert "overwrite" in said
    assert shop.rows("orders") == counted(SOURCE["orders"])


@pytest.mark.slow
def test_a_move_that_is_meant_can_be_accepted(shop):
    """What was moved goes on from its state; rows come twice nowhere."""
    (shop.root / "lake").rename(shop.root / "lake2")
    (shop.root / "source").rename(shop.root / "source2")
    place = str(shop.root / "lake2")
    shop.write_pipeline(tap={"source_url": f"json:{shop.root / 'source2'}"}, target={"path": place})
    shop.lake = Loaded(shop.root / "lake2")
    shop.refuse(74)
    done = shop.singer_spark("state", "accept", "shop.yml")
    assert done.returncode == 0, done.stderr
    more = {"id": 6, "region": "eu", "at": 6, "sum": 60}
    rows = [*SOURCE["orders"], more]
    (shop.root / "source2" / "orders" / "rows.json").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    try:
        shop.run()
        assert shop.rows("orders") == counted(rows)
        assert shop.rows("clicks") == counted(SOURCE["clicks"])
    finally:
        shop.lake = Loaded(shop.root / "lake")


def pipe(shop: Shop, state: str | None) -> str:
    """Run tap | target, as a shell does; return the last STATE."""
    write_json(
        shop.root / "tap.json", {"source_url": f"json:{shop.root / 'source'}", **TAP, **WARM}
    )
    write_json(shop.root / "target.json", {"path": str(shop.root / "lake"), **WARM})
    options = ""
    if state:
        (shop.root / "state.json").write_text(state)
        options = "--state state.json"
    script = (
        f"set -o pipefail; {command('tap-spark-source')} --config tap.json {options} "
        f"| {command('target-spark-delta')} --config target.json"
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=shop.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_a_plain_pipe_doubles_nothing_either(tmp_path):
    shop = Shop(tmp_path)
    for stream, rows in SOURCE.items():
        shop.put(stream, rows)
    first = pipe(shop, None)
    assert is_whole(shop)
    pipe(shop, first)
    assert is_whole(shop)
    pipe(shop, None)
    assert is_whole(shop)
