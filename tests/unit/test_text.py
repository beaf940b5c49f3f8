"""Text from outside cannot steer a terminal, nor forge a line of a log."""

from __future__ import annotations

import logging

import pytest

from singer_spark.cli.output import lay_out
from singer_spark.errors import DataError
from singer_spark.runner.process import tell_error
from singer_spark.text import guard_logs, one_line, printable

HOSTILE = "a\x1b[2Jb\x9b2J\rc\u202ed\x00"


@pytest.fixture
def guarded():
    before = logging.getLogRecordFactory()
    guard_logs()
    yield
    logging.setLogRecordFactory(before)


def test_control_characters_are_escaped_and_other_signs_stay():
    assert printable(HOSTILE) == r"a\x1b[2Jb\x9b2J\rc\u202ed\x00"
    assert printable("größer\t日本\n") == "größer\t日本\n"
    assert one_line("a\nError: b") == r"a\nError: b"


def test_errors_logs_and_tables_show_no_control_character(capsys, caplog, guarded):
    assert "\x1b" not in DataError(f"stream {HOSTILE}").format_message()
    tell_error(HOSTILE)
    assert "\x1b" not in capsys.readouterr().err
    logging.getLogger("singer_spark").warning("stream %s is odd", f"{HOSTILE}\nERROR forged")
    assert "\x1b" not in caplog.text
    assert len(caplog.text.splitlines()) == 1
    assert "\x1b" not in lay_out([[HOSTILE]])[0]
