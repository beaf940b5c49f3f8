"""What `singer-spark run --dry-run` prints: a line per stream, and nothing done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from singer_spark.cli.table import cut, lay_out, show_json, wrap

HEAD = ("STREAM", "FROM", "TO", "ROWS")
WIDTHS = (24, 21, 21)


def show_preview(streams: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print what would be read."""
    if as_json:
        show_json(list(streams))
        return
    rows = [
        (
            str(one.get("stream")),
            _bound(one, "low", "the start"),
            _bound(one, "high", "the end"),
            "?" if one.get("rows") is None else f"{one['rows']:,}",
        )
        for one in streams
    ]
    fitted = [(*map(cut, row, WIDTHS), row[-1]) for row in rows]
    head, *lines = lay_out([HEAD, *fitted], right=(3,))
    click.echo(head)
    for line, one in zip(lines, streams, strict=True):
        click.echo(line)
        click.echo(cut(f"    {one.get('summary')}"))
        if verdict := one.get("verdict"):
            click.echo(wrap(f"  ! {verdict}"))
    known = [one["rows"] for one in streams if one.get("rows") is not None]
    about = f", about {sum(known):,} rows" if known else ""
    click.echo(f"Dry run: {len(streams)} stream(s){about}; nothing was read or written")


def _bound(one: Mapping[str, Any], end: str, otherwise: str) -> str:
    value = one.get(end)
    if isinstance(value, Mapping):
        value = value.get("replication_key_value", value)
    if value is None:
        return otherwise
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("T", " ").removesuffix("+00:00")
