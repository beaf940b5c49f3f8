"""How a run is told while it goes: plain lines, or whatever else stands in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, final

import click

from singer_spark.runner.facts import StreamFacts


class Display(Protocol):
    """What a run shows itself on."""

    interval: float  # seconds between two looks

    def begin(self, pipeline: str) -> None:
        """Show that a run begins."""

    def say(self, line: str) -> None:
        """Show a line that stays."""

    def show(self, streams: Mapping[str, StreamFacts]) -> None:
        """Show how far the streams are."""


@final
class PlainDisplay:
    """Lines of text, for logs and pipes."""

    def __init__(self, say: Callable[[str], None] = click.echo, interval: float = 5.0) -> None:
        self.say = say
        self.interval = interval
        self._told: dict[str, int] = {}

    def begin(self, pipeline: str) -> None:
        """Tell that a run begins."""
        self._told.clear()
        self.say(f"Running: {pipeline}")

    def show(self, streams: Mapping[str, StreamFacts]) -> None:
        """Tell the streams that moved."""
        for name, facts in streams.items():
            if facts.rows != self._told.get(name, 0):
                self.say(f"{name}: {facts.rows} records...")
                self._told[name] = facts.rows
