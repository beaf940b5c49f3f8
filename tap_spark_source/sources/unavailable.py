"""What Debezium writes in place of a large value that did not change, by the value's type.

PostgreSQL leaves such a value (of its TOAST storage) out of the log; Debezium then puts a text in
its place, or what an array or map can hold of that text. Pure.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Sequence

from pyspark.sql import types as T

from singer_spark.names import literal
from singer_spark.types import parse_datatype, to_ddl

_TEXT = "__debezium_unavailable_value"
_BYTES = _TEXT.encode()
# One text as it is, as bytes, and as the UUID that Java makes of a name.
_TEXTS = (
    _TEXT,
    base64.b64encode(_BYTES).decode(),
    str(uuid.UUID(bytes=hashlib.md5(_BYTES, usedforsecurity=False).digest(), version=3)),
)
_ARRAYS = (*([text] for text in _TEXTS), list(_BYTES))
# Without a schema, arrays and maps are read as the JSON that they are.
_ALL_TEXTS = (
    *_TEXTS[:2],
    *(json.dumps(value, separators=(",", ":")) for value in (*_ARRAYS, {_TEXT: _TEXT})),
)


def is_unavailable(values: Sequence[tuple[str, str]]) -> str | None:
    """Return SQL that is true where one of the values is missing, None where none can be.

    Args:
        values: The SQL of each value, and its type in the event's JSON.
    """
    parsed = [(value, parse_datatype(kind)) for value, kind in values]
    texts = [value for value, kind in parsed if isinstance(kind, T.StringType)]
    conditions = [
        condition for value, kind in parsed if kind and (condition := _is_missing(value, kind))
    ]
    if texts:
        marks = ", ".join(map(literal, _ALL_TEXTS))
        conditions.append(f"arrays_overlap(array({', '.join(texts)}), array({marks}))")
    return " or ".join(conditions) or None


def _is_missing(value: str, kind: T.DataType) -> str | None:
    if isinstance(kind, T.ArrayType):
        if isinstance(kind.elementType, T.StringType):
            marks = ", ".join(f"array({literal(text)})" for text in _TEXTS)
            return f"{value} in ({marks})"
        if isinstance(kind.elementType, T.IntegralType):
            codes = ", ".join(map(str, _BYTES))
            return f"{value} = cast(array({codes}) as {to_ddl(kind)})"
    is_of_texts = isinstance(kind, T.MapType) and isinstance(kind.valueType, T.StringType)
    return f"{value}[{literal(_TEXT)}] = {literal(_TEXT)}" if is_of_texts else None
