"""Where the files of BATCH messages may lie. A message is not trusted, the setting is."""

from __future__ import annotations

import logging
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import final
from urllib.parse import SplitResult, unquote, urlsplit

from singer_spark.errors import ProtocolError

logger = logging.getLogger(__name__)

S3 = ("s3", "s3a")
# Spark takes these for patterns of several files.
_PATTERN = re.compile(r"[*?\[\]{}\\]")


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
