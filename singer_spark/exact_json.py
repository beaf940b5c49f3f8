"""JSON whose numbers keep every digit: a Singer STATE must come back as it was written.

`json` reads 9007199254740995.1 as the nearest double and writes that. A number of ours is a float
or an int for everyone who computes with it, and the text that it was read from when it is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn
from uuid import uuid4

from typing_extensions import Self, override

# Of what is read, so that whatever walks it by recursion comes back. Documents hold states.
MOST_LEVELS, STATE_LEVELS = 200, 100
# Of a whole number; the time that more take grows with their square.
_MOST_DIGITS = 4300
_LONG = re.compile(r"[0-9]{100,}")
# A text that does not end is one too: its rest must not be looked at again and again.
_MARKS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)


class Float(float):
    """A number that remembers its spelling."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Read a number."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    @override
    def __str__(self) -> str:
        """Return the number as it was spelled, for those who count exactly."""
        return self.text

    @override
    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        """Survive a copy."""
        return type(self), (self.text,)


def loads(text: str | bytes, *, most: int = MOST_LEVELS) -> Any:
    """Read JSON; NaN and the infinities are none.

    Raises:
        ValueError: It is no JSON, nested too deeply, or has a number that is too long.
    """
    if _is_too_deep(text, most):
        raise ValueError(f"it is nested deeper than {most} levels")
    return json.loads(text, parse_float=Float, parse_int=_whole, parse_constant=_refuse)


def check_state(text: str | bytes) -> None:
    """Look whether the JSON of a state can be read and written later.

    Raises:
        ValueError: It is nested too deeply, or has a number that is too long.
    """
    plain = _characters(text)
    if any(len(one[0]) > _MOST_DIGITS for one in _LONG.finditer(plain)):
        loads(text, most=STATE_LEVELS)
    elif _is_too_deep(plain, STATE_LEVELS):
        raise ValueError(f"it is nested deeper than {STATE_LEVELS} levels")


def _characters(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode("latin-1")


def _is_too_deep(text: str | bytes, most: int) -> bool:
    plain = _characters(text)
    if plain.count("[") + plain.count("{") <= most:
        return False
    level = 0
    for mark in _MARKS.finditer(plain):
        sign = mark[0][0]
        level += (sign in "[{") - (sign in "]}")
        if level > most:
            return True
    return False


def dumps(
    value: Any,
    *,
    indent: int | None = None,
    plain: bool = False,
    sort: bool = False,
    compact: bool = False,
) -> str:
    """Write JSON, each number as it was read; ValueError where JSON cannot carry a value.

    `plain` lets letters such as ü stand for themselves, `sort` sorts the members of objects by
    name, `compact` leaves blanks out.
    """
    mark = uuid4().hex
    text = json.dumps(
        _marked(value, mark),
        indent=indent,
        allow_nan=False,
        ensure_ascii=not plain,
        sort_keys=sort,
        separators=(",", ":") if compact else None,
    )
    return re.sub(f'"{mark}([^"]*)"', r"\1", text) if mark in text else text


def canonical(value: Any) -> str:
    """Write JSON in the one way that equal values share; 1 and 1.0 are not equal here."""
    return dumps(value, sort=True)


def _marked(value: Any, mark: str) -> Any:
    """Put the spelling of each number in its place, as a text that is found again."""
    if isinstance(value, Float) or (isinstance(value, Decimal) and value.is_finite()):
        return f"{mark}{value!s}"
    if isinstance(value, Mapping):
        return {name: _marked(one, mark) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_marked(one, mark) for one in value]
    return value


def _whole(text: str) -> float:
    if len(text.lstrip("-")) > _MOST_DIGITS:
        raise ValueError(f"a whole number has more than {_MOST_DIGITS} digits")
    return Float(text) if text == "-0" else int(text)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
