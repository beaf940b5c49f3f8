"""What tap and target report, as the runner knows it."""

from __future__ import annotations

from singer_spark.report import REPORT_FILE, report
from singer_spark.runner.streams import Reports


def test_identities_and_what_is_being_done_are_kept_beside_the_streams(monkeypatch, tmp_path):
    monkeypatch.setenv(REPORT_FILE, str(tmp_path / "report"))
    facts = Reports(tmp_path / "report")
    report("source", "", id=None, place="jdbc:x://h/d")
    report("progress", "", command="tap-x", doing="the start of Spark")
    table = {"location": "/lake/o", "id": "i", "run_id": "r", "key": ["id"]}
    report("table", "orders", version=1, **table)
    facts.refresh()
    report("table", "orders", version=2, **table)
    facts.refresh()

    assert facts.found.source == {"id": None, "place": "jdbc:x://h/d"}
    assert facts.found.tables == {"orders": {"version": 2, **table}}
    assert facts.doing == {"tap-x": "the start of Spark"}
