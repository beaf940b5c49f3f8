"""The version of an installed command, read from its environment without starting it."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path


def version_of(command: Path) -> str | None:
    """Find the distribution that brought a command, as `name version`; None where unknown."""
    environment = command.resolve().parent.parent
    folders = [str(path) for path in environment.glob("lib/python*/site-packages")]
    for found in distributions(path=folders) if folders else ():
        for entry in found.entry_points:
            if entry.group == "console_scripts" and entry.name == command.name:
                return f"{found.name} {found.version}"
    return None
