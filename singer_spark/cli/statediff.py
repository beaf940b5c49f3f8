"""How two Singer states differ, as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

from singer_spark import exact_json


def pretty(value: Mapping[str, Any], *, sort_keys: bool = False) -> str:
    """Write a state as JSON for an editor."""
    return exact_json.dumps(value, indent=2, plain=True, sort=sort_keys) + "\n"


def state_diff(
    old: Mapping[str, Any], new: Mapping[str, Any], old_name: str, new_name: str
) -> list[str]:
    """Give the lines of a unified diff; the order of keys is no difference."""
    a, b = (pretty(value, sort_keys=True).splitlines() for value in (old, new))
    return list(unified_diff(a, b, old_name, new_name, lineterm=""))
