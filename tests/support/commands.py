"""The installed commands as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# The settings of the engine that all tests share.
WARM: dict[str, dict[str, str]] = {"spark_conf": {}}


def command(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def write_json(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def run(*arguments: Any, env: dict[str, str] | None = None, **options: Any):
    """Run a command to its end, in the environment plus `env`."""
    return subprocess.run(
        [str(argument) for argument in arguments],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        **options,
    )


def only_line(text: str, start: str = "Error: ") -> str:
    """Return the one line of an error."""
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    assert "Traceback" not in text
    return line


def left_in(folder: Path, seconds: float = 60) -> list[Path]:
    """List what stays in a folder; an engine ends, and tidies up, some moments after its run."""
    until = time.monotonic() + seconds
    while (left := list(folder.iterdir())) and time.monotonic() < until:
        time.sleep(0.2)
    return left
