"""A working folder for the command: fake taps and targets on the PATH, pipelines in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from click.testing import CliRunner

from singer_spark.cli import main
from singer_spark.state import create_state_store
from tests.support.bench import answers

TAP = """
say(type="SCHEMA", stream="public-orders", schema={}, key_properties=[])
for n in range(340): say(type="RECORD", stream="public-orders", record={"n": n})
say(type="SCHEMA", stream="public-empty", schema={}, key_properties=[])
say(type="STATE", value={"bookmarks": {"public-orders": 340}})
"""
TARGET = """
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "STATE":
        say(**message["value"])
"""
STATE = {
    "bookmarks": {"a": {"replication_key_value": 1}, "b": {"replication_key_value": 2}},
    "x": 1,
}
SPY = """
given = open(option("--state")).read() if option("--state") else "none"
note(json.dumps({"state": given, "config": json.load(open(option("--config")))}))
"""
PIPELINE = """\
name: {name}
source: {{tap: tap-fake, config: {{password: '${{SECRET_OF_TAP}}'}}}}
destination: {{target: target-fake, config: {{path: {lake}}}}}
"""


def make_folder(folder: Path, monkeypatch) -> Path:
    """Make a working folder with a pipeline `orders`, and work in it."""
    for name in ("pipelines", "tmp", "bin"):
        (folder / name).mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    monkeypatch.setenv("SECRET_OF_TAP", "do-not-tell")
    write_pipeline("orders")
    write("tap-fake", TAP)
    write("target-fake", TARGET)
    return folder


def write_pipeline(name: str, *, lake: str = "lake", more: str = "") -> Path:
    path = Path("pipelines", f"{name}.yml")
    path.write_text(PIPELINE.format(name=name, lake=lake) + more)
    return path


def write(name: str, body: str) -> None:
    path = Path("bin", name)
    path.write_text(
        f"#!{sys.executable} -SE\n"
        f"{answers(body)}"
        "import json, os, signal, subprocess, sys, time\n"
        "def say(**message): print(json.dumps(message), flush=True)\n"
        "def option(name):\n"
        "    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None\n"
        f"def note(text): open({str(Path.cwd() / name)!r} + '.pids', 'w').write(text)\n"
        + textwrap.dedent(body)
    )
    path.chmod(0o755)


def singer_spark(*arguments: str, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "singer_spark.cli", *arguments], text=True, **options
    )


def finish(*arguments: str) -> tuple[int, str, str]:
    process = singer_spark(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def await_pids(*names: str) -> list[int]:
    files = [Path(f"{name}.pids") for name in names]
    until = time.monotonic() + 20
    while not all(file.exists() and file.read_text() for file in files):
        assert time.monotonic() < until
        time.sleep(0.01)
    return [int(pid) for file in files for pid in file.read_text().split()]


def run(*arguments):
    """Run the command `run` in this process."""
    return CliRunner().invoke(main, ["run", *arguments])


def invoke(*arguments, **options):
    """Run any command in this process."""
    return CliRunner().invoke(main, list(arguments), **options)


def store():
    """The store that the folder's pipelines use unless they say otherwise."""
    return create_state_store("lake/.singer-spark/state")
