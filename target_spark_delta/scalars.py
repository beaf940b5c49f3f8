"""SQL that turns the text of one scalar into a value, exactly or not at all.

Spark's own JSON types bend values without a word: 1.239 becomes 1.24 in a decimal(10,2), 1e400
becomes Infinity, nanoseconds are cut, a bare number is taken for seconds since 1970. So each type
states here what it takes. Nothing here needs a running session.
"""

from __future__ import annotations

from pyspark.sql import types as T

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6}0*)?)?"
_OFFSET = r" ?(Z|z|[+-][0-9]{2}(:?[0-9]{2}(:[0-9]{2})?)?)"
_TIMESTAMP = f"^{_DATE}([T ]{_TIME}({_OFFSET})?)?$"
_TIMESTAMP_NTZ = f"^{_DATE}([T ]{_TIME})?$"
_DATE_ONLY = f"^{_DATE}([T ]00:00(:00([.]0+)?)?(Z|z|[+-]00:?00)?)?$"
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_EXPONENT = r"^[+-]?([0-9]+)([.]([0-9]*))?[eE]([+-]?[0-9]{1,4})$"


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
