"""The demo as its users see it: what it prints is what the README shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
PROGRESS = re.compile(r"^   [\w-]+: \d+ records\.\.\.\n", re.MULTILINE)


def demo(*arguments, cwd):
    script = Path(sys.executable).with_name("singer-spark")
    return subprocess.run(
        [script, "demo", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def steady(text):
    """Take out what differs between runs: places, durations, the time of the deletion."""
    text = re.sub(r"(, in |kept in )/[^\n)]+", r"\1…", PROGRESS.sub("", text))
    text = re.sub(r"in \d+ s$", "in … s", text, flags=re.MULTILINE)
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\+00:00", "…", text)


@pytest.mark.slow
def test_the_demo_prints_what_the_readme_shows(tmp_path):
    done = demo(cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    shown = re.search(r"```text\n(A shop's database.*?)```", README.read_text(), re.DOTALL)
    assert steady(done.stdout) == steady(shown[1])
    assert "   main-orders: 1000 records...\n" in done.stdout
    assert "   main-orders: 6 records...\n" in done.stdout
    folder = re.search(r", in (/.*)", done.stdout)[1]
    assert not Path(folder).exists()


def test_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "mine").touch()
    done = demo("--directory", str(tmp_path), cwd=tmp_path)

    assert done.returncode == 78
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
