"""A bench for the runner: a tiny tap and target, what they noted, the state between runs."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from singer_spark.pipeline import Alerts, Pipeline
from singer_spark.pipeline.plugins import Plugin
from singer_spark.runner import PlainDisplay, RunOptions, run_pipeline
from singer_spark.state import create_state_store

HELPERS = """
import json, os, signal, subprocess, sys, time
here = os.path.dirname(os.path.abspath(__file__))
def note(name, text=""):
    with open(os.path.join(here, name + ".tmp"), "w") as file: file.write(str(text))
    os.replace(os.path.join(here, name + ".tmp"), os.path.join(here, name))
def await_note(name):
    while not os.path.exists(os.path.join(here, name)): time.sleep(0.01)
def say(**message): print(json.dumps(message), flush=True)
def option(name): return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None
note(os.path.basename(__file__) + ".pid", os.getpid())
"""
TAP = """
state = option("--state")
note("tap-state", open(state).read() if state else "none")
say(type="SCHEMA", stream="orders", schema={}, key_properties=[])
for n in range(3): say(type="RECORD", stream="orders", record={"n": n})
say(type="STATE", value={"bookmarks": {"orders": 3}})
"""
TARGET = """
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "STATE":
        print(json.dumps(message["value"]), flush=True)
        note("committed")
note("end-of-input")
"""
FOREVER = "while True: time.sleep(1)\n"
ABOUT = """
import sys
if "--about" in sys.argv:
    print('{"name": "%s"}' % __file__.rpartition("/")[2])
    sys.exit()
"""


def answers(body: str) -> str:
    """Let a fake say that it is what it is called; one that has no catalog cannot discover."""
    return ABOUT + ("" if "--discover" in body else 'if "--discover" in sys.argv: sys.exit(2)\n')


class Bench:
    """A folder with a fake tap and target, what they noted, and the state between runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.state = str(folder / "state")
        self.write("tap-fake", TAP)
        self.write("target-fake", TARGET)

    def write(self, name, body):
        path = self.folder / name
        path.write_text(
            f"#!{sys.executable} -SE\n{answers(body)}{HELPERS}\n{textwrap.dedent(body)}"
        )
        path.chmod(0o755)

    def pipeline(self, **changes):
        pipeline = Pipeline(
            name="p",
            tap=Plugin(str(self.folder / "tap-fake"), {"password": "do-not-tell"}),
            streams=(),
            target=Plugin(str(self.folder / "target-fake"), {"password": "do-not-tell"}),
            incremental=True,
            transport="auto",
            state=self.state,
            cron=None,
            timeout=30,
            alerts=Alerts(),
        )
        return replace(pipeline, **changes)

    def run(self, options=None, *, full=False, resume=False, files=None, **changes):
        options = options or RunOptions(full=full, resume=resume, files=files)
        display = PlainDisplay(self.lines.append)
        return run_pipeline(self.pipeline(**changes), options, display=display)

    def fail(self, kind, options=None, **changes):
        with pytest.raises(kind) as caught:
            self.run(options, **changes)
        return caught.value

    def note(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else None

    @property
    def store(self):
        return create_state_store(self.state)


def is_running(pid):
    try:
        text = Path(f"/proc/{int(pid)}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
