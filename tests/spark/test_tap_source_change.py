"""A state is used for its own source alone."""

from __future__ import annotations

import pytest

from singer_spark.assignment import RUN_FILE, Assignment
from singer_spark.errors import StateError
from singer_spark.report import REPORT_FILE, read_report
from tests.support.tap import run_tap


@pytest.fixture
def folders(spark, tmp_path, monkeypatch):
    """Two folders with the same table, and a report."""
    for name in ("one", "two"):
        spark.sql("select 1 as id").write.parquet(f"{tmp_path}/{name}/t")
    monkeypatch.setenv(REPORT_FILE, str(tmp_path / "report"))
    return tmp_path


def config(folder, name: str) -> dict:
    return {
        "source_url": f"parquet:{folder}/{name}",
        "stream_options": {"t": {"replication_key": "id", "key_properties": ["id"]}},
    }


def reported(folder) -> dict:
    facts = [fact for _, fact in read_report(folder / "report") if fact["kind"] == "source"]
    return {name: facts[-1][name] for name in ("id", "place")}


def test_the_state_of_another_source_is_refused_before_a_row_is_read(folders, monkeypatch):
    first = run_tap(config(folders, "one"))
    known = reported(folders)
    assert known == {"id": None, "place": f"parquet:{folders}/one"}

    def assign(source) -> None:
        (folders / "run.json").write_text(Assignment(run_id="r", source=source).to_json())
        monkeypatch.setenv(RUN_FILE, str(folders / "run.json"))

    assign(known)
    assert run_tap(config(folders, "one"), state=first.state).of("SCHEMA")
    other = run_tap(config(folders, "two"), state=first.state, fails=StateError)
    assert other.kinds == ["STATE"]
    assert reported(folders) == known
    assign(None)
    assert run_tap(config(folders, "two")).records()
    assert reported(folders)["place"] == f"parquet:{folders}/two"
