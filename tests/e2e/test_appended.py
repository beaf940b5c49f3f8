"""Appended streams that nothing tells apart, after a run that failed behind its commits."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from deltalake import DeltaTable

from tests.support.commands import WARM, command, run

# Loads as the real one does, but its last words are lost.
FAILS_AT_LAST = """#!/bin/sh
{target} "$@" > /dev/null
exit 3
"""


# Loads as the real one does, STATE included, and fails then.
FAILS_AFTER = """#!/bin/sh
{target} "$@"
exit 3
"""


# Loads as the real one does, but gets the end of its input late.
HOLDS = """#!/bin/sh
case "$*" in *--about*) exec {target} "$@" ;; esac
{{
    while read -r line; do
        printf '%s\n' "$line"
        case "$line" in *'"RECORD"'*) break ;; esac
    done
    while [ ! -e {folder}/go ]; do sleep 0.1; done
    cat
}} | {target} "$@"
"""
# Begins once the other has committed. The runner asks a command first what it is.
WAITS = """#!/bin/sh
case "$*" in *--about*) exec {target} "$@" ;; esac
touch {folder}/go
until [ -e {folder}/lake/events/_delta_log/00000000000000000002.json ]; do sleep 0.1; done
exec {target} "$@"
"""


class Shop:
    """A pipeline that loads new files into a table without a key."""

    def __init__(self, folder):
        self.folder = folder
        self.files = folder / "shop" / "events"
        self.files.mkdir(parents=True)

    def put(self, name, *ids):
        rows = "".join(f"{number},x\n" for number in ids)
        (self.files / name).write_text(f"id,name\n{rows}")

    def run(self, *options, fails=None, **changes):
        done = run(*self.command(fails, **changes), *options)
        assert done.returncode == (3 if fails else 0), done.stderr
        return done

    def command(self, fails=None, *, transport="auto", source=None, **target):
        tap = {
            "source_url": f"csv:{source or self.files.parent}",
            "stream_options": {"events": {"new_files": True}},
            **WARM,
        }
        document = {
            "name": "shop",
            "source": {"tap": command("tap-spark-source"), "config": tap},
            "destination": {
                "target": self.target(fails),
                "config": {"path": str(self.folder / "lake"), **WARM, **target},
            },
            "transport": transport,
        }
        path = self.folder / "shop.yml"
        path.write_text(json.dumps(document))
        return command("singer-spark"), "run", path

    def refuse(self, *options, **changes):
        with pytest.raises(AssertionError) as raised:
            self.run(*options, **changes)
        return str(raised.value)

    def target(self, fails):
        real = command("target-spark-delta")
        if not fails:
            return real
        path = self.folder / "fails" / "target-spark-delta"
        path.parent.mkdir(exist_ok=True)
        path.write_text(fails.format(target=real, folder=self.folder))
        path.chmod(0o755)
        return str(path)

    @property
    def ids(self):
        return self.ids_of("events")

    def ids_of(self, name):
        table = DeltaTable(self.folder / "lake" / name).to_pyarrow_table()
        return sorted(table["id"].to_pylist())


@pytest.fixture
def shop(tmp_path):
    shop = Shop(tmp_path)
    shop.put("1.csv", 1, 2)
    return shop


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["auto", "records"])
def test_new_files_of_a_failed_run_are_not_appended_twice(shop, transport):
    options = {"transport": transport, "load_method": "append-only"}
    shop.run(fails=FAILS_AT_LAST, **options)
    assert shop.ids == [1, 2]
    shop.put("2.csv", 3)
    second = shop.run(**options)
    assert "events: begins after the rows that run" in second.stdout
    assert shop.ids == [1, 2, 3]


@pytest.mark.slow
def test_what_took_the_place_of_all_rows_is_not_appended_again(shop):
    shop.run()
    shop.put("2.csv", 3)
    shop.run("--full", fails=FAILS_AT_LAST)
    assert shop.ids == [1, 2, 3]
    shop.put("3.csv", 4)
    shop.run()
    assert shop.ids == [1, 2, 3, 4]


@pytest.mark.slow
def test_append_only_goes_on_with_a_full_run_that_failed(shop):
    options = {"load_method": "append-only"}
    shop.run(**options)
    shop.put("2.csv", 3)
    shop.run("--full", fails=FAILS_AT_LAST, **options)
    assert shop.ids == [1, 1, 2, 2, 3]
    shop.put("3.csv", 4)
    assert "singer-spark run shop --resume" in shop.refuse(**options)
    shop.run("--resume", **options)
    assert shop.ids == [1, 1, 2, 2, 3, 4]


@pytest.mark.slow
def test_two_tables_of_one_stream_go_on_together(shop):
    maps = {"events": {}, "copies": {"__source__": "events"}}
    options = {"load_method": "append-only", "stream_maps": maps}
    shop.run(fails=FAILS_AT_LAST, **options)
    shop.put("2.csv", 3)
    shop.run(**options)
    assert shop.ids == shop.ids_of("copies") == [1, 2, 3]
    shop.put("3.csv", 4)
    shop.run(fails=FAILS_AT_LAST, **options)
    shutil.rmtree(shop.folder / "lake" / "copies")
    assert "singer-spark run shop --refresh events" in shop.refuse(**options)
    shutil.rmtree(shop.folder / "lake" / "events")
    shop.run("--refresh", "events", **options)
    assert shop.ids == shop.ids_of("copies") == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_first_run_that_failed_is_resumed_with_its_own_table_and_source_alone(shop):
    shop.run(fails=FAILS_AFTER)
    other = shop.folder / "other"
    shutil.copytree(shop.files.parent, other)
    said = shop.refuse("--resume", source=other)
    assert "start without --resume" in said
    assert "the state belongs to" in said
    shutil.rmtree(shop.folder / "lake" / "events")
    said = shop.refuse("--resume")
    assert "there is no table, so the state is ahead" in said
    shop.run()
    assert shop.ids == [1, 2]


def family(pid):
    """List a process and all that it has started, each with its command."""
    listed = subprocess.run(["pgrep", "-aP", str(pid)], capture_output=True, text=True, check=False)
    found = [line.partition(" ") for line in listed.stdout.splitlines()]
    more = {one: name for child, _, _ in found for one, name in family(int(child)).items()}
    return {int(child): name for child, _, name in found} | more


def wait_until(condition):
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
def test_what_a_paused_run_commits_when_it_wakes_up_is_not_appended_again(shop, tmp_path):
    shop.run()
    shop.put("2.csv", 3)
    spool = tmp_path / "spool"
    spool.mkdir()
    options = {"transport": "records", "temp_dir": str(spool), "batch_wait_seconds": 1}
    paused = subprocess.Popen(shop.command(HOLDS, **options))
    try:
        wait_until(lambda: [*spool.rglob("*.jsonl")])
        wait_until(
            lambda: not any("tap-spark-source" in one for one in family(paused.pid).values())
        )
        os.kill(paused.pid, signal.SIGSTOP)
        ended = run(command("singer-spark"), "unlock", tmp_path / "shop.yml", "--yes")
        assert ended.returncode == 0, ended.stderr
        follows = run(*shop.command(WAITS, transport="records"))
        assert (follows.returncode, shop.ids) == (75, [1, 2, 3]), follows.stderr
        assert "has committed rows since this run began" in follows.stderr
        shop.run()
        assert shop.ids == [1, 2, 3]
    finally:
        for pid in (paused.pid, *family(paused.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        paused.wait()
