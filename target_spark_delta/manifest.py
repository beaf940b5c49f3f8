"""A BATCH message: which files it names, and where Spark finds them. No Spark here."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from singer_spark.errors import ProtocolError, TransientError
from singer_spark.protocol import MEMBER
from target_spark_delta.batch_roots import S3, BatchRoots, local_path, spark_url
from target_spark_delta.formats import is_checked_as_text
from target_spark_delta.mapping import StreamMapping
from target_spark_delta.validation import nullable, required_names, resolved_schema

logger = logging.getLogger(__name__)

FORMATS = ("jsonl", "parquet")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Files of records of one stream.

    Args:
        files: Their URLs, in the order of the records.
        format: jsonl or parquet.
        line: The line of the message, for messages.
        version: The version of the stream that they belong to.
        extracted_at: When they were extracted, as text.
        received_at: When the message came, in microseconds.
        rows: How many records the files have, where their tap says so.
        rules: What the records must satisfy.
        roots: Where the files may lie.
    """

    files: tuple[str, ...]
    format: str
    line: int
    version: int | None = None
    extracted_at: str | None = None
    received_at: int = 0
    rows: int | None = None
    rules: Rules
    roots: BatchRoots = field(default_factory=BatchRoots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the records of a stream must satisfy, in a form that travels to other processes."""

    stream: str
    schema: Mapping[str, Any]
    keys: Sequence[str]
    full: bool
    partial: bool
    mapping: StreamMapping | None = None

    @property
    def needed(self) -> list[str]:
        """Name what must be there and must not be null."""
        required = required_names(self.schema) if self.full else ()
        return self._never_null([*self.keys, *required])

    @property
    def needed_keys(self) -> list[str]:
        """Name the keys that must not be null, in a deletion neither."""
        return self._never_null(self.keys)

    def _never_null(self, names: Sequence[str]) -> list[str]:
        known = resolved_schema(self.schema)["properties"]
        return [one for one in dict.fromkeys(names) if one in known and not nullable(known[one])]

    @property
    def only_types(self) -> bool:
        """Say whether columns of the right types need no look at each record, nulls aside."""
        top = {name: part for name, part in self.schema.items() if name != "required"}
        return not self.mapping and (not self.full or has_only_types(top))


_TYPE_KEYWORDS = {
    "type",
    "properties",
    "items",
    "format",
    "multipleOf",
    "precision",
    "scale",
    "contentEncoding",
    "title",
    "description",
    "default",
    "examples",
    "$schema",
    "$id",
    "$comment",
}
_TYPE_FORMATS = {"date-time", "date", "time", "singer.decimal", "x-singer.decimal"}


def has_only_types(schema: Any) -> bool:
    """Say whether a JSON Schema states types and nothing else that could be broken."""
    if not isinstance(schema, Mapping):
        return schema is not False
    alternatives = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    children = [*schema.get("properties", {}).values(), schema.get("items", True), *alternatives]
    return (
        all(
            name in _TYPE_KEYWORDS or name in ("anyOf", "oneOf") or name.startswith("x-")
            for name in schema
            if name != "additionalProperties" or schema[name] is False
        )
        and schema.get("format", "date") in _TYPE_FORMATS
        and not is_checked_as_text(schema)
        and len([one for one in alternatives if one != {"type": "null"}]) <= 1
        and all(map(has_only_types, children))
    )


def parse_manifest(
    body: Mapping[str, Any], line: int, roots: BatchRoots
) -> tuple[tuple[str, ...], str]:
    """Return the files and the format that a BATCH message names, files below the roots alone."""
    encoding = body.get("encoding")
    kind = encoding.get("format") if isinstance(encoding, Mapping) else None
    if kind not in FORMATS:
        raise ProtocolError(
            f"line {line}: a BATCH of format {kind!r} cannot be read, only of "
            f"{' and '.join(FORMATS)}; set batch_config.encoding in the tap"
        )
    files = body.get("manifest")
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise ProtocolError(
            f"line {line}: a BATCH needs a manifest, the list of its files; look at the tap"
        )
    for file in files:
        roots.check(file, line)
    return tuple(files), kind


def rows_told(body: Mapping[str, Any]) -> int | None:
    """Return how many records the files of a BATCH message have, where its tap says so."""
    member = body.get(MEMBER)
    rows = member.get("rows") if isinstance(member, Mapping) else None
    return rows if isinstance(rows, int) and not isinstance(rows, bool) else None


def check_rows(manifest: Manifest, found: int) -> None:
    """Compare the records that were found in the files with those that the tap has written."""
    if manifest.rows is not None and manifest.rows != found:
        raise TransientError(
            f"stream {manifest.rules.stream}, line {manifest.line}: its BATCH files have {found} "
            f"records, and the tap has written {manifest.rows}; nothing of them is loaded; run "
            "again, and if it happens again look at the storage of the files"
        )


def readable_files(manifest: Manifest, folder: Path, *, shares_disk: bool) -> list[str]:
    """Return the files under names that Spark can read.

    Spark tells gzip by the name, takes some characters for patterns and overlooks files whose name
    begins with `_` or `.`; so a file on this machine gets a link that says what it is.
    """
    names = []
    for index, url in enumerate(manifest.files):
        path = local_path(url)
        manifest.roots.check(url, manifest.line)  # again: a link may lead elsewhere by now
        if path is None or not shares_disk:
            names.append(spark_url(url))
            continue
        link = folder / f"{index}.{manifest.format}{'.gz' if _is_gzip(path, manifest) else ''}"
        link.symlink_to(path.resolve())
        names.append(str(link))
    return names


def _is_gzip(path: Path, manifest: Manifest) -> bool:
    if manifest.format != "jsonl":
        return False
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def remove_files(files: Sequence[str], roots: BatchRoots) -> None:
    """Remove files whose rows are committed, below the roots; one that stays is only told of."""
    # Spark's workers import this module too, and need no S3 client.
    from botocore.exceptions import BotoCoreError, ClientError

    for url in filter(roots.may_remove, files):
        try:
            _remove(url)
        except (OSError, BotoCoreError, ClientError) as error:
            logger.warning("BATCH file %s could not be removed: %s", url, error)


def _remove(url: str) -> None:
    import boto3

    if path := local_path(url):
        path.resolve().unlink(missing_ok=True)
    elif (parts := urlsplit(url)).scheme in S3:
        boto3.client("s3").delete_object(Bucket=parts.netloc, Key=parts.path.lstrip("/"))
    else:
        logger.warning("BATCH file %s stays: only local files and S3 are cleaned up", url)
