"""Comparison with a snapshot, against one plain read of the same table."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from benchmarks import data, measure
from tests.support.tap import Postgres

# The whole of Spark runs in it: what does not fit goes to disk.
_MEMORY = {"spark.driver.memory": "1g"}


def snapshot(folder: Path, rows: int) -> None:
    """Compare a table by keys and by rows after a few changes."""
    server = Postgres()
    try:
        server.run(data.TABLE.format(rows=rows))
        server.run("alter table orders add primary key (id)")
        common = {**server.config, "tables": ["public.orders"], "spark_conf": _MEMORY}
        plain = measure.run(measure.tap(folder, "plain", **common))
        print(f"snapshot: {plain.records:,} rows read once in {plain.seconds:.1f} s")
        for number, mode in enumerate(("keys", "rows")):
            config = {
                **common,
                "snapshot_path": str(folder / mode),
                "stream_options": {"*": {"snapshot": mode, "replication_key": "id"}},
            }
            if mode == "rows":
                config["stream_options"] = {"*": {"snapshot": mode}}
            state = _state_after(folder, mode, config)
            server.run(f"delete from orders where id % {rows // 1000} = {number}")
            again = measure.run([*measure.tap(folder, mode, **config), "--state", state])
            print(
                f"  {mode}: {again.records:,} records in {again.seconds:.1f} s, ratio "
                f"{again.seconds / plain.seconds:.2f}, Python process {again.peak_mb:.0f} MB"
            )
    finally:
        server.stop()


def _state_after(folder: Path, name: str, config: dict[str, object]) -> str:
    """Run the tap and keep its last state."""
    done = subprocess.run(
        ["sh", "-c", '"$@" 2>/dev/null | tail -n 1', "sh", *measure.tap(folder, name, **config)],
        check=True,
        capture_output=True,
    )
    state = folder / f"{name}-state.json"
    state.write_text(json.dumps(json.loads(done.stdout)["value"]))
    return str(state)
