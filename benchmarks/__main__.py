"""Measures the target and the tap against singer-sdk, and their memory: `make bench`.

Figures of one machine mean little; the ratios of one run are what counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks import comparison, data, measure, reading, shapes
from benchmarks.transport import transport
from tests.support.tap import Postgres

MILLION = 1_000_000


def target(folder: Path, rows: int, sdk_rows: int) -> None:
    """A stream into the target, against a file target of the SDK."""
    theirs = _loaded(folder, measure.sdk("target"), sdk_rows)
    ours = _loaded(folder, measure.command("target-spark-delta"), rows)
    more = _loaded(folder, measure.command("target-spark-delta"), rows * 5)
    marginal = (more.records - ours.records) / (more.seconds - ours.seconds)
    print(f"target: {ours.records:,} records in {ours.seconds:.1f} s, start-up included")
    print(f"  {more.records:,} records in {more.seconds:.1f} s: {marginal:,.0f} more records/s")
    print(f"  singer-sdk file target: {theirs.rate:,.0f} records/s")
    print(
        f"  ratio: {marginal / theirs.rate:.1f} start-up aside, {more.rate / theirs.rate:.1f} with"
    )
    print(f"  Python process: {ours.peak_mb:.0f} MB, {more.peak_mb:.0f} MB")


def _loaded(folder: Path, target: list[str], rows: int) -> measure.Measured:
    source = data.write_messages(folder / "in.singer", rows)
    place = folder / f"{Path(target[0]).name}-{rows}"
    config = _config(folder / "target.json", path=str(place))
    return measure.run([*target, "--config", config], source=source, records=rows)


def tap(folder: Path, rows: int, sdk_rows: int) -> None:
    """A table out of PostgreSQL, against a SQL tap of the SDK."""
    server = Postgres()
    try:
        server.run(data.TABLE.format(rows=rows))
        server.run(f"create table few as select * from orders limit {sdk_rows}")
        url = (
            f"postgresql+psycopg://{server.user}:{server.password}@127.0.0.1:{server.port}/postgres"
        )
        catalog = _sdk_catalog(folder, url)
        theirs = measure.run(
            [*measure.sdk("tap"), "--config", str(folder / "sdk.json"), "--catalog", catalog]
        )
        config = _config(folder / "tap.json", **server.config, tables=["public.orders"])
        ours = measure.run([*measure.command("tap-spark-source"), "--config", config])
        server.run(data.TABLE.format(rows=rows * 5).replace("table orders", "table many"))
        config = _config(folder / "tap.json", **server.config, tables=["public.many"])
        more = measure.run([*measure.command("tap-spark-source"), "--config", config])
    finally:
        server.stop()
    print(f"tap: {ours.steady_rate:,.0f} rows/s from the first on, {ours.rate:,.0f} over all")
    print(f"  of {more.records:,}: {more.steady_rate:,.0f} rows/s from the first on")
    print(f"  singer-sdk SQL tap: {theirs.steady_rate:,.0f} rows/s from the first on")
    print(f"  ratio: {ours.steady_rate / theirs.steady_rate:.1f}, start-up aside")
    print(f"  Python process: {ours.peak_mb:.0f} MB, {more.peak_mb:.0f} MB")


def _config(file: Path, /, **settings: object) -> str:
    file.write_text(json.dumps(settings))
    return str(file)


def _sdk_catalog(folder: Path, url: str) -> str:
    import subprocess

    config = _config(folder / "sdk.json", url=url)
    found = subprocess.run(
        [*measure.sdk("tap"), "--config", config, "--discover"], check=True, capture_output=True
    )
    catalog = json.loads(found.stdout)
    catalog["streams"] = [s for s in catalog["streams"] if s["tap_stream_id"] == "public-few"]
    for entry in catalog["streams"]:
        for item in entry["metadata"]:
            item["metadata"]["selected"] = True
    return _config(folder / "catalog.json", **catalog)


def unusual(folder: Path, rows: int, _: int) -> None:
    """Streams of unusual shape, and the cost of validation; 1,000,000 rows are the full size."""
    if beyond := shapes.run(folder, rows / MILLION):
        sys.exit("; ".join(beyond))


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", nargs="*", choices=[*MEASURED], default=["target", "tap"])
    parser.add_argument("--rows", type=int, default=MILLION)
    parser.add_argument("--sdk-rows", type=int, default=50_000)
    options = parser.parse_args()
    for name in options.what:
        with tempfile.TemporaryDirectory() as folder:
            MEASURED[name](Path(folder), options.rows, options.sdk_rows)


MEASURED = {
    "target": target,
    "tap": tap,
    "incremental": reading.incremental,
    "connections": reading.connections,
    "transport": transport,
    "shapes": unusual,
    "snapshot": lambda folder, rows, _: comparison.snapshot(folder, rows * 5),
}
main()
