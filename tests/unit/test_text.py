"""Text from outside cannot steer a terminal, nor forge a line of a log."""

from __future__ import annotations

import json
import logging

import pytest
from click.testing import CliRunner

from singer_spark.cli import main
from singer_spark.cli.output import lay_out
from singer_spark.errors import DataError
from singer_spark.health.notify import _notice
from singer_spark.runner.process import print_error
from singer_spark.state import create_state_store
from singer_spark.state.holder import Holder, new_run_id
from singer_spark.state.runs import save_run
from singer_spark.storage.objects import Expect
from singer_spark.text import guard_logs, one_line, printable, printable_json

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
    print_error(HOSTILE)
    assert "\x1b" not in capsys.readouterr().err
    logging.getLogger("singer_spark").warning("stream %s is odd", f"{HOSTILE}\nERROR forged")
    assert "\x1b" not in caplog.text
    assert len(caplog.text.splitlines()) == 1
    assert "\x1b" not in lay_out([[HOSTILE]])[0]


def is_clean(text):
    return not set(text) & set("\x1b\x9b\r\u202e\x00")


def test_what_a_state_store_holds_is_shown_without_them(tmp_path):
    store = create_state_store(str(tmp_path / "store"))
    stream = {"rows": 1, "bookmark": None}
    record = {
        "run_id": new_run_id(), "pipeline": "p", "status": "failed", "exit_code": 65,
        "error": HOSTILE, "started_at": "2024-01-01T00:00:00.000+00:00", "milliseconds": 1,
        "finished_at": "2024-01-01T00:00:01.000+00:00", "records": 1,
        "streams": {HOSTILE: stream}, "bookmarks_after": {HOSTILE: {"at": HOSTILE}},
        "mismatches": {HOSTILE: HOSTILE},
    }  # fmt: skip
    save_run(store, "p", record)
    holder = {**Holder.here(new_run_id()).to_dict(), "host": HOSTILE}
    store.documents.write_own("p/lock", holder, Expect.ANYTHING)
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"bookmarks": {HOSTILE: {"at": HOSTILE}}}))
    place = ["--state", str(tmp_path / "store")]
    page, metrics = tmp_path / "page.html", tmp_path / "metrics"
    for arguments in (
        ["runs", "p"],
        ["runs", "p", "--json"],
        ["status"],
        ["status", "--json"],
        ["status", "--html", str(page), "--metrics", str(metrics)],
        ["state", "diff", "p", str(given)],
        ["state", "set", "p", str(given)],
        ["state", "get", "p"],
        ["state", "list"],
        ["unlock", "p", "--yes"],
        ["state", "set", "p", str(given)],
        ["state", "get", "p"],
    ):
        done = CliRunner().invoke(main, [*arguments, *place])
        assert "Traceback" not in done.output
        assert is_clean(done.output), arguments
    assert is_clean(page.read_text())
    assert is_clean(metrics.read_text())
    assert len(page.read_text()) > 1000


def test_an_alert_carries_none():
    notice = _notice("p", "failed", "error", HOSTILE)
    assert is_clean(notice.body["text"] + notice.body["reason"])


def test_json_stays_json():
    assert json.loads(printable_json(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE
