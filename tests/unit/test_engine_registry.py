"""Where engines are found: what cannot be used is passed over, and nobody else can enter."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from singer_spark.engine import registry
from singer_spark.engine.lease import find_lease
from singer_spark.errors import SettingsError, TransientError
from singer_spark.scratch import remove_scratch


@pytest.fixture
def roots(tmp_path, monkeypatch):
    """The usual place, and the one that is left where that cannot be used."""
    found = [tmp_path / "usual", tmp_path / "deep" / "other"]
    monkeypatch.setattr(registry, "_candidates", lambda: found)
    return found


@pytest.fixture
def make():
    made = []

    def make_one():
        made.append(registry.make_engine_folder())
        return made[-1]

    yield make_one
    for folder in made:
        remove_scratch(folder)


def test_nobody_else_can_enter(roots, make):
    roots[0].mkdir(mode=0o755)
    folder = make()
    assert folder.parent == roots[0]
    for one in (folder, roots[0]):
        assert stat.S_IMODE(one.stat().st_mode) == 0o700


def test_a_place_that_cannot_be_a_folder_is_passed_over(roots, make):
    roots[0].write_text("in the way")
    assert make().parent == roots[1]


def test_a_place_of_somebody_else_is_passed_over(roots, make, monkeypatch):
    roots[0].mkdir()
    known = os.getuid()
    monkeypatch.setattr(registry.os, "getuid", lambda: known + 1)
    with pytest.raises(SettingsError, match="no place for Spark's engine"):
        make()


def test_a_full_disk_is_passed_over_and_what_lies_on_the_other_is_found(roots, make, monkeypatch):
    usage = registry.shutil.disk_usage

    def full(folder):
        return usage(folder)._replace(free=0 if folder == roots[0] else 2**30)

    monkeypatch.setattr(registry.shutil, "disk_usage", full)
    folder = make()
    assert folder.parent == roots[1]
    assert registry.engine_folder(folder.name) == folder
    (folder / registry.SHARED).touch()
    (folder / registry.RUN).write_text("run")
    assert registry.shared_engines() == registry.engines_of("run") == [folder.name]
    monkeypatch.setattr(
        registry.shutil, "disk_usage", lambda folder: usage(folder)._replace(free=0)
    )
    with pytest.raises(TransientError, match=r"no room for Spark's engine in .*disk is full"):
        make()


def test_a_place_that_cannot_be_written_is_one_line(roots, monkeypatch):
    def refuse(*_arguments):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(registry, "make_scratch", refuse)
    with pytest.raises(TransientError, match="Read-only file system"):
        registry.make_engine_folder()
    monkeypatch.setattr(registry.FileLock, "acquire", refuse)
    with registry.one_starter():
        pass


def test_a_socket_that_nobody_listens_to_is_passed_over(roots, make):
    folder = make()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(folder / registry.SOCKET))
    (folder / registry.SHARED).touch()
    assert registry.shared_engines() == [folder.name]
    assert find_lease(None, registry.shared_engines()) is None
