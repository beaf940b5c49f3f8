"""Tables of plain text, at most 80 columns wide, JSON for machines, and differences of states."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any

import click
from rich.cells import cell_len

from singer_spark import exact_json
from singer_spark.text import one_line, printable, printable_json

WIDTH = 80
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")


def show_json(value: Any) -> None:
    """Print a value as JSON that people can read too."""
    click.echo(printable_json(exact_json.dumps(value, indent=2, plain=True)))


def say(text: str, *, err: bool = False) -> None:
    """Print text that may name what comes from outside."""
    click.echo(printable(text), err=err)


def lay_out(
    rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), width: int = WIDTH
) -> list[str]:
    """Lay out rows in columns, those of the given numbers to the right; what is longer is cut."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        cut(
            "  ".join(
                _pad(cell, wide, right=number in right)
                for number, (cell, wide) in enumerate(zip(row, widths, strict=True))
            ).rstrip(),
            width,
        )
        for row in rows
    ]


def cut(text: str, width: int = WIDTH) -> str:
    """Shorten a text, to the width of a terminal unless given; some signs take two."""
    text = one_line(text)
    if cell_len(text) <= width:
        return text
    kept = text[:width]
    while cell_len(kept) > width - 1:
        kept = kept[:-1]
    return f"{kept}…"


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def wrap(text: str) -> str:
    """Break a text into indented lines that fit a terminal."""
    return "\n".join(
        textwrap.wrap(printable(text), WIDTH, initial_indent="  ", subsequent_indent="  ")
    )


def pretty(value: Mapping[str, Any], *, sort_keys: bool = False) -> str:
    """Write a state as JSON for an editor."""
    return exact_json.dumps(value, indent=2, plain=True, sort=sort_keys) + "\n"


def state_diff(
    old: Mapping[str, Any], new: Mapping[str, Any], old_name: str, new_name: str
) -> list[str]:
    """Give the lines of a unified diff; the order of keys is no difference."""
    a, b = (pretty(value, sort_keys=True).splitlines() for value in (old, new))
    return list(unified_diff(a, b, old_name, new_name, lineterm=""))
