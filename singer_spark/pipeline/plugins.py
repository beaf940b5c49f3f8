"""Tap and target as commands: where they are, and what they say they are."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import distributions
from pathlib import Path, PurePath
from tempfile import TemporaryFile
from typing import Any

from singer_spark.names import merged_options

OUR_TAP, OUR_TARGET = "tap-spark-source", "target-spark-delta"
ABOUT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Plugin:
    """A command and its configuration, which may hold secrets and is never shown."""

    command: str
    config: Mapping[str, Any] = field(repr=False)

    @property
    def path(self) -> Path | None:
        """The command on PATH, or beside the Python that runs us: a venv need not be active."""
        beside = str(Path(sys.executable).parent)
        found = shutil.which(self.command) or shutil.which(self.command, path=beside)
        return Path(found) if found else None

    @property
    def is_ours(self) -> bool:
        """Whether it is our tap or our target, which work with the runner and share its Spark.

        What the command says of itself decides. Only where there is none does its name.
        """
        path = self.path
        name = plugin_name(path) if path else PurePath(self.command).name
        return name in (OUR_TAP, OUR_TARGET)

    @property
    def stream_maps(self) -> Mapping[str, Any]:
        """What renames, copies, filters or changes streams on their way."""
        maps = self.config.get("stream_maps")
        return maps if isinstance(maps, Mapping) else {}

    def options_of(self, stream: str) -> dict[str, Any]:
        """Gather the stream_options of a stream."""
        options = self.config.get("stream_options")
        return merged_options(stream, options if isinstance(options, Mapping) else None)

    def setting(self, name: str, stream: str) -> Any:
        """Look up a setting: that of the stream, else that of all."""
        own = self.options_of(stream).get(name)
        return self.config.get(name) if own is None else own

    def with_config(self, **config: Any) -> Plugin:
        """Return the plugin with more settings, or others."""
        return replace(self, config={**self.config, **config})


def plugin_name(path: Path) -> str | None:
    """Return the name of the plugin that a command starts; None where it does not say.

    A command that a package brought is what the package says. Any other is asked with --about.
    """
    if package := version_of(path):
        return path.resolve().name if package.startswith("singer-spark ") else None
    with suppress(OSError):
        return _ask_name(path, path.stat().st_mtime_ns)
    return None


@cache
def version_of(command: Path) -> str | None:
    """Find the package that brought a command, as `name version`, without starting it."""
    environment = command.resolve().parent.parent
    folders = [str(path) for path in environment.glob("lib/python*/site-packages")]
    for found in distributions(path=folders) if folders else ():
        for entry in found.entry_points:
            if entry.group == "console_scripts" and entry.name == command.name:
                return f"{found.name} {found.version}"
    return None


@cache
def _ask_name(path: Path, _changed_at: int) -> str | None:
    """Ask a command for its name; one that answers anything else, or nothing in time, has none."""
    with TemporaryFile() as answer:
        process = subprocess.Popen(  # noqa: S603, the user's own command
            [str(path), "--about", "--format=json"],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(ABOUT_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        answer.seek(0)
        with suppress(ValueError, AttributeError):
            return str(json.load(answer).get("name"))
    return None
