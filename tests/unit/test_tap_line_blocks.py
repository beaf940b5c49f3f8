"""Lines that Spark writes into files: handed out in their order, whatever a commit does."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from singer_spark.errors import SourceError
from tap_spark_source.output.line_blocks import spooled_blocks


class Written:
    """Stands for a frame of lines: writes the files of one task as Spark's committer does."""

    def __init__(self, steps) -> None:
        self._steps = steps

    @property
    def write(self):
        return self

    def option(self, name: str, value: object):
        del name, value
        return self

    def text(self, place: str) -> None:
        folder = Path(place.removeprefix("file://"))
        attempt = folder / "_temporary" / "0" / "_temporary" / "attempt"
        attempt.mkdir(parents=True)
        self._steps(folder, attempt)
        (folder / "_SUCCESS").touch()


def part(number: int) -> str:
    return f"part-00000-x-c{number:03}.txt"


def write(attempt: Path, *numbers: int) -> None:
    for number in numbers:
        (attempt / part(number)).write_text(f"{number}\n")


def commit(folder: Path, attempt: Path, *numbers: int) -> None:
    for number in numbers:
        (attempt / part(number)).rename(folder / part(number))


def test_a_file_that_is_just_being_moved_holds_back_those_behind_it():
    seen, moved, further = Event(), Event(), Event()

    def steps(folder: Path, attempt: Path) -> None:
        write(attempt, 0, 1, 2, 3)
        assert seen.wait(20)
        commit(folder, attempt, 0, 1)
        moved.set()
        assert further.wait(20)
        commit(folder, attempt, 2, 3)

    blocks = spooled_blocks(Written(steps))
    found = [next(blocks)]
    seen.set()
    assert moved.wait(20)
    found.append(next(blocks))
    further.set()
    assert [*found, *blocks] == [b"0\n", b"1\n", b"2\n", b"3\n"]


def test_a_look_that_misses_a_file_waits_for_it():
    looked, missed = Event(), Event()

    def steps(folder: Path, attempt: Path) -> None:
        # What a look sees whose listing of the folder a commit overlaps: the first file nowhere.
        write(folder, 1)
        write(attempt, 5)
        missed.wait(0.5)
        looked.set()
        write(folder, 0, 2, 3, 4)
        commit(folder, attempt, 5)

    assert b"".join(spooled_blocks(Written(steps))) == b"0\n1\n2\n3\n4\n5\n"
    assert looked.is_set()


def test_the_folder_is_private_and_swept_by_the_next_read_where_its_owner_was_killed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "tap-spark-source-left"
    left.mkdir()
    (left / ".owner").touch()
    found = []

    def steps(folder: Path, attempt: Path) -> None:
        found.append((folder.parent.parent, oct(folder.parent.stat().st_mode)[-3:], left.exists()))
        write(folder, 0)

    assert list(spooled_blocks(Written(steps))) == [b"0\n"]
    assert found == [(tmp_path, "700", False)]
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_writer_reaches_the_one_who_waits():
    def steps(folder: Path, attempt: Path) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        list(spooled_blocks(Written(steps)))


def test_lines_that_went_elsewhere_are_an_error():
    class Elsewhere(Written):
        def text(self, place: str) -> None:
            super().text(f"{place}%20")

    with pytest.raises(SourceError, match=r"not written its lines into .*; set TMPDIR"):
        list(spooled_blocks(Elsewhere(lambda folder, _: write(folder, 0))))
