"""Rows of one chunk as files that Spark writes, and the BATCH message that names them."""

from __future__ import annotations

import logging
import re
import shutil
import uuid
from pathlib import Path
from urllib.parse import quote as quote_url

from pyspark.sql import DataFrame, Observation, SparkSession

from singer_spark.errors import TransientError
from singer_spark.report import report, watch_folder
from tap_spark_source.output.records import Records, batch_line, write_bytes
from tap_spark_source.settings import BatchSettings
from tap_spark_source.sources.base import source_errors
from tap_spark_source.sources.row_json import observed, record_columns

# Times of any year, and as what they are: the older form of files knows neither.
_TIMES = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
_NO_MARKER = "mapreduce.fileoutputcommitter.marksuccessfuljobs"

logger = logging.getLogger(__name__)


def has_room(batch: BatchSettings) -> bool:
    """Say whether files may be written: those that wait to be read leave at least half the disk.

    Where a reader falls behind, messages in between make the tap wait for it.
    """
    if batch.folder is None or not batch.folder.exists():
        return True
    waiting = sum(_size(path) for path in batch.folder.rglob("*"))
    free = shutil.disk_usage(batch.folder).free
    if waiting > free:
        told = "%s holds %d MB that nobody has removed and %d MB are left: rows go as messages"
        logger.warning(told, batch.folder, waiting // 2**20, free // 2**20)
    return waiting <= free


def write_batch(records: Records, batch: BatchSettings) -> int:
    """Have the rows written and told; return how many there are.

    Rows that are texts already are written as lines, whatever the format, and so are deletions:
    a column would tell NULL of what they leave alone.
    """
    kind = "jsonl" if records.are_texts or records.keys else batch.format
    place = batch.place(f"{re.sub(r'[^A-Za-z0-9_-]', '_', records.stream)}-{uuid.uuid4().hex}")
    counted = Observation("batch")
    with source_errors(records.settings, records.stream):
        frame = records.texts
        if kind != "jsonl":
            decimal, fields = records.settings.singer_decimal, records.frame.schema.fields
            columns = record_columns(fields, singer_decimal=decimal)
            frame = records.frame.selectExpr(*columns, *records.beside)
        frame = observed(frame, counted, records.watches)
        with watch_folder(Path(place.removeprefix("file://")), f"reading {records.stream}"):
            _write(frame, place, kind, batch)
        found = counted.get
        rows = int(found["rows"])
        files = _files(frame.sparkSession, place)
    if kind == "parquet" and place.startswith("file://"):
        _check(records.stream, Path(place.removeprefix("file://")), rows)
    for watch in records.watches:
        watch.add(found)
    if rows:
        packed = batch.compression or ("gzip" if kind == "jsonl" else None)
        line = batch_line(records.envelope, sorted(files), rows=rows, kind=kind, compression=packed)
        write_bytes(line)
    elif place.startswith("file://"):
        shutil.rmtree(place.removeprefix("file://"), ignore_errors=True)
    report("batch", records.stream, rows=rows, bytes=sum(files.values()))
    return rows


def _write(frame: DataFrame, place: str, kind: str, batch: BatchSettings) -> None:
    writer = frame.write.option(_NO_MARKER, "false")
    if kind == "jsonl":
        writer.option("compression", batch.compression or "gzip").text(place)
        return
    for name, value in _TIMES.items():
        frame.sparkSession.conf.set(name, value)
    # On this machine the target reads them at once: to pack them takes longer than to write them.
    usual = "uncompressed" if place.startswith("file://") else "zstd"
    writer.option("compression", batch.compression or usual).parquet(place)


def _files(spark: SparkSession, place: str) -> dict[str, int]:
    """List the files as URLs, and their sizes; the order of the names is that of the rows."""
    if place.startswith("file://"):
        folder = Path(place.removeprefix("file://"))
        for checksum in folder.glob(".*.crc"):
            checksum.unlink()
        return {path.as_uri(): path.stat().st_size for path in folder.iterdir()}
    found = spark.read.format("binaryFile").load(place).select("path", "length").toArrow()
    return {_url(row["path"]): row["length"] for row in found.to_pylist()}


def _check(stream: str, folder: Path, rows: int) -> None:
    """Fail where files on this machine do not hold what Spark wrote; others count as they read."""
    import pyarrow.parquet as pq

    try:
        found = sum(pq.read_metadata(path).num_rows for path in folder.iterdir())
    except (OSError, ValueError):  # what is no Parquet any more
        found = 0
    if found != rows:
        raise TransientError(
            f"{stream}: Spark wrote {rows} rows and the files in {folder} hold {found}; the "
            "bookmark stays where it was, run again"
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # read and removed meanwhile
        return 0


def _url(path: str) -> str:
    """Return a path of Spark's as the URL that others know."""
    scheme, _, rest = path.partition("://")
    return f"{'s3' if scheme == 's3a' else scheme}://{quote_url(rest)}"
