"""The walks of the architecture: their functions exist, and are called in that order."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import threading
from pathlib import Path

import click
import pytest

from tests.support.shop import invoke, make_folder

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\d+\. `([\w.]+)`( \(in a thread\))?", re.MULTILINE)
RUN = "From `singer-spark run` to the stored state"


def steps(walk):
    return STEP.findall(PAGE.split(f"### {walk}\n")[1].split("\n#")[0])


def code_of(name):
    """Find the code of a function by its dotted name."""
    parts = name.split(".")
    modules = [n for n in range(1, len(parts)) if parts[n][0].isupper() or n == len(parts) - 1]
    found = importlib.import_module(".".join(parts[: modules[0]]))
    for part in parts[modules[0] :]:
        found = getattr(found, part)
    found = found.callback if isinstance(found, click.Command) else found
    return inspect.unwrap(found).__code__


class Spy:
    """Notes the functions of a walk when they are called for the first time."""

    def __init__(self, names):
        self._names = {code_of(name): name for name in names}
        self.called = []

    def __call__(self, frame, event, _argument):
        name = self._names.get(frame.f_code) if event == "call" else None
        if name and name not in self.called:
            self.called.append(name)


@pytest.fixture
def spy():
    known = Spy([name for name, _ in steps(RUN)])
    threading.setprofile(known)
    sys.setprofile(known)
    yield known
    sys.setprofile(None)
    threading.setprofile(None)


def test_a_run_goes_through_its_functions_in_their_order(tmp_path, monkeypatch, spy):
    make_folder(tmp_path, monkeypatch)
    result = invoke("run", "orders")
    sys.setprofile(None)

    assert result.exit_code == 0, result.output
    walk = steps(RUN)
    assert set(spy.called) == {name for name, _ in walk}
    beside = {name for name, is_beside in walk if is_beside}
    in_order = [name for name, _ in walk if name not in beside]
    assert [name for name in spy.called if name not in beside] == in_order


def test_the_walk_is_short():
    files = {code_of(name).co_filename for name, _ in steps(RUN)}
    assert len(steps(RUN)) <= 20
    assert len(files) <= 10
