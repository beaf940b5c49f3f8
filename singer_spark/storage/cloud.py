"""State in Google Cloud Storage or Azure, through obstore: conditional writes.

Credentials come by the usual means of each cloud (GOOGLE_APPLICATION_CREDENTIALS,
AZURE_STORAGE_ACCOUNT_NAME, …), or as options beside the URL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, final

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    PreconditionError,
    UnknownConfigurationKeyError,
)
from obstore.store import from_url

from singer_spark.errors import SettingsError, StateError
from singer_spark.storage import objects
from singer_spark.storage.objects import Expect, Located, Stored

if TYPE_CHECKING:
    from obstore.store import ObjectStore as CloudStore

# A server that is gone must not hold a heartbeat for longer than a lock lives.
TIMEOUTS = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(seconds=30)}
RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
LOST_RACE = (AlreadyExistsError, PreconditionError)
# obstore tells of a missing object by either, depending on its version.
MISSING = (NotFoundError, FileNotFoundError)


@final
class CloudObjects(Located):
    """Objects under the prefix of a bucket or container."""

    def __init__(self, store: CloudStore, place: str) -> None:
        self._store, self.place = store, place

    def read(self, key: str) -> Stored | None:
        """Read one object."""
        with self._explained("read"):
            try:
                found = obstore.get(self._store, key)
                return Stored(bytes(found.bytes()), _tag(found.meta))
            except MISSING:
                return None

    def write(self, key: str, body: bytes, expected: str | Expect) -> str:
        """Put one object, if the stored one still is what the writer expects."""
        with self._explained("write"):
            try:
                mode = _mode(expected)
                return _tag(obstore.put(self._store, key, body, mode=mode, use_multipart=False))
            except LOST_RACE:
                pass
        return objects.resolve_lost_race(self, key, body)

    def delete(self, key: str, expected: str | Expect = Expect.ANYTHING) -> None:
        """Delete one object, if it still is what is expected."""
        objects.refuse_another_version(self, key, expected)
        with self._explained("delete"):
            try:
                obstore.delete(self._store, key)
            except MISSING:
                return

    def list(self, folder: str) -> list[str]:
        """List the names directly under a folder."""
        with self._explained("list"):
            found = obstore.list_with_delimiter(self._store, folder or None)
        start = len(folder) + 1 if folder else 0
        names = [item["path"][start:] for item in found["objects"]]
        return names + [f"{prefix[start:]}/" for prefix in found["common_prefixes"]]

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise StateError(
                f"{self.place}: cannot {verb} ({_first_line(error)}); check the "
                "bucket and the credentials, which must allow to get, put, delete and list objects"
            ) from error


def open_cloud(url: str, options: Mapping[str, Any]) -> CloudObjects:
    """Open the bucket of a URL; what it lacks (account, keys) is found in the environment."""
    client = {**TIMEOUTS, "allow_http": str(options.get("endpoint", "")).startswith("http://")}
    try:
        store = from_url(url, config=dict(options), client_options=client, retry_config=RETRIES)  # type: ignore[call-overload]
    except UnknownConfigurationKeyError:
        raise SettingsError(
            f"state: of {', '.join(sorted(options))} not all are options of "
            f"{url.split(':')[0]}://; docs/state.md names them"
        ) from None
    except (BaseError, ValueError, TypeError) as error:
        raise SettingsError(
            f"state: {url.split(':')[0]}:// cannot be opened ({_first_line(error)}); write "
            "gs://bucket/prefix, or az://container/prefix with AZURE_STORAGE_ACCOUNT_NAME set"
        ) from None
    return CloudObjects(store, re.sub(r"\?.*", "", url).rstrip("/"))


def _tag(meta: Mapping[str, Any]) -> str:
    """Keep what a later condition needs: an e_tag for Azure, a version for Google."""
    return json.dumps([meta["e_tag"], meta["version"]])


def _mode(expected: str | Expect) -> Any:
    if isinstance(expected, Expect):
        return "overwrite" if expected is Expect.ANYTHING else "create"
    known = zip(("e_tag", "version"), json.loads(expected), strict=True)
    return {name: value for name, value in known if value is not None}


def _first_line(error: Exception) -> str:
    """Take the error's first line without the queries of URLs, which may carry signatures."""
    return re.sub(r"\?\S+", "", str(error).strip().split("\n", 1)[0])[:200]
