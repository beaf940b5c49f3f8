"""The configuration of Spark and Delta that the promises rest on, and that nobody may turn.

GUARDS are set in every session, so that no file of defaults turns them either. What is refused in
`spark_conf` goes further: every setting of Delta that is not known to be mere tuning, and every
one that brings back how an older Spark treated values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Guard(NamedTuple):
    """The value that a setting must have, and why."""

    value: str
    reason: str


_CASTS = "Spark would bend values silently"
_SKIPS = "rows that cannot be read must fail the run, not vanish"
_CALENDAR = (
    "dates would be shifted; for old files of a source use source_options: datetimeRebaseMode"
)
_TYPES = "columns would change their type"
_NAMES = "quoted names would mean something else"
_ROWS = "values must come from rows, not from statistics"
_FILES = "files are handed over as their tasks commit"
_COMMITS = "a commit could be lost, doubled or unseen"

# Settings of a session; a Spark Connect server gets these too.
GUARDS = {
    "spark.sql.session.timeZone": Guard("UTC", "times are handled in UTC"),
    "spark.sql.timestampType": Guard("TIMESTAMP_LTZ", _TYPES),
    "spark.sql.timeType.enabled": Guard("false", "Delta has no type for the time of a day"),
    "spark.sql.parquet.outputTimestampType": Guard("TIMESTAMP_MICROS", "times would lose digits"),
    "spark.sql.parquet.inferTimestampNTZ.enabled": Guard("true", _TYPES),
    "spark.sql.parquet.int96AsTimestamp": Guard("true", _TYPES),
    "spark.sql.parquet.int96TimestampConversion": Guard("false", "times would be shifted"),
    "spark.sql.parquet.binaryAsString": Guard("false", _TYPES),
    "spark.sql.parquet.writeLegacyFormat": Guard("false", "other readers would see other values"),
    **{
        f"spark.sql.{place}RebaseModeIn{way}": Guard("CORRECTED", _CALENDAR)
        for place in ("parquet.datetime", "parquet.int96", "avro.datetime")
        for way in ("Read", "Write")
    },
    "spark.sql.legacy.timeParserPolicy": Guard("CORRECTED", _CASTS),
    "spark.sql.ansi.enabled": Guard("true", "without ANSI mode Spark bends values silently"),
    "spark.sql.storeAssignmentPolicy": Guard("ANSI", _CASTS),
    "spark.sql.mapKeyDedupPolicy": Guard("EXCEPTION", "one of two equal keys would vanish"),
    "spark.sql.json.enablePartialResults": Guard("true", "a whole row would become NULL"),
    "spark.sql.json.enableExactStringParsing": Guard("true", "texts of JSON would be rewritten"),
    "spark.sql.jsonGenerator.ignoreNullFields": Guard("true", "texts of JSON would be others"),
    "spark.sql.columnNameOfCorruptRecord": Guard("_corrupt_record", _SKIPS),
    "spark.sql.files.ignoreMissingFiles": Guard("false", _SKIPS),
    "spark.sql.files.ignoreCorruptFiles": Guard("false", _SKIPS),
    "spark.sql.files.ignoreInvalidPartitionPaths": Guard("false", _SKIPS),
    "spark.sql.sources.validatePartitionColumns": Guard("true", _CASTS),
    "spark.sql.sources.partitionOverwriteMode": Guard("STATIC", "old partitions would be kept"),
    "spark.sql.variable.substitute": Guard("false", "values like variables would be replaced"),
    "spark.sql.caseSensitive": Guard("false", "names that differ only by case would be two"),
    "spark.sql.parser.escapedStringLiterals": Guard("false", "texts would be read otherwise"),
    "spark.sql.parser.quotedRegexColumnNames": Guard("false", _NAMES),
    "spark.sql.ansi.doubleQuotedIdentifiers": Guard("false", _NAMES),
    "spark.sql.optimizer.metadataOnly": Guard("false", _ROWS),
    "spark.sql.parquet.aggregatePushdown": Guard("false", _ROWS),
    "spark.sql.orc.aggregatePushdown": Guard("false", _ROWS),
    "spark.databricks.delta.optimizeMetadataQuery.enabled": Guard("false", _ROWS),
    "spark.databricks.delta.stalenessLimit": Guard("0ms", "a table must be read as it is now"),
    "spark.databricks.delta.commitValidation.enabled": Guard("true", _COMMITS),
    "spark.databricks.delta.numRecordsValidation.enabled": Guard("true", _COMMITS),
    "spark.databricks.delta.checksum.mismatch.fatal": Guard("true", _COMMITS),
    "spark.databricks.delta.write.txnVersion.autoReset.enabled": Guard("false", _COMMITS),
    "spark.databricks.delta.schema.typeCheck.enabled": Guard("true", _CASTS),
    "spark.databricks.delta.schema.autoMerge.enabled": Guard(
        "false", "columns are added by schema_changes only"
    ),
    "spark.databricks.delta.retentionDurationCheck.enabled": Guard(
        "true",
        "files that others still read would be removed; to keep them shorter set the table "
        "property delta.deletedFileRetentionDuration",
    ),
}
# Settings of a Spark that we start ourselves.
START_GUARDS = {
    "spark.speculation": Guard("false", "a task that runs twice writes its lines twice"),
    "spark.files.ignoreMissingFiles": Guard("false", _SKIPS),
    "spark.files.ignoreCorruptFiles": Guard("false", _SKIPS),
    "spark.hadoop.mapreduce.input.linerecordreader.line.maxlength": Guard(
        str(2**31 - 1), "longer records would be left out silently"
    ),
    "spark.hadoop.delta.enableFastS3AListFrom": Guard("false", "commits could be overlooked"),
}
_REFUSED = {
    "delta.enableFastS3AListFrom": "commits could be overlooked",
    "spark.delta.enableFastS3AListFrom": "commits could be overlooked",
    "spark.hadoop.fs.s3a.create.performance": "a commit could replace another",
    "spark.hadoop.fs.s3a.performance.flags": "a commit could replace another",
    "spark.hadoop.textinputformat.record.delimiter": "records end at the end of their line",
    "spark.hadoop.parquet.strings.signed-min-max.enabled": _ROWS,
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": _FILES,
    "spark.sql.sources.commitProtocolClass": _FILES,
    "spark.sql.sources.outputCommitterClass": _FILES,
    "spark.sql.parquet.output.committer.class": _FILES,
    "spark.sql.extensions": "Delta's extension is always set",
    "spark.sql.catalog.spark_catalog": "Delta's catalog is always set",
    "spark.databricks.delta.commitInfo.userMetadata": "commits carry the run and its state",
    "spark.driver.extraClassPath": "use spark_jars",
    "spark.jars": "use spark_jars",
    "spark.jars.packages": "use spark_packages",
    "spark.master": "use spark_master",
    "spark.remote": "use spark_remote",
}
_LEGACY = "spark.sql.legacy."
_LEGACY_ALLOWED = {"spark.sql.legacy.parquet.nanosAsLong"}  # exact, and nothing else reads them
_DELTA = "spark.databricks.delta."
_DELTA_TUNING = re.compile(
    r"snapshotPartitions|snapshotCache\..*|maxSnapshotLineageLength|delta\.log\..*|history\..*"
    r"|optimize\..*|optimizeWrite\..*|autoCompact\..*|vacuum\.(parallelDelete|logging)\..*"
    r"|merge\.(repartitionBeforeWrite\..*|materializeSource\.rddStorageLevel.*)|properties\..*"
    r"|stats\.(collect|skipping)|checkpoint\.partSize|checkpointV2\.threadpool\.size"
    r"|(delete|update|merge)\.deletionVectors\.persistent|commitMetrics\..*"
)
_LOG_STORE = re.compile(r"spark\.delta\.logStore\.(?:(\w+)\.impl|class)")
_JAVA_OPTIONS = re.compile(r"spark\.(driver|executor)\.(extra|default)JavaOptions")
_JAVA_GUARDED = re.compile(r"-D(user\.timezone|spark\.[\w.]+)")
_KEY = re.compile(r"[^\s=:#!\\]+")


def refusals(conf: Mapping[str, str]) -> Iterator[str]:
    """Say of each setting in `spark_conf` that cannot be set why not."""
    for key, value in conf.items():
        if reason := _refusal(key, value):
            yield f"spark_conf: {key if _KEY.fullmatch(key) else repr(key)} cannot be set: {reason}"


def option_refusal(key: str) -> str | None:
    """Say why a reader's option cannot be set, because Hadoop takes it for a setting of its own."""
    name = f"spark.hadoop.{key}".lower()
    reasons = {**_REFUSED, **{known: guard.reason for known, guard in START_GUARDS.items()}}
    return next((reason for known, reason in reasons.items() if known.lower() == name), None)


