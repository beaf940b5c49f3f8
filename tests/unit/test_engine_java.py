"""Archives of classes: for one Java and one class path, unchanged, and not for ever."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from singer_spark.engine.java import Archive, Java

JAVA = Java("java", "17.0.1")
CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "classes"


def archive_of(folder, *jars, java=JAVA):
    return Archive.of(java, jars, folder)


def make(archive, engine="engine-a", content=CONTENT):
    """Do what Java does at an orderly end."""
    (asked,) = [one for one in archive.options(engine) if "ArchiveClassesAtExit" in one]
    path = asked.partition("=")[2]
    with Path(path).open("wb") as file:
        file.write(content)
    archive.keep(engine)
    return archive.path


def test_it_belongs_to_one_java_and_one_class_path(folder, tmp_path):
    one = archive_of(folder, "a.jar", "b.jar")
    assert one == archive_of(folder, "a.jar", "b.jar")
    assert one != archive_of(folder, "b.jar", "a.jar")
    assert one != archive_of(folder, "a.jar", "b.jar", java=Java("java", "17.0.2"))
    jar = tmp_path / "c.jar"
    jar.write_text("one")
    before = archive_of(folder, str(jar))
    jar.write_text("another")
    assert before != archive_of(folder, str(jar)), "a jar of that name has changed"


def test_it_is_made_once_and_then_used(folder):
    archive = archive_of(folder, "a.jar")
    archive.keep("engine-a")
    assert archive.path is None, "nothing was made"
    made = make(archive)
    assert f"-XX:SharedArchiveFile={made}" in archive.options("engine-b")
    assert [made] == list(folder.iterdir())
    assert made.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-1],
        lambda content: content[:50_000],
        lambda content: content[:500_000] + b"\0" * (len(content) - 500_000),
        lambda _content: b"of another Java" * 100,
        lambda _content: b"",
    ],
    ids=["cut", "cut short", "zeros", "foreign", "empty"],
)
def test_one_that_was_damaged_is_removed_and_made_anew(folder, change):
    archive = archive_of(folder, "a.jar")
    made = make(archive)
    made.write_bytes(change(CONTENT))
    again = make(archive, "engine-b")
    assert again.read_bytes() == CONTENT


def test_one_that_java_did_not_survive_is_made_anew(folder):
    archive = archive_of(folder, "a.jar")
    make(archive)
    archive.remove()
    assert archive.path is None


def test_the_ones_that_are_used_are_kept(folder):
    archives = [archive_of(folder, f"{number}.jar") for number in range(9)]
    start = time.time() - 1000
    for number, archive in enumerate(archives):
        path = make(archive)
        os.utime(path, (start + number, start + number))
    archives[3].options("engine-b")
    make(archive_of(folder, "last.jar"))
    kept = [number for number, archive in enumerate(archives) if archive.path]
    assert kept == [3, 5, 6, 7, 8]
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    make(archive_of(folder, "new.jar"))
    assert len(list(folder.iterdir())) == 1, "the others are old"


def test_what_killed_engines_began_goes(folder):
    archive = archive_of(folder, "a.jar")
    archive.options("engine-a")
    (folder / "engine-x.new").write_bytes(b"half")
    os.utime(folder / "engine-x.new", (1, 1))
    (folder / "engine-y.new").write_bytes(b"half")
    made = make(archive)
    assert {*folder.iterdir()} == {made, folder / "engine-y.new"}, "one may still be at work"


def test_no_folder_for_it_is_no_trouble(tmp_path):
    (tmp_path / "file").write_text("")
    archive = archive_of(tmp_path / "file" / "classes", "a.jar")
    assert not any("Archive" in option for option in archive.options("engine-a"))
    archive.keep("engine-a")
    archive.drop_made("engine-a")
    archive.remove()
