"""Tables of plain text, at most 80 columns wide, and the JSON that machines read instead."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import click
from rich.cells import cell_len

from singer_spark import digits
from singer_spark.printable import one_line, printable, printable_json

WIDTH = 80
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")


def show_json(value: Any) -> None:
    """Print a value as JSON that people can read too."""
    click.echo(printable_json(digits.dumps(value, indent=2, plain=True)))


def say(text: str, *, err: bool = False) -> None:
    """Print text that may name what comes from outside."""
    click.echo(printable(text), err=err)


def lay_out(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """Lay out rows in columns, those of the given numbers to the right; what is longer is cut."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        cut(
            "  ".join(
                _pad(cell, width, right=number in right)
                for number, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
        )
        for row in rows
    ]


def cut(text: str, width: int = WIDTH) -> str:
    """Shorten a text, to the width of a terminal unless told otherwise; some signs take two."""
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


def tell_count(count: int) -> str:
    """Tell a number in at most seven characters."""
    for power, unit in ((12, "T"), (9, "G"), (6, "M")):
        if count >= 10 ** (power + 1):
            return f"{count / 10**power:.1f}{unit}"
    return str(count)


def tell_duration(milliseconds: int) -> str:
    """Tell a duration in at most six characters."""
    seconds = milliseconds / 1000
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f}{name}"
    return f"{seconds:.1f}s"
