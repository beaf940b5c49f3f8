"""Stream maps and flattening: the lane that records take when they must be changed on the way.

The SDK's own mapper decides; here records are decoded and encoded around it without bending a
number: decimals stay decimals, whole numbers stay as long as they are.
"""

from __future__ import annotations

import ast
import copy
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import msgspec
from singer_sdk.exceptions import MapExpressionError, StreamMapConfigError
from singer_sdk.mapper import (
    PluginMapper,
    RemoveRecordTransform,
    SameRecordTransform,
    StreamMap,
)
from typing_extensions import override

from singer_spark.errors import SettingsError
from target_spark_delta.intake.messages import Message
from target_spark_delta.intake.validation import DELETED_AT, TOO_MANY_DIGITS, InvalidRecordError

logger = logging.getLogger(__name__)
# What expressions raise on values that they were not made for.
_MAP_ERRORS = (
    MapExpressionError,
    StreamMapConfigError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
)
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True)
class StreamMapping:
    """What becomes of one stream under one alias; it can travel to other processes."""

    settings: Mapping[str, Any]  # the settings that concern maps
    stream: str  # the stream
    schema: Mapping[str, Any]  # its JSON Schema as it came
    keys: Sequence[str] | None  # its key properties as they came
    index: int = 0  # which of the stream's maps it is

    @property
    def alias(self) -> str:
        """Name the stream that comes out."""
        return self._map.stream_alias

    @property
    def mapped_schema(self) -> dict[str, Any]:
        """Return the JSON Schema that comes out."""
        return self._map.transformed_schema

    @property
    def mapped_keys(self) -> list[str] | None:
        """Return the key properties that come out."""
        keys = self._map.transformed_key_properties
        return None if keys is None else list(keys)

    @property
    def if_needed(self) -> StreamMapping | None:
        """Return itself, None where records come out as they came."""
        is_same = isinstance(self._map, SameRecordTransform) and not self._map.flattening_enabled
        return None if is_same else self

    def keeps(self, names: Iterable[str]) -> bool:
        """Say whether a record has these properties, as they come out, already when it comes."""
        known = self.schema.get("properties", {})
        return all(
            name in known and not changes_values(self.settings, self.stream, name) for name in names
        )

    def apply(self, raw: bytes | msgspec.Raw, line: int) -> bytes | None:
        """Return what becomes of a record, None where a filter takes it out."""
        try:
            record = _decode(raw)
        except msgspec.ValidationError as error:
            raise InvalidRecordError(self.alias, line, TOO_MANY_DIGITS) from error
        if not isinstance(record, dict):
            return bytes(raw)
        try:
            return self._transformed(record)
        except _MAP_ERRORS as error:
            # Their text repeats the expression, which may hold a secret.
            is_secret = isinstance(error, (MapExpressionError, StreamMapConfigError))
            kind = type(error.__cause__ or error).__name__
            reason, shown = (
                f"its stream map fails: {one}; look at stream_maps"
                for one in (kind if is_secret else str(error), kind)
            )
            raise InvalidRecordError(self.alias, line, reason, shown) from error

    def _transformed(self, record: dict[str, Any]) -> bytes | None:
        mapped = self._map.transform(record)
        if mapped is None:
            return None
        if record.get(DELETED_AT) is not None:
            # A deletion stays one, whatever the map leaves out.
            mapped[DELETED_AT] = record[DELETED_AT]
        return _encode(_spelled(mapped))

    def mapped(self, message: Message) -> Message | None:
        """Return a RECORD as it comes out, None where a filter takes it out."""
        record = self.apply(message.record, message.number)
        if record is None:
            return None
        return msgspec.structs.replace(message, record=msgspec.Raw(record))

    @cached_property
    def _map(self) -> StreamMap:
        return _maps(self)[self.index]

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made anew where it is needed."""
        return {name: value for name, value in self.__dict__.items() if name != "_map"}


def _spelled(value: Any) -> Any:
    """Write the numbers that JSON lacks as text; their column judges them."""
    if isinstance(value, dict):
        return {name: _spelled(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_spelled, value))
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        return str(Decimal(value))
    return value


def changes_values(settings: Mapping[str, Any], stream: str, column: str) -> bool:
    """Say whether a map of a stream makes other values of a column."""
    maps = _maps_of(settings, stream)
    return any(parts.get(column, column) not in (column, "self") for parts in maps)


def drops_records(settings: Mapping[str, Any], stream: str) -> bool:
    """Say whether a map of a stream leaves records out."""
    return any("__filter__" in parts for parts in _maps_of(settings, stream))


def _maps_of(settings: Mapping[str, Any], stream: str) -> Iterator[Mapping[str, Any]]:
    """Give the maps whose records come from a stream."""
    for pattern, parts in settings.get("stream_maps", {}).items():
        if isinstance(parts, Mapping):
            source = str(parts.get("__source__", pattern))
            if fnmatchcase(stream, source):
                yield parts


def mappings_of(
    settings: Mapping[str, Any],
    stream: str,
    schema: Mapping[str, Any],
    keys: Sequence[str] | None,
) -> Iterator[StreamMapping]:
    """Give what becomes of a stream: nothing, itself, another, or several."""
    first = StreamMapping(settings, stream, schema, keys)
    for index, one in enumerate(_maps(first)):
        if not isinstance(one, RemoveRecordTransform):
            yield replace(first, index=index)


def _maps(of: StreamMapping) -> list[StreamMap]:
    settings, stream = of.settings, of.stream
    try:
        mapper = PluginMapper(copy.deepcopy(dict(settings)), logger)
        mapper.register_raw_stream_schema(stream, copy.deepcopy(dict(of.schema)), of.keys)
    except StreamMapConfigError as error:
        raise SettingsError(f"stream_maps: stream {stream}: {error}") from error
    except _MAP_ERRORS as error:
        named = ", ".join(_unreadable(settings.get("stream_maps", {}))) or "its map"
        raise SettingsError(
            f"stream_maps: stream {stream}: {named} is no expression; correct it"
        ) from error
    return mapper.stream_maps[stream]


def _unreadable(stream_maps: Mapping[str, Any]) -> Iterator[str]:
    """Name the properties whose expression is none."""
    for key, parts in stream_maps.items():
        for name, expression in parts.items() if isinstance(parts, Mapping) else ():
            if isinstance(expression, str) and not _is_expression(expression):
                yield f"{key}.{name}"


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True
