"""The files that a BATCH message names: where they may lie, and where Spark finds them.

A message is not trusted, the setting is. No Spark here.
"""

from __future__ import annotations

import logging
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final
from urllib.parse import SplitResult, unquote, urlsplit

from singer_spark.errors import ProtocolError, TransientError
from singer_spark.protocol import MEMBER
from target_spark_delta.intake.json_schema import (
    has_only_types,
    nullable,
    required_names,
    resolved_schema,
)
from target_spark_delta.intake.mapping import StreamMapping

logger = logging.getLogger(__name__)

S3 = ("s3", "s3a")
# Spark takes these for patterns of several files.
_PATTERN = re.compile(r"[*?\[\]{}\\]")
FORMATS = ("jsonl", "parquet")
_GZIP = b"\x1f\x8b"


@final
class BatchRoots:
    """Folders and prefixes whose files may be read and removed; without any, all may be read."""

    def __init__(self, roots: Iterable[str] = ()) -> None:
        self._roots = tuple(roots)
        self._is_warned = False

    def check(self, url: str, line: int) -> None:
        """Refuse what is no regular file, or lies below none of the roots."""
        if self._roots and not self.holds(url):
            raise ProtocolError(
                f"line {line}: BATCH file {url} lies below none of batch_roots; add its folder "
                "there, or look at the tap"
            )
        path = local_path(url)
        if url.endswith("/") or (path and path.is_dir()):
            raise ProtocolError(
                f"line {line}: {url} is a folder, where a BATCH names files; look at the tap"
            )
        if path is None:
            return
        if not path.exists():
            raise ProtocolError(f"line {line}: BATCH file {url} does not exist; look at the tap")
        if not stat.S_ISREG(path.stat().st_mode):
            raise ProtocolError(
                f"line {line}: BATCH file {url} is no regular file; look at the tap"
            )

    def holds(self, url: str) -> bool:
        """Say whether a file lies below a root, links followed."""
        return any(_lies_below(url, root) for root in self._roots)

    def may_remove(self, url: str) -> bool:
        """Say whether a file may be removed: one below a root, that is no folder or device."""
        path = local_path(url)
        return self.holds(url) and (path is None or path.is_file())

    def warn_once(self, *, cleans_up: bool) -> None:
        """Warn where messages may name any file."""
        if self._roots or self._is_warned:
            return
        self._is_warned = True
        stay = ", and clean_up_batch_files removes none" if cleans_up else ""
        logger.warning(
            "BATCH messages may name any file, because batch_roots is not set%s; name the folders "
            "there in which the tap writes its files",
            stay,
        )


def local_path(url: str) -> Path | None:
    """Return the path of a file on this machine, None where the URL leads elsewhere."""
    parts = _split(url)
    if parts.scheme == "file":
        return _path(unquote(parts.path))
    return None if parts.scheme else _path(url)


def spark_url(url: str) -> str:
    """Return a URL as Spark knows it, one file alone."""
    if _PATTERN.search(url):
        raise ProtocolError(f"BATCH file {url} has one of *?[]{{}}\\ in its name; look at the tap")
    return f"s3a{url[url.index(':') :]}" if _split(url).scheme in S3 else url


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise ProtocolError(f"BATCH file {url} is no URL; look at the tap") from error


def _path(text: str) -> Path:
    if "\0" in text:
        raise ProtocolError("a BATCH file's name holds a NUL; look at the tap")
    return Path(text)


def _lies_below(url: str, root: str) -> bool:
    path, folder = local_path(url), local_path(root)
    if path is not None and folder is not None:
        return path.resolve().is_relative_to(folder.expanduser().resolve())
    if path is not None or folder is not None:
        return False
    one, other = _split(url), _split(root)
    is_there = (_scheme(one), one.netloc) == (_scheme(other), other.netloc)
    prefix = other.path.rstrip("/") + "/"
    return is_there and one.path.startswith(prefix) and not _climbs(url)


def _scheme(parts: SplitResult) -> str:
    return "s3" if parts.scheme in S3 else parts.scheme


def _climbs(url: str) -> bool:
    """Say whether a URL could mean another place than its text begins with."""
    path = unquote(url).partition("://")[2]
    return any(part in ("..", ".") for part in path.split("/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Files of records of one stream."""

    files: tuple[str, ...]  # their URLs, in the order of the records
    format: str  # jsonl or parquet
    line: int  # the line of the message, for messages
    version: int | None = None  # the version of the stream that they belong to
    extracted_at: str | None = None  # when they were extracted, as text
    received_at: int = 0  # when the message came, in microseconds
    rows: int | None = None  # how many records the files have, where their tap says so
    rules: Rules  # what the records must satisfy
    roots: BatchRoots = field(default_factory=BatchRoots)  # where the files may lie


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


def rows_written(body: Mapping[str, Any]) -> int | None:
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
