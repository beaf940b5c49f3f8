"""Appended streams that nothing tells apart, after a run that failed behind its commits."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from tests.support.commands import QUICK, command, run

# Loads as the real one does, but its last words are lost.
FAILS_AT_LAST = """#!/bin/sh
{target} "$@" > /dev/null
exit 3
"""


def ids(folder):
    return sorted(DeltaTable(folder / "lake" / "events").to_pyarrow_table()["id"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["auto", "records"])
def test_new_files_of_a_failed_run_are_not_appended_twice(tmp_path, transport):
    source = tmp_path / "shop" / "events"
    source.mkdir(parents=True)
    (source / "1.csv").write_text("id,name\n1,a\n2,b\n")
    fails = tmp_path / "fails" / "target-spark-delta"
    fails.parent.mkdir()
    fails.write_text(FAILS_AT_LAST.format(target=command("target-spark-delta")))
    fails.chmod(0o755)
    options = {"events": {"new_files": True}}
    tap = {"source_url": f"csv:{tmp_path}/shop", "stream_options": options, **QUICK}
    path = tmp_path / "shop.yml"

    def load(target):
        destination = {"path": str(tmp_path / "lake"), "load_method": "append-only", **QUICK}
        document = {
            "name": "shop",
            "source": {"tap": command("tap-spark-source"), "config": tap},
            "destination": {"target": str(target), "config": destination},
            "transport": transport,
        }
        path.write_text(json.dumps(document))
        return run(command("singer-spark"), "run", path)

    assert load(fails).returncode == 3
    assert ids(tmp_path) == [1, 2]
    (source / "2.csv").write_text("id,name\n3,c\n")
    second = load(command("target-spark-delta"))
    assert second.returncode == 0, second.stderr
    assert "events: begins after the rows that run" in second.stdout
    assert ids(tmp_path) == [1, 2, 3]
