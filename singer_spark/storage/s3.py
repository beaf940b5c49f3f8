"""State in S3 or anything that speaks it: conditional writes, one object per request.

Endpoint, region and keys come by the usual AWS means (AWS_ENDPOINT_URL_S3, AWS_PROFILE, roles, …).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from singer_spark.errors import StateError
from singer_spark.storage import objects
from singer_spark.storage.objects import Expect, Located, Stored

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

LOST_RACE = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
MISSING = {"NoSuchKey", "404"}


class S3Objects(Located):
    """Objects under a prefix of a bucket."""

    def __init__(
        self, bucket: str, prefix: str, endpoint_url: str | None = None, region: str | None = None
    ) -> None:
        self.bucket, self.prefix = bucket, prefix.strip("/")
        self.place = f"s3://{self.bucket}/{self.prefix}".rstrip("/")
        with self._explained("connect"):
            self._client = _connect(endpoint_url, region)

    def read(self, key: str) -> Stored | None:
        """Read one object."""
        with self._explained("read"):
            try:
                found = self._client.get_object(**self._place(key))
            except ClientError as error:
                if _code(error) in MISSING:
                    return None
                raise
            return Stored(found["Body"].read(), found["ETag"])

    def write(self, key: str, body: bytes, expected: str | Expect) -> str:
        """Put one object, if the stored one still is what the writer expects."""
        with self._explained("write"):
            try:
                given = {**self._place(key), "ContentType": "application/json"}
                return self._client.put_object(Body=body, **given, **_condition(expected))["ETag"]
            except ClientError as error:
                if _code(error) not in LOST_RACE | MISSING:
                    raise
        return objects.resolve_lost_race(self, key, body)

    def delete(self, key: str, expected: str | Expect = Expect.ANYTHING) -> None:
        """Delete one object, if it still is what is expected."""
        objects.refuse_another_version(self, key, expected)
        with self._explained("delete"):
            self._client.delete_object(**self._place(key))

    def list(self, folder: str) -> list[str]:
        """List the names directly under a folder."""
        known = "/".join(filter(None, (self.prefix, folder)))
        prefix = f"{known.rstrip('/')}/" if known else ""
        names: list[str] = []
        with self._explained("list"):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix, Delimiter="/"):
                names += [item["Key"][len(prefix) :] for item in page.get("Contents", [])]
                names += [item["Prefix"][len(prefix) :] for item in page.get("CommonPrefixes", [])]
        return [name for name in names if name]

    def _place(self, key: str) -> dict[str, Any]:
        return {"Bucket": self.bucket, "Key": f"{self.prefix}/{key}" if self.prefix else key}

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        """Turn the client's errors into one line; its own texts may repeat what was sent."""
        try:
            yield
        except (ClientError, BotoCoreError, ValueError) as error:
            reason = _code(error) if isinstance(error, ClientError) else type(error).__name__
            raise StateError(
                f"{self.place}: cannot {verb} ({reason}); check the bucket, endpoint "
                "and credentials, which must allow to get, put, delete and list objects"
            ) from error


def _connect(endpoint_url: str | None, region: str | None) -> S3Client:
    settings: dict[str, Any] = {
        "connect_timeout": 10,
        "read_timeout": 30,
        # Newer checksums are refused by many servers that speak S3.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
    session = boto3.session.Session(region_name=region)
    client = session.client("s3", endpoint_url=endpoint_url, config=Config(**settings))
    host = urlsplit(client.meta.endpoint_url).hostname or ""
    if host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        return client
    # Other servers seldom have a DNS name per bucket.
    settings["s3"] = {"addressing_style": "path"}
    return session.client("s3", endpoint_url=endpoint_url, config=Config(**settings))


def _condition(expected: str | Expect) -> dict[str, Any]:
    if expected is Expect.ANYTHING:
        return {}
    return {"IfNoneMatch": "*"} if expected is Expect.ABSENT else {"IfMatch": expected}


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))
