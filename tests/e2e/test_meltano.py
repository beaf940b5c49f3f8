"""Meltano runs both plugins on the example, twice; the second time from its own state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.singer import Loaded

ROOT = Path(__file__).parents[2]
STATE_ID = "dev:tap-spark-source-to-target-spark-delta"
FEBRUARY = """\
id,customer_id,product,quantity,amount,is_paid,updated_at
3,2,Cup,4,29.00,true,2026-02-01T10:00:00.000001Z
6,3,Teapot,1,89.00,false,2026-02-02T11:00:00.000000Z
"""


@pytest.fixture
def project(tmp_path):
    """A copy of the project's files that Meltano works with."""
    shutil.copy(ROOT / "meltano.yml", tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def meltano(project, *arguments):
    own = {name: value for name, value in os.environ.items() if not name.startswith("MELTANO")}
    folder = Path(sys.executable).parent
    env = {
        **own,
        "PATH": f"{folder}:{own['PATH']}",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        [folder / "meltano", *arguments],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def bookmarks(project):
    return json.loads(meltano(project, "state", "get", STATE_ID))["singer_state"]["bookmarks"]


@pytest.mark.timeout(1200)  # five JVMs start one after another
def test_the_second_run_loads_what_changed_since_the_first(project):
    meltano(project, "run", "tap-spark-source", "target-spark-delta")

    lake = Loaded(project / "output" / "meltano")
    assert [row["name"] for row in lake.rows("customers")] == ["Ada", "Grace", "Edsger"]
    assert [row["id"] for row in lake.rows("orders")] == [1, 2, 3, 4, 5]
    assert meltano(project, "state", "list").split() == [STATE_ID]
    assert bookmarks(project)["orders"]["replication_key_value"] == (
        "2026-01-31T23:59:59.999999+00:00"
    )
    customers_before = lake.version("customers")

    (project / "examples" / "shop" / "orders" / "2026-02.csv").write_text(FEBRUARY)
    meltano(project, "run", "tap-spark-source", "target-spark-delta")

    orders = lake.rows("orders")
    assert [row["id"] for row in orders] == [1, 2, 3, 4, 5, 6]
    assert orders[2]["is_paid"] is True
    # The row at the bookmark is read again with the two that are newer.
    assert [commit["rows"] for commit in lake.commits("orders")] == [5, 3]
    assert lake.version("customers") == customers_before
    assert bookmarks(project)["orders"]["replication_key_value"] == (
        "2026-02-02T11:00:00.000000+00:00"
    )
    assert (project / "meltano.yml").read_text() == (ROOT / "meltano.yml").read_text()
