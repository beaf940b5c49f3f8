"""Small pictures of numbers over time, as SVG that takes its colours from the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from singer_spark.page.markup import Html, el
from singer_spark.page.words import NOTHING

WIDTH, HEIGHT = 300, 64
GAP = 0.25  # of a bar's width


class Point(NamedTuple):
    """One run: a number, where there is one, what to say of it, and whether the run failed."""

    value: float | None
    label: str
    failed: bool = False


def draw_bars(points: Sequence[Point]) -> Html:
    """Draw a bar per run; one that failed stands out, even with nothing to show."""
    most = max((point.value or 0 for point in points), default=0) or 1
    step = WIDTH / max(len(points), 12)
    bars = []
    for number, point in enumerate(points):
        height = max(HEIGHT * (point.value or 0) / most, 2.0)
        bars.append(
            el(
                "rect",
                el("title", point.label),
                x=round(number * step, 2),
                y=round(HEIGHT - height, 2),
                width=round(step * (1 - GAP), 2),
                height=round(height, 2),
                rx=1,
                class_="bad" if point.failed else None,
            )
        )
    return _picture(*bars)


def draw_line(points: Sequence[Point]) -> Html:
    """Draw a line from run to run over a filled ground; runs that tell nothing are passed over."""
    known = [(number, point) for number, point in enumerate(points) if point.value is not None]
    if not known:
        return _picture()
    most = max(point.value or 0 for _, point in known) or 1
    step = WIDTH / max(len(points) - 1, 1)
    places = [
        (round(number * step, 2), round(HEIGHT - 3 - (HEIGHT - 6) * (point.value or 0) / most, 2))
        for number, point in known
    ]
    line = " L".join(f"{x} {y}" for x, y in places)
    ground = f"M{places[0][0]} {HEIGHT} L{line} L{places[-1][0]} {HEIGHT} Z"
    dots = [
        el("circle", el("title", point.label), cx=x, cy=y, r=6, class_="touch")
        for (x, y), (_, point) in zip(places, known, strict=True)
    ]
    return _picture(
        el("path", d=ground, class_="ground"), el("path", d=f"M{line}", class_="line"), *dots
    )


def chart(
    title: str,
    points: Sequence[Point],
    draw: Callable[[Sequence[Point]], Html],
    tell: Callable[[float], str],
) -> Html:
    """Put a picture between its title and its range."""
    values = [point.value for point in points if point.value is not None]
    last, most = (tell(values[-1]), f"max {tell(max(values))}") if values else (NOTHING, "")
    caption = el("figcaption", el("span", title), el("b", last), el("small", most))
    return el("figure", caption, draw(points))


def _picture(*shapes: Html) -> Html:
    return el(
        "svg",
        *shapes,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_hidden="true",
    )
