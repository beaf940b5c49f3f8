"""What a small MERGE costs in a large table: the files that the keys cannot be in are not read."""

from __future__ import annotations

import argparse
import io
import itertools
import json
import statistics
import sys
import tempfile
import time
from contextlib import redirect_stdout

from benchmarks.parts.messages import SCHEMA
from singer_spark.engine.session import open_session
from singer_spark.settings import SparkSettings
from target_spark_delta.target import TargetSparkDelta

CHANGED = 1_000
# So many times longer a MERGE may take in a table that is ten times as large.
LIMIT = 2
# As the target leaves a table that was loaded in the order of its key: a million rows a commit,
# written by two cores.
ROWS_PER_FILE = 500_000


def merge(rows: int, repeats: int) -> float:
    """Merge into a tenth of the rows and into all, with and without deletion vectors.

    Return the larger ratio of both times.
    """
    spark = open_session(SparkSettings.from_config({}))
    small, large = rows // 10, rows
    tables = list(itertools.product(("false", "true"), (small, large)))
    with tempfile.TemporaryDirectory() as root:
        places = {table: f"{root}/{'-'.join(map(str, table))}" for table in tables}
        for (vectors, size), place in places.items():
            _make_table(spark, place, size, vectors)
        seconds = _measure(places, repeats)
    ratios = []
    for vectors in ("false", "true"):
        print(f"merge of {CHANGED:,} changed rows, deletion vectors {vectors}:")
        for size in (small, large):
            print(f"  into {size:,} rows: {seconds[vectors, size]:.2f} s")
        ratios.append(seconds[vectors, large] / seconds[vectors, small])
        print(f"  ratio: {ratios[-1]:.2f} (limit {LIMIT})")
    return max(ratios)


def _make_table(spark, folder: str, rows: int, vectors: str) -> None:
    writer = (
        spark.range(rows)
        .repartitionByRange(max(1, rows // ROWS_PER_FILE), "id")
        .sortWithinPartitions("id")
        .selectExpr(*_columns())
        .write.format("delta")
        .option("delta.enableDeletionVectors", vectors)
    )
    writer.save(f"{folder}/orders")


def _columns() -> list[str]:
    return [
        "id",
        "concat('customer ', id % 1000) as customer",
        "cast(id % 1000000 / 100 as decimal(38,2)) as amount",
        "id % 50 as qty",
        "id % 2 = 0 as ok",
        "timestamp_micros(1704067200123456 + id * 1000000) as created_at",
        "concat('some note text ', id) as note",
        "date_add(date'2024-01-01', cast(id % 365 as int)) as day",
        "id / 7.0D as ratio",
    ]


def _measure(places: dict[tuple[str, int], str], repeats: int) -> dict[tuple[str, int], float]:
    """Return the median time of a load into each table.

    They take turns, so that none has the warmer engine; the first two rounds are not counted.
    """
    taken = {table: [] for table in places}
    for number in range(repeats + 2):
        for (vectors, size), place in places.items():
            messages = _messages(size // 2, f"changed {number}")
            start = time.monotonic()
            with redirect_stdout(io.TextIOWrapper(io.BytesIO())):
                TargetSparkDelta(config={"path": place}).listen(io.StringIO(messages))
            taken[vectors, size].append(time.monotonic() - start)
    return {table: statistics.median(found[2:]) for table, found in taken.items()}


def _messages(first: int, note: str) -> str:
    records = (
        {"type": "RECORD", "stream": "orders", "record": {"id": first + n, "note": note}}
        for n in range(CHANGED)
    )
    return "".join(json.dumps(message) + "\n" for message in (SCHEMA, *records))


def main() -> None:
    """Run it: python -m benchmarks.parts.merge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parts.merge", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    sys.exit(merge(options.rows, options.repeats) > LIMIT)


if __name__ == "__main__":
    main()
