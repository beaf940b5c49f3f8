"""State stores: a URL chooses where pipelines keep their state between runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from singer_spark.errors import SettingsError
from singer_spark.state.base import PipelineState, StateStore
from singer_spark.state.folder import FolderObjects
from singer_spark.state.objects import ObjectStore

__all__ = ["PipelineState", "StateStore", "create_state_store"]

S3_OPTIONS = ("endpoint_url", "region")


def create_state_store(url_or_config: str | os.PathLike[str] | Mapping[str, Any]) -> StateStore:
    """Open the store that a folder's path, a URL or a mapping describes."""
    if isinstance(url_or_config, Mapping):
        return StateStore(_from_config(dict(url_or_config)))
    return StateStore(_from_url(os.fspath(url_or_config), {}))


def _from_url(url: str, options: dict[str, Any]) -> ObjectStore:
    scheme = url.split("://", 1)[0].lower() if "://" in url else "file"
    if scheme not in OPENERS:
        known = ", ".join(f"{name}://" for name in sorted(OPENERS))
        raise SettingsError(
            f"state: unknown scheme {scheme}://; known are a folder's path, {known}"
        )
    return OPENERS[scheme](url, options)


def _from_config(config: dict[str, Any]) -> ObjectStore:
    """Accept {url}, {type: file, path} and {type: s3, bucket, prefix}, with S3's options beside."""
    kind = config.pop("type", None)
    if "url" in config:
        url = str(config.pop("url"))
    elif kind == "file" and "path" in config:
        url = os.fspath(config.pop("path"))
    elif kind == "s3" and "bucket" in config:
        url = f"s3://{config.pop('bucket')}/{config.pop('prefix', '')}"
    else:
        raise SettingsError("state: give url, or type file with path, or type s3 with bucket")
    return _from_url(url, config)


def _open_folder(url: str, options: dict[str, Any]) -> ObjectStore:
    _refuse_unknown(options, ())
    if "://" not in url:
        path = url
    else:
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            raise SettingsError("state: a file URL has three slashes, file:///folder")
        path = unquote(parts.path)
    if not path:
        raise SettingsError("state: the folder's path is empty")
    return FolderObjects(Path(path).expanduser())


def _open_s3(url: str, options: dict[str, Any]) -> ObjectStore:
    _refuse_unknown(options, S3_OPTIONS)
    # boto3 takes a third of a second to load, which other stores need not pay.
    from singer_spark.state.s3 import S3Objects

    bucket, _, prefix = url.split("://", 1)[1].partition("/")
    if not bucket:
        raise SettingsError("state: an S3 URL names a bucket, s3://bucket/prefix")
    return S3Objects(bucket, prefix, **options)


def _refuse_unknown(options: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise SettingsError([f"state.{key}: unknown key" for key in unknown])


OPENERS: dict[str, Callable[[str, dict[str, Any]], ObjectStore]] = {
    "file": _open_folder,
    "s3": _open_s3,
    "s3a": _open_s3,
}
