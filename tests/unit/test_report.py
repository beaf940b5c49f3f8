from __future__ import annotations

from singer_spark.report import REPORT_FILE, read_report, report


def test_nothing_is_told_where_nobody_asks(monkeypatch, tmp_path):
    monkeypatch.delenv(REPORT_FILE, raising=False)
    monkeypatch.chdir(tmp_path)
    report("commit", "orders", rows=1)
    assert list(tmp_path.iterdir()) == []


def test_facts_are_read_on_from_where_the_last_reading_ended(monkeypatch, tmp_path):
    path = tmp_path / "report"
    monkeypatch.setenv(REPORT_FILE, str(path))
    report("commit", "orders", rows=3, inserted=2, updated=1)
    ((place, fact),) = read_report(path)
    assert fact == {"kind": "commit", "stream": "orders", "rows": 3, "inserted": 2, "updated": 1}
    report("late", "orders", rows=1, seconds=2.5)
    assert [fact["kind"] for _, fact in read_report(path, place)] == ["late"]


def test_a_line_that_is_still_being_written_waits(tmp_path):
    path = tmp_path / "report"
    path.write_bytes(b'{"kind": "commit"}\n{"kind": "la')
    assert [fact for _, fact in read_report(path)] == [{"kind": "commit"}]


def test_what_is_nested_too_deeply_is_no_fact(tmp_path):
    path = tmp_path / "report"
    path.write_text("[" * 100_000 + "]" * 100_000 + '\n{"kind": "a"}\n')
    assert [fact for _, fact in read_report(path)] == [{}, {"kind": "a"}]
