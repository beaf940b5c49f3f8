"""Rows that wait beside a table for more of their run: Parquet files, or a table of a catalog."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from singer_spark.errors import TransientError
from singer_spark.names import quote
from target_spark_delta.methods.batch import Staged
from target_spark_delta.table.ddl import naming
from target_spark_delta.table.table import Table


def stage_rows(spark: SparkSession, place: Table, rows: DataFrame) -> Staged:
    """Put rows aside in a place of their own."""
    staged = Staged(place, rows.schema)
    write_staged(spark, staged, rows, is_first=True)
    staged.rows = place.rows(spark).count()
    return staged


def write_staged(spark: SparkSession, staged: Staged, rows: DataFrame, *, is_first: bool) -> None:
    """Add rows to a place; what a run that was killed has left there goes with the first."""
    place = staged.place
    if place.path:
        place.save(rows.write.format("parquet").mode("overwrite" if is_first else "append"))
        return
    writer = rows.write.format("delta").mode("append")
    if is_first:
        place.make_schema(spark)
        discard(spark, staged)
        if place.schema(spark) is not None:
            # It lies where its catalog had forgotten it.
            writer = writer.mode("overwrite").option("overwriteSchema", "true")
    # A catalog takes odd names of columns only in a Delta table.
    place.save(writer.options(**naming(rows.schema)))


def staged_rows(spark: SparkSession, staged: Staged, where: str = "true") -> DataFrame:
    """Return the rows in a place, which must be those that this run has put there."""
    rows = staged.place.rows(spark).where(where)
    if rows.count() != staged.rows:
        raise TransientError(
            f"{staged.place}: another run has staged rows in the same place; run again when it "
            "has finished"
        )
    return rows


def drop_abandoned(spark: SparkSession, place: Table, prefix: str) -> None:
    """Drop the tables beside a place in a catalog whose names begin so."""
    schema, _, _ = place.sql.rpartition(".")
    catalog, _, name = schema.rpartition(".")
    # By place: not every catalog names this column alike.
    known = spark.sql(f"show schemas in {catalog}").toArrow().column(0).to_pylist()
    if name.strip("`") not in known:
        return
    for table in spark.sql(f"show tables in {schema}").toArrow()["tableName"].to_pylist():
        if table.lower().startswith(f"{prefix}_"):
            spark.sql(f"drop table if exists {schema}.{quote(table)}")


def discard(spark: SparkSession, staged: Staged) -> None:
    """Remove staged rows."""
    if staged.place.path is None:
        spark.sql(f"drop table if exists {staged.place.sql}")
    else:
        nothing = spark.createDataFrame([], staged.schema)
        staged.place.save(nothing.write.format("parquet").mode("overwrite"))
