"""HTML built by calls, in which every text is escaped and nothing else can be written."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from singer_spark.printable import printable

VOID = ("meta", "rect", "circle", "path", "line")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | Html | Iterable[str | Html | None] | None"


def el(tag: str, /, *children: Child, **attributes: str | float | None) -> Html:
    """Make an element; `_` in the name of an attribute is a dash, one at its end is left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(map(_render, children))
    if tag in VOID and not inner:
        return Html(f"<{tag}{told}/>")
    return Html(f"<{tag}{told}>{inner}</{tag}>")


def _render(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(printable(child))
    return "".join(map(_render, child))