def _refusal(key: str, value: str) -> str | None:
    if not _KEY.fullmatch(key):
        return "a name has neither blanks nor signs such as = and :"
    guard = GUARDS.get(key) or START_GUARDS.get(key)
    if guard and value.lower() == guard.value.lower():
        return None
    reason = guard.reason if guard else _REFUSED.get(key)
    if reason is None and _JAVA_OPTIONS.fullmatch(key):
        found = _JAVA_GUARDED.search(value)
        return f"{found[0]} is set by us, or belongs into spark_conf itself" if found else None
    if reason:
        return reason
    if key.startswith(_LEGACY) and key not in _LEGACY_ALLOWED:
        return "values would be treated as an older Spark did"
    if key.startswith(_DELTA) and not _DELTA_TUNING.fullmatch(key.removeprefix(_DELTA)):
        return "of Delta's settings only tuning can be set; for a table's use table_properties"
    if store := _LOG_STORE.fullmatch(key):
        return _log_store_refusal(store[1], value)
    return None


def _log_store_refusal(scheme: str | None, value: str) -> str | None:
    """Allow the log stores that Delta ships for a scheme: others may lose a commit in a race."""
    wanted = r"io\.delta\.storage\.S3\w+" if (scheme or "").startswith("s3") else r"io\.delta\..+"
    if scheme and re.fullmatch(wanted, value):
        return None
    return "a commit could replace another; name one of io.delta.storage for one scheme"
