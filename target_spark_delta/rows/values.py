"""SQL that turns a record's text into typed values to any depth, and refuses what does not fit.

Every scalar is read as the exact text that stood in the record. Spark's own JSON types bend values
without a word: 1.239 becomes 1.24 in a decimal(10,2), 1e400 becomes Infinity, nanoseconds are cut,
a bare number is taken for seconds since 1970. So each type states here what it takes. Nothing here
needs a running session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from pyspark.sql import types as T

from singer_spark.names import literal, quote
from singer_spark.shown import A_VALUE, shows_values
from singer_spark.types import to_ddl

_Types = tuple[T.DataType, T.DataType]
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6}0*)?)?"
_OFFSET = r" ?(Z|z|[+-][0-9]{2}(:?[0-9]{2}(:[0-9]{2})?)?)"
_TIMESTAMP = f"^{_DATE}([T ]{_TIME}({_OFFSET})?)?$"
_TIMESTAMP_NTZ = f"^{_DATE}([T ]{_TIME})?$"
_DATE_ONLY = f"^{_DATE}([T ]00:00(:00([.]0+)?)?(Z|z|[+-]00:?00)?)?$"
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_EXPONENT = r"^[+-]?([0-9]+)([.]([0-9]*))?[eE]([+-]?[0-9]{1,4})$"


def wire_type(datatype: T.DataType) -> T.DataType:
    """Return the type in which a column is read: its own shape, but all scalars as text."""
    if isinstance(datatype, T.StructType):
        return T.StructType([T.StructField(f.name, wire_type(f.dataType)) for f in datatype])
    if isinstance(datatype, T.ArrayType):
        return T.ArrayType(wire_type(datatype.elementType))
    if isinstance(datatype, T.MapType):
        return T.MapType(T.StringType(), wire_type(datatype.valueType))
    return T.StringType()


def typed(text: str, declared: T.DataType, target: T.DataType, path: str, line: str | None) -> str:
    """Return SQL for the value of a column, whose text has the type `wire_type(declared)`.

    The table's type `target` may be wider and have more fields. What does not fit raises an error
    that names the path and the line, which is SQL; without a line it becomes null, see `misfit`.
    """
    return _Values(line).value(text, declared, target, path)


def misfit(text: str, value: str, declared: T.DataType, target: T.DataType, path: str) -> str:
    """Return SQL that tells why a column's text has become no value, null where it has.

    `value` is SQL of what `typed` made of the text, without raising; the message names the path.
    """
    return _misfit(text, value, (declared, target), path, count())


@dataclass(frozen=True, slots=True)
class _Values:
    """SQL for values to any depth."""

    line: str | None
    variables: count[int] = field(default_factory=count)

    def value(self, text: str, declared: T.DataType, target: T.DataType, path: str) -> str:
        if _stays_text(declared, target):
            return text
        if isinstance(declared, T.StructType) and isinstance(target, T.StructType):
            return self.struct(text, declared, target, path)
        if isinstance(declared, T.ArrayType) and isinstance(target, T.ArrayType):
            item = f"v{next(self.variables)}"
            element = self.value(item, declared.elementType, target.elementType, f"{path}[]")
            return text if element == item else f"transform({text}, {item} -> {element})"
        if isinstance(declared, T.MapType) and isinstance(target, T.MapType):
            return self.map(text, declared, target, path)
        refusal = self.refuse(text, target, path)
        value = scalar(text, target)
        if isinstance(declared, T.LongType) and isinstance(target, (T.DoubleType, T.FloatType)):
            value = whole_double(text, target)
        return f"if({text} is null, null, coalesce({value}, {refusal}))"

    def refuse(self, text: str, target: T.DataType, path: str) -> str:
        if self.line is None:
            return "null"
        # Spark logs what it raises, so that a value is not even given to it.
        shown = text if shows_values() else literal(A_VALUE)
        return raised(self.line, _reason(shown, target, path))

    def struct(self, text: str, declared: T.StructType, target: T.StructType, path: str) -> str:
        given = {field.name.lower(): field for field in declared}
        members = []
        for column in target:
            origin = given.get(column.name.lower())
            if origin is None:
                value = f"cast(null as {to_ddl(column.dataType)})"
            else:
                member = f"{text}.{quote(origin.name)}"
                types = origin.dataType, column.dataType
                value = self.value(member, *types, f"{path}.{column.name}")
            members.append(f"{literal(column.name)}, {value}")
        return f"if({text} is null, null, named_struct({', '.join(members)}))"

    def map(self, text: str, declared: T.MapType, target: T.MapType, path: str) -> str:
        key, value = f"k{next(self.variables)}", f"v{next(self.variables)}"
        entry = self.value(value, declared.valueType, target.valueType, f"{path}{{}}")
        typed = text if entry == value else f"transform_values({text}, ({key}, {value}) -> {entry})"
        if isinstance(target.keyType, T.StringType):
            return typed
        keys = f"transform(map_keys({text}), {key} -> {scalar(key, target.keyType)})"
        # No two texts may be the same key, nor may one be none.
        fit = f"size(array_compact(array_distinct({keys}))) = size({text})"
        refusal = self.refuse(f"to_json({text})", target, path)
        made = f"map_from_arrays({keys}, map_values({typed}))"
        return f"if({text} is null, null, if({fit}, {made}, {refusal}))"


def _stays_text(declared: T.DataType, target: T.DataType) -> bool:
    """Say whether a value of the target is just what was read: text, to any depth."""
    if isinstance(target, T.StringType):
        return True
    if isinstance(declared, T.StructType) and isinstance(target, T.StructType):
        return declared.names == target.names and all(
            _stays_text(field.dataType, other.dataType)
            for field, other in zip(declared, target, strict=True)
        )
    if isinstance(declared, T.ArrayType) and isinstance(target, T.ArrayType):
        return _stays_text(declared.elementType, target.elementType)
    return False


def raised(line: str, reason: str) -> str:
    """Return SQL that raises an error with its reason, both SQL."""
    return f"raise_error(concat('line ', {line}, ': ', {reason}))"


def _reason(text: str, target: T.DataType, path: str) -> str:
    return (
        f"concat({literal(f'{path}: ')}, "
        f"if(length({text}) > 60, concat(left({text}, 60), '…'), {text}), "
        f"{literal(f' does not fit {target.simpleString()}')})"
    )


def _misfit(text: str, value: str, types: _Types, path: str, variables: count[int]) -> str:
    declared, target = types
    if isinstance(declared, T.StructType) and isinstance(target, T.StructType):
        known = {field.name.lower(): field for field in target}
        reasons = []
        for member in declared:
            column = known[member.name.lower()]
            texts = f"{text}.{quote(member.name)}", f"{value}.{quote(column.name)}"
            inner = member.dataType, column.dataType
            reasons.append(_misfit(*texts, inner, f"{path}.{column.name}", variables))
        return first_of(reasons)
    if isinstance(declared, T.ArrayType) and isinstance(target, T.ArrayType):
        inner = declared.elementType, target.elementType
        return _misfit_of_items(text, value, inner, f"{path}[]", variables)
    if isinstance(declared, T.MapType) and isinstance(target, T.MapType):
        items = f"map_values({text})", f"map_values({value})"
        inner = declared.valueType, target.valueType
        reason = _misfit_of_items(*items, inner, f"{path}{{}}", variables)
        return first_of([_misfit_of_keys(text, value, target, path), reason])
    if isinstance(target, T.StringType):
        return "null"
    return f"if({text} is not null and {value} is null, {_reason(text, target, path)}, null)"


def _misfit_of_keys(text: str, value: str, target: T.MapType, path: str) -> str:
    if isinstance(target.keyType, T.StringType):
        return "null"
    reason = _reason(f"to_json({text})", target, path)
    return f"if({text} is not null and {value} is null, {reason}, null)"


def _misfit_of_items(
    texts: str, values: str, types: _Types, path: str, variables: count[int]
) -> str:
    text, value, found = (f"{letter}{next(variables)}" for letter in "tvm")
    reason = _misfit(text, value, types, path, variables)
    if reason == "null":
        return reason
    reasons = f"zip_with({texts}, {values}, ({text}, {value}) -> {reason})"
    return f"get(filter({reasons}, {found} -> {found} is not null), 0)"


def first_of(reasons: list[str]) -> str:
    """Return SQL for the first reason that is not null."""
    given = [reason for reason in reasons if reason != "null"]
    return f"coalesce({', '.join(given)})" if given else "null"


def scalar(text: str, datatype: T.DataType) -> str:
    """Return SQL for the value of a text that is not null, null where it does not fit.

    Each type first tries the usual spellings, which are told by their length and a few places,
    and only then pays for a regular expression.
    """
    name = datatype.simpleString()
    if isinstance(datatype, T.BooleanType):
        return f"case {text} when 'true' then true when 'false' then false end"
    if isinstance(datatype, T.IntegralType):
        exact = _exact(text, 38, 0)
        return f"coalesce(try_cast({text} as {name}), try_cast({exact} as {name}))"
    if isinstance(datatype, T.DecimalType):
        return _exact(text, datatype.precision, datatype.scale)
    if isinstance(datatype, (T.FloatType, T.DoubleType)):
        return _floating(text, name)
    if isinstance(datatype, T.BinaryType):
        return f"if({text} rlike r'{_BASE64}', try_to_binary({text}, 'base64'), null)"
    spellings: dict[type[T.DataType], tuple[str, str]] = {
        T.DateType: (
            f"length({text}) = 10 and {_is(text, 5, '-')} and {_is(text, 8, '-')}",
            _DATE_ONLY,
        ),
        T.TimestampType: (
            f"{_is(text, 5, '-')} and {_is(text, 8, '-')} and {_is(text, 14, ':')} "
            f"and {_is(text, 17, ':')} and {_is_digit(text, 19)} "
            f"and not ({_is(text, 20, '.')} and {_is_digit(text, 27)})",
            _TIMESTAMP,
        ),
        T.TimestampNTZType: (
            f"length({text}) = 26 and {_is(text, 20, '.')} and {_is_digit(text, 21)} "
            f"and try_cast(substring({text}, 21, 6) as int) is not null",
            _TIMESTAMP_NTZ,
        ),
    }
    usual, pattern = spellings[type(datatype)]
    other = f"left({text}, 10)" if isinstance(datatype, T.DateType) else f"upper({text})"
    return (
        f"coalesce(if({usual}, try_cast({text} as {name}), null), "
        f"if({text} rlike r'{pattern}', try_cast({other} as {name}), null))"
    )


def whole_double(text: str, datatype: T.DataType) -> str:
    """Return SQL for a whole number as a double, null where that is another number."""
    value = scalar(text, datatype)
    # The cast of 2^63 to bigint gives the number before it.
    same = f"try_cast({value} as bigint) = {scalar(text, T.LongType())} and {value} < pow(2, 63)"
    return f"if({same}, {value}, null)"


def _is(text: str, place: int, char: str) -> str:
    return f"substring({text}, {place}, 1) = '{char}'"


def _is_digit(text: str, place: int) -> str:
    return f"substring({text}, {place}, 1) between '0' and '9'"


def _exact(text: str, precision: int, scale: int) -> str:
    """Return SQL for a decimal, null where digits would be lost."""
    value = f"try_cast({text} as decimal({precision},{scale}))"
    point = f"instr({text}, '.')"
    usual = (
        f"({point} = 0 or length({text}) - {point} <= {scale}) "
        f"and instr({text}, 'e') = 0 and instr({text}, 'E') = 0"
    )
    plain = f"r'^[+-]?[0-9]+([.][0-9]{{0,{scale}}}0*)?$'"
    # The digits after the point that an exponent leaves over, zeros at the end not counted.
    part = f"regexp_extract({text}, r'{_EXPONENT}', "
    digits = f"concat({part}1), {part}3))"
    needed = (
        f"length({part}3)) - (length({digits}) - length(rtrim('0', {digits}))) "
        f"- cast({part}4) as int)"
    )
    return (
        f"case when {usual} then {value} when {text} rlike {plain} then {value} "
        f"when {text} rlike r'{_EXPONENT}' and {needed} <= {scale} then {value} end"
    )


def _floating(text: str, name: str) -> str:
    """Return SQL for a double: no overflow, and none of Java's own spellings (1.5d, 0x1p3)."""
    value = f"try_cast({text} as {name})"
    return (
        f"case when abs({value}) < {name}('Infinity') and right({text}, 1) <= '9' "
        f"and instr({text}, 'x') = 0 and instr({text}, 'X') = 0 then {value} "
        f"when {text} in ('NaN', 'Infinity', '-Infinity') then {value} end"
    )
