"""Which place a URL, a path or a mapping means. Nobody else knows the schemes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from singer_spark.errors import SettingsError
from singer_spark.storage.folder import FolderObjects
from singer_spark.storage.objects import ObjectStore

# What is imported inside functions takes a while to load, or is an extra: other stores need it not.
Options = dict[str, Any]
MELTANO = "meltano+"


class UnknownSchemeError(SettingsError):
    """Nothing is known to be kept under such a URL. Choose another place."""


def open_objects(place: str | os.PathLike[str] | Mapping[str, Any]) -> ObjectStore:
    """Open the place that a folder's path, a URL or a mapping describes."""
    if isinstance(place, Mapping):
        return _from_config(dict(place))
    return _open_url(os.fspath(place), {})


def _open_url(url: str, options: Options) -> ObjectStore:
    scheme = url.split("://", 1)[0].lower() if "://" in url else "file"
    if scheme.startswith(MELTANO):
        return _open_meltano(url, options)
    if scheme not in OPENERS:
        known = ", ".join(f"{name}://" for name in OPENERS)
        raise UnknownSchemeError(
            f"state: unknown scheme {scheme}://; use a folder's path, {known} or Meltano's layout "
            f"by {MELTANO}file://, {MELTANO}s3://, …"
        )
    return OPENERS[scheme](url, options)


def _from_config(config: Options) -> ObjectStore:
    """Accept {url}, {type: file, path} and {type: s3, bucket, prefix}, with options beside."""
    kind = config.pop("type", None)
    if "url" in config:
        url = str(config.pop("url"))
    elif kind == "file" and "path" in config:
        url = os.fspath(config.pop("path"))
    elif kind == "s3" and "bucket" in config:
        url = f"s3://{config.pop('bucket')}/{config.pop('prefix', '')}"
    else:
        raise SettingsError("state: give url, or type file with path, or type s3 with bucket")
    return _open_url(url, config)


def _open_folder(url: str, options: Options) -> ObjectStore:
    _check(options, ())
    if "://" not in url:
        path = url
    else:
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            raise SettingsError("state: a file URL has three slashes, file:///folder")
        path = unquote(parts.path)
    if not path:
        raise SettingsError("state: the folder's path is empty; give one, file:///folder")
    return FolderObjects(Path(path).expanduser())


def _open_s3(url: str, options: Options) -> ObjectStore:
    _check(options, ("endpoint_url", "region"))
    from singer_spark.storage.s3 import S3Objects

    bucket, _, prefix = url.split("://", 1)[1].partition("/")
    if not bucket:
        raise SettingsError("state: an S3 URL names a bucket, s3://bucket/prefix")
    if "@" in bucket:
        raise SettingsError(
            "state: an S3 URL holds no keys; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
            "use a profile or a role"
        )
    return S3Objects(bucket, prefix, **options)


def _open_sql(url: str, options: Options) -> ObjectStore:
    _check(options, ("table",))
    from singer_spark.storage.sql import SqlObjects, open_database

    return SqlObjects(open_database(url), **options)


def _open_cloud(url: str, options: Options) -> ObjectStore:
    try:
        from singer_spark.storage.cloud import open_cloud
    except ModuleNotFoundError:
        raise SettingsError(
            f"state: {url.split('://')[0]}:// needs obstore; pip install 'singer-spark[cloud]'"
        ) from None
    return open_cloud(url, options)


def _open_meltano(url: str, options: Options) -> ObjectStore:
    from singer_spark.storage.meltano import MeltanoObjects

    inner = url[len(MELTANO) :]
    scheme = inner.split("://", 1)[0].lower()
    if OPENERS.get(scheme) not in (_open_folder, _open_s3, _open_cloud):
        raise SettingsError(
            "state: Meltano's layout is known in file://, s3://, gs:// and az://, as in "
            f"{MELTANO}s3://bucket/prefix"
        )
    return MeltanoObjects(_open_url(inner, options))


def _check(options: Options, known: tuple[str, ...]) -> None:
    """Refuse what is no option, or no text."""
    problems = [f"state.{key}: unknown key" for key in sorted(set(options) - set(known))]
    problems += [
        f"state.{key}: must be a text that is not empty; quote it"
        for key in known
        if key in options and not (isinstance(options[key], str) and options[key])
    ]
    if problems:
        raise SettingsError(problems)


OPENERS: dict[str, Callable[[str, Options], ObjectStore]] = {
    "file": _open_folder,
    **dict.fromkeys(("s3", "s3a"), _open_s3),
    **dict.fromkeys(("gs", "az", "azure", "abfs", "abfss"), _open_cloud),
    **dict.fromkeys(("sqlite", "postgresql", "postgres", "postgresql+psycopg"), _open_sql),
    **dict.fromkeys(("mysql", "mariadb", "mysql+pymysql"), _open_sql),
}
