"""The runner's own share of the work: `python -m benchmarks.runner [ROWS]`.

A pipeline of our tap and target is run once; the CPU time of every process of the tree is counted,
those that outlive their parents too, and that of the runner alone beside it.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
LIMIT = 0.03
RUNNER = """
import json, os, resource, sys
from singer_spark.cli import main
try:
    main(sys.argv[2:], standalone_mode=False)
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    open(sys.argv[1], "w").write(json.dumps(used.ru_utime + used.ru_stime))
"""
PIPELINE = """\
name: shop
source: {{tap: tap-spark-source, config: {{source_url: "csv:{folder}/shop"}}}}
destination: {{target: target-spark-delta, config: {{path: "{folder}/lake"}}}}
"""


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        make_source(Path(folder), rows)
        own, whole, moved = measure(Path(folder))
    share = own / whole
    print(f"{rows:,} rows, {moved / 2**20:.0f} MB of messages")
    print(f"runner {own:.2f} s of CPU, whole tree {whole:.1f} s: {share:.2%} (limit {LIMIT:.0%})")
    sys.exit(share > LIMIT)


def make_source(folder: Path, rows: int) -> None:
    (folder / "shop").mkdir()
    with (folder / "shop" / "orders.csv").open("w") as file:
        file.write("id,name,amount,is_paid,updated_at,note,city,quantity,price\n")
        for n in range(rows):
            file.write(
                f"{n},customer {n},{n % 1000}.25,true,2026-01-01T00:00:00Z,a note of some length,"
                f"city {n % 500},{n % 90},{n % 77}.5\n"
            )
    (folder / "shop.yml").write_text(PIPELINE.format(folder=folder))


def measure(folder: Path) -> tuple[float, float, int]:
    """Run the pipeline; return the CPU seconds of the runner and of all, and the bytes moved."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    own = folder / "own"
    command = [sys.executable, "-c", RUNNER, own, "run", folder / "shop.yml", "--json"]
    with (folder / "result").open("wb") as result:
        process = subprocess.Popen([str(part) for part in command], stdout=result)
        whole, code = reap(process.pid)
    if code:
        sys.exit(f"the run failed with exit code {code}")
    moved = json.loads((folder / "result").read_bytes())["bytes"]
    return float(own.read_text()), whole, moved


def reap(runner: int) -> tuple[float, int]:
    """Wait for the runner and for whatever is left to us; sum up what each used."""
    whole, code = 0.0, 0
    while True:
        try:
            pid, status, used = os.wait4(-1, 0)
        except ChildProcessError:
            return whole, code
        whole += used.ru_utime + used.ru_stime
        if pid == runner:
            code = os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
