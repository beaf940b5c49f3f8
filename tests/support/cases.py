"""Cases as files: what goes into the target, and the rows that must be in the tables then.

`NAME.singer` holds the messages; an empty line ends a run of the target. `NAME.yml` says what
holds after each run; in its rows `*` stands for any value that is not null. In both `{HERE}` is
the URI of their folder. To add a case, add the two files.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from tests.support.singer import DATA

FOLDER = DATA / "cases"
ANYTHING = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the target, and what holds after it.

    Args:
        config: Settings of this run.
        rows: Each table's rows, in any order.
        commits: How many commits wrote rows to each table in this run.
        states: The STATEs that were released.
        exit_code: How the run ends; 0 is success.
        says: The error's message, or a part of it.
    """

    messages: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)
    states: list[Any] | None = None
    exit_code: int = 0
    says: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """Runs one after another into the same tables, under one choice of settings.

    A long one, or one that is there under other settings already, is for `make test-all`.
    """

    name: str
    config: dict[str, Any]
    runs: list[Run]
    is_long: bool


def cases() -> list[Case]:
    """Read all cases; one with `each_with` is there once for each of these settings."""
    return [case for path in sorted(FOLDER.glob("*.yml")) for case in _read(path)]


def _read(path: Path) -> list[Case]:
    told = yaml.safe_load(_text(path))
    source = FOLDER / f"{told.pop('messages', path.stem)}.singer"
    parts = _text(source).split("\n\n")
    assert len(parts) == len(told["runs"]), f"{source.name} has {len(parts)} run(s)"
    runs = [
        Run(messages=part.rstrip("\n") + "\n", **one)
        for part, one in zip(parts, told["runs"], strict=True)
    ]
    config = told.get("config", {})
    each = told.get("each_with", [{}])
    return [
        Case(
            path.stem if len(each) == 1 else f"{path.stem}-{n}",
            {**config, **more},
            runs,
            is_long=n > 0 or told.get("long", False),
        )
        for n, more in enumerate(each)
    ]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").replace("{HERE}", FOLDER.as_uri())


def plain(value: Any) -> Any:
    """Write a value as YAML has it: what JSON lacks becomes text."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return str(value) if isinstance(value, Decimal) else value


def as_expected(rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> list[Any]:
    """Return a table's rows in a form and an order that can be compared to what is expected."""
    open_columns = {name for row in expected for name, value in row.items() if value == ANYTHING}

    def shown(row: dict[str, Any]) -> dict[str, Any]:
        return {
            name: ANYTHING if name in open_columns and value is not None else plain(value)
            for name, value in row.items()
        }

    return in_order([shown(row) for row in rows])


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows by what they hold."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
