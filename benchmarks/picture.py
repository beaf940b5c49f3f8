"""The picture of the README: one panel of bars for each work, drawn as SVG."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from benchmarks.contestants import WORKS
from benchmarks.results import Median

_WIDTH, _LABELS, _NUMBERS = 860, 250, 70
_BAR, _GAP, _HEAD = 16, 6, 34
_OURS, _OTHERS = "#e25a1c", "#8a94a6"
_STYLE = (
    "text{font-family:system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif;font-size:13px;"
    "fill:#24292f}.head{font-weight:600;font-size:14px}.soft{fill:#57606a}"
)


def draw(
    medians: Iterable[Median], labels: dict[str, str], ours: set[str], titles: dict[str, str],
    footer: str,
) -> str:  # fmt: skip
    """Draw seconds of wall time; the shortest bar of each panel on top."""
    parts, y = [], 14
    known = list(medians)
    for work in WORKS:
        found = sorted((one for one in known if one.work == work), key=lambda one: one.wall)
        if not found:
            continue
        parts.append(f'<text class="head" x="16" y="{y + 16}">{escape(titles[work])}</text>')
        y += _HEAD
        longest = max(one.wall for one in found)
        for one in found:
            parts += _bar(one, y, longest, labels[one.contestant], one.contestant in ours)
            y += _BAR + _GAP
        y += 10
    parts.append(f'<text class="soft" x="16" y="{y + 12}">{escape(footer)}</text>')
    height = y + 28
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" '
        f'aria-label="Seconds per run, start-up included">\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _bar(one: Median, y: int, longest: float, label: str, is_ours: bool) -> list[str]:
    width = max(2.0, one.wall / longest * (_WIDTH - _LABELS - _NUMBERS - 16))
    middle = y + _BAR - 3
    return [
        f'<text x="{_LABELS - 10}" y="{middle}" text-anchor="end">{escape(label)}</text>',
        f'<rect x="{_LABELS}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="2" '
        f'fill="{_OURS if is_ours else _OTHERS}"/>',
        f'<text x="{_LABELS + width + 6:.1f}" y="{middle}">{one.wall:.1f} s</text>',
    ]
