"""What a good engineer writes for one pipeline: `handwritten.py JOB`.

Reads what is newer than the cursor of a file by partitions of the key, and MERGEs it into Delta.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from session import open_session

ROWS_PER_PARTITION = 50_000


def main(job: dict) -> None:
    file = Path(job["folder"], "cursors.json")
    cursors = json.loads(file.read_text()) if file.exists() else {}
    spark = open_session(job)
    for table in job["tables"]:
        newest = load(spark, job, table, cursors.get(table["name"]))
        if newest:
            cursors[table["name"]] = newest
    spark.stop()
    file.write_text(json.dumps(cursors))


def load(spark: SparkSession, job: dict, table: dict, cursor: str | None) -> str | None:
    """Load what is new; return the new cursor, None where nothing is."""
    newer = f"where {table['cursor']} > '{cursor}'" if cursor else ""
    facts = (
        reader(spark, job)
        .option(
            "query",
            f"select count(*) as rows, min(id) as low, max(id) as high, "
            f"max({table['cursor']})::text as newest from {table['name']} {newer}",
        )
        .load()
        .first()
    )
    if not facts["rows"]:
        return None
    partitions = min(job["cores"], 1 + facts["rows"] // ROWS_PER_PARTITION)
    changed = (
        reader(spark, job)
        .option("dbtable", f"(select * from {table['name']} {newer}) as changed")
        .option("partitionColumn", "id")
        .option("lowerBound", facts["low"])
        .option("upperBound", facts["high"] + 1)
        .option("numPartitions", partitions)
        .load()
    )
    write(spark, changed, str(Path(job["folder"], "lake", table["name"])))
    return facts["newest"]


def reader(spark: SparkSession, job: dict):
    return (
        spark.read.format("jdbc")
        .option("url", job["jdbc_url"])
        .option("user", job["user"])
        .option("password", job["password"])
        .option("driver", "org.postgresql.Driver")
        .option("fetchsize", 10_000)
    )


def write(spark: SparkSession, changed: DataFrame, place: str) -> None:
    if not DeltaTable.isDeltaTable(spark, place):
        changed.write.format("delta").save(place)
        return
    (
        DeltaTable.forPath(spark, place)
        .alias("old")
        .merge(changed.alias("new"), "old.id = new.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
