"""Two schemas into the changes between them, or an error that says what would be lost.

Nothing here needs a running session.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import types as T

from singer_spark.errors import SchemaError

# How many digits an integer type can need, as a decimal.
_INTEGER_DIGITS: dict[type[T.DataType], int] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 19,
}
# How many whole digits Delta wants of a decimal that takes the place of an integer.
_DIGITS_IN_PLACE: dict[type[T.DataType], int] = {
    T.ByteType: 10,
    T.ShortType: 10,
    T.IntegerType: 10,
    T.LongType: 20,
}
_TIMES = {T.TimestampType, T.TimestampNTZType}


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column, at the top or inside a struct; path parts `element` and `value` as in SQL."""

    path: tuple[str, ...]
    datatype: T.DataType
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Widen:
    """A column whose type must hold more than it did."""

    path: tuple[str, ...]
    before: T.DataType
    after: T.DataType


@dataclass(frozen=True, slots=True)
class Relax:
    """A column that may be null from now on."""

    path: tuple[str, ...]


Change = AddColumn | Widen | Relax


def changed(
    field: T.StructField,
    *,
    name: str | None = None,
    kind: T.DataType | None = None,
    nullable: bool = True,
) -> T.StructField:
    """Return a column with another name or type, or one that may not be null."""
    datatype, nullable = kind or field.dataType, nullable and field.nullable
    return T.StructField(name or field.name, datatype, nullable, metadata=field.metadata)


def unify(
    table: T.StructType, incoming: T.StructType, *, name: str = "", dates: bool = False
) -> T.StructType:
    """Return the schema that holds what the table has and what is coming, in the table's order.

    Messages call the table `name`. With `dates` a date may become the midnight, UTC, at which it
    begins.
    """
    return _Unifier(dates=dates).struct((name,) if name else (), table, incoming)


def changes(table: T.StructType, unified: T.StructType) -> list[Change]:
    """List what has to change for the table to get the unified schema."""
    return list(_changes((), table, unified))


def widens_in_place(change: Widen) -> bool:
    """Say whether Delta, where a table allows it, widens a column without a rewrite."""
    before, after = change.before, change.after
    if isinstance(after, T.DecimalType) and type(before) in _DIGITS_IN_PLACE:
        return after.precision - after.scale >= _DIGITS_IN_PLACE[type(before)]
    return not isinstance(after, T.TimestampType)


def relaxed(table: T.StructType, incoming: T.StructType) -> list[Relax]:
    """List the columns that the table requires and what is coming need not have."""
    required = {field.name.lower() for field in incoming if not field.nullable}
    return [
        Relax((field.name,))
        for field in table
        if not field.nullable and field.name.lower() not in required
    ]


@dataclass(frozen=True, slots=True)
class _Unifier:
    dates: bool

    def struct(
        self, path: tuple[str, ...], before: T.StructType, after: T.StructType
    ) -> T.StructType:
        coming = {field.name.lower(): field for field in after}
        fields = []
        for field in before:
            new = coming.pop(field.name.lower(), None)
            kind = self._type((*path, field.name), field.dataType, new.dataType) if new else None
            fields.append(changed(field, kind=kind))
        return T.StructType([*fields, *coming.values()])

    def _type(self, path: tuple[str, ...], before: T.DataType, after: T.DataType) -> T.DataType:
        if before == after or isinstance(after, T.NullType):
            return before
        if isinstance(before, T.StructType) and isinstance(after, T.StructType):
            return self.struct(path, before, after)
        if isinstance(before, T.ArrayType) and isinstance(after, T.ArrayType):
            element = self._type((*path, "element"), before.elementType, after.elementType)
            return T.ArrayType(element)
        if isinstance(before, T.MapType) and isinstance(after, T.MapType):
            value = self._type((*path, "value"), before.valueType, after.valueType)
            return T.MapType(before.keyType, value)
        wider = self._wider(before, after)
        if wider is None:
            raise SchemaError(_refusal(path, before, after))
        return wider

    def _wider(self, before: T.DataType, after: T.DataType) -> T.DataType | None:
        """Return the narrowest type that holds the table's values and those to come, or None."""
        kinds = {type(before), type(after)}
        if kinds <= set(_INTEGER_DIGITS):
            return max(before, after, key=lambda kind: _INTEGER_DIGITS[type(kind)])
        if kinds == {T.FloatType, T.DoubleType}:
            return T.DoubleType()
        if T.DoubleType in kinds and kinds & _whole_numbers_for_double(before):
            return T.DoubleType()
        if kinds <= {T.DecimalType, *_INTEGER_DIGITS}:
            return _wider_decimal(_as_decimal(before), _as_decimal(after))
        if self.dates and T.DateType in kinds and kinds & _TIMES:
            return before if isinstance(after, T.DateType) else after
        return None


def _refusal(path: tuple[str, ...], before: T.DataType, after: T.DataType) -> str:
    kinds = {type(before), type(after)}
    way_out = (
        "set date_to_timestamp: true in stream_options"
        if T.DateType in kinds and kinds & _TIMES
        else "give the column another name in the tap, or change the table"
    )
    return (
        f"{'.'.join(path)}: {after.simpleString()} does not fit the table's "
        f"{before.simpleString()}, and no type holds both without loss; {way_out}"
    )


def _whole_numbers_for_double(before: T.DataType) -> set[type[T.DataType]]:
    """A whole number is a plain number too; but a bigint that is stored need not fit a double."""
    if isinstance(before, T.DoubleType):
        return set(_INTEGER_DIGITS)
    return {T.ByteType, T.ShortType, T.IntegerType}


def _as_decimal(datatype: T.DataType) -> T.DecimalType:
    if isinstance(datatype, T.DecimalType):
        return datatype
    return T.DecimalType(_INTEGER_DIGITS[type(datatype)], 0)


def _wider_decimal(one: T.DecimalType, other: T.DecimalType) -> T.DecimalType | None:
    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    return T.DecimalType(precision, scale) if precision <= 38 else None


def _changes(path: tuple[str, ...], before: T.DataType, after: T.DataType) -> Iterator[Change]:
    if isinstance(before, T.StructType) and isinstance(after, T.StructType):
        known = {field.name.lower(): field for field in before}
        for field in after:
            old = known.get(field.name.lower())
            if old is None:
                comment = field.metadata.get("comment")
                yield AddColumn((*path, field.name), field.dataType, comment)
            else:
                yield from _changes((*path, field.name), old.dataType, field.dataType)
    elif isinstance(before, T.ArrayType) and isinstance(after, T.ArrayType):
        yield from _changes((*path, "element"), before.elementType, after.elementType)
    elif isinstance(before, T.MapType) and isinstance(after, T.MapType):
        yield from _changes((*path, "value"), before.valueType, after.valueType)
    elif before != after:
        yield Widen(path, before, after)
