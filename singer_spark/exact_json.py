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


def loads(text: str | bytes) -> Any:
    """Read JSON; ValueError where it is none, as NaN and the infinities are."""
    return json.loads(text, parse_float=Float, parse_int=_whole, parse_constant=_refuse)


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
    return Float(text) if text == "-0" else int(text)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
