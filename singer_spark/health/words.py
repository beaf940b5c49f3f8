"""Numbers as people say them."""

from __future__ import annotations

UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def tell_seconds(seconds: float) -> str:
    """Tell a duration in the unit that fits: 90 min, 2 h, 4.2 s."""
    for unit, name in UNITS:
        if seconds >= 2 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
