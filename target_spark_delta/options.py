"""What may be chosen for one stream: declared once, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from singer_sdk import typing as th

LOAD_METHODS = ("upsert", "append-only")
STREAM_OPTIONS = th.ObjectType(
    th.Property("load_method", th.StringType(allowed_values=list(LOAD_METHODS))),
    th.Property("key_properties", th.ArrayType(th.StringType)),
    th.Property("partial_records", th.BooleanType),
    th.Property("allow_rewrite", th.BooleanType),
    additional_properties=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """What holds for one stream."""

    load_method: str
    key_properties: tuple[str, ...] | None
    partial_records: bool
    allow_rewrite: bool

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> StreamSettings:
        """Read the options of a stream, those that hold for all streams included."""
        keys = options.get("key_properties")
        return cls(
            load_method=options["load_method"],
            key_properties=None if keys is None else tuple(keys),
            partial_records=options.get("partial_records", False),
            allow_rewrite=options.get("allow_rewrite", False),
        )
