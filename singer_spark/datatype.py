"""Reads the text of a Spark type (`decimal(20,5)`, `map<string,int>`) without a session."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from pyspark.sql import types as T

from singer_spark.names import literal, quote

_ATOMS: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
}
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|([A-Za-z_][\w$-]*)|(\d+)|([<>(),:]))")


def parse_datatype(text: str) -> T.DataType | None:
    """Return the Spark type that the text names, or None where it names none of ours."""
    tokens = _tokens(text)
    if tokens is None:
        return None
    try:
        datatype = _datatype(tokens)
    except (IndexError, KeyError, ValueError):
        return None
    return None if tokens else datatype


def _tokens(text: str) -> list[str] | None:
    """Split into tokens, the first one last, so that pop() takes them in order."""
    tokens, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        tokens.append(match[0].strip())
        position = match.end()
    return tokens[::-1]


def _expect(tokens: list[str], wanted: str) -> None:
    if tokens.pop() != wanted:
        raise ValueError(wanted)


def _datatype(tokens: list[str]) -> T.DataType:
    name = tokens.pop().lower()
    if name == "decimal":
        return _decimal(tokens)
    if name == "array":
        _expect(tokens, "<")
        element = _datatype(tokens)
        _expect(tokens, ">")
        return T.ArrayType(element)
    if name == "map":
        _expect(tokens, "<")
        key = _datatype(tokens)
        _expect(tokens, ",")
        value = _datatype(tokens)
        _expect(tokens, ">")
        if isinstance(key, (T.StructType, T.ArrayType, T.MapType)):
            raise ValueError(name)  # JSON has no such names
        return T.MapType(key, value)
    if name == "struct":
        return _struct(tokens)
    return _ATOMS[name]


def _decimal(tokens: list[str]) -> T.DecimalType:
    _expect(tokens, "(")
    precision = int(tokens.pop())
    _expect(tokens, ",")
    scale = int(tokens.pop())
    _expect(tokens, ")")
    if not 0 <= scale <= precision <= 38:
        raise ValueError(precision)
    return T.DecimalType(precision, scale)


def _struct(tokens: list[str]) -> T.StructType:
    _expect(tokens, "<")
    fields: list[T.StructField] = []
    while True:
        name = tokens.pop()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        _expect(tokens, ":")
        fields.append(T.StructField(name, _datatype(tokens)))
        if tokens.pop() == ">":
            return T.StructType(fields)


def to_ddl(datatype: T.DataType, *, comments: bool = False) -> str:
    """Write a Spark type as SQL; the only way, because here every nested name is quoted.

    Args:
        datatype: The type.
        comments: Whether the comments on nested names are written too.
    """
    write = partial(to_ddl, comments=comments)
    if isinstance(datatype, T.StructType):
        fields = ",".join(
            f"{quote(field.name)}:{write(field.dataType)}{comment_ddl(field) if comments else ''}"
            for field in datatype
        )
        return f"struct<{fields}>"
    if isinstance(datatype, T.ArrayType):
        return f"array<{write(datatype.elementType)}>"
    if isinstance(datatype, T.MapType):
        return f"map<{write(datatype.keyType)},{write(datatype.valueType)}>"
    return datatype.simpleString()


def comment_ddl(field: T.StructField) -> str:
    """Write a field's comment as SQL, if it has one."""
    comment = field.metadata.get("comment")
    return f" comment {literal(comment)}" if comment else ""


def column_names(datatype: T.DataType) -> Iterable[str]:
    """Name all columns, those inside structs too."""
    if isinstance(datatype, T.StructType):
        for column in datatype:
            yield column.name
            yield from column_names(column.dataType)
    elif isinstance(datatype, T.ArrayType):
        yield from column_names(datatype.elementType)
    elif isinstance(datatype, T.MapType):
        yield from column_names(datatype.valueType)
