"""`run --dry-run`: what would be read, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singer_spark.state import PipelineState
from singer_spark.state.runs import list_runs
from tests.support.shop import SPY, STATE, TAP, make_folder, run, store, write, write_pipeline


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    return make_folder(tmp_path, monkeypatch)


class TestDryRun:
    PLAN = {
        "streams": [
            {"stream": "public-orders", "method": "INCREMENTAL", "key": "updated_at",
             "low": "2026-01-31T10:00:00.123456+00:00", "high": "2026-02-01T00:00:00+00:00",
             "rows": 1234, "key_properties": ["id"], "read": {"rows": "all"}},
            {"stream": "public-countries", "method": "FULL_TABLE", "key": None, "low": None,
             "high": None, "rows": 250, "key_properties": [], "read": {"rows": "all"}},
        ]
    }  # fmt: skip

    @pytest.fixture(autouse=True)
    def our_tap(self):
        text = Path("pipelines/orders.yml").read_text()
        Path("pipelines/orders.yml").write_text(text.replace("tap-fake", "tap-spark-source"))
        plan = f"if '--plan' in sys.argv: print({json.dumps(self.PLAN)!r}); sys.exit()\n"
        write("tap-spark-source", SPY.replace("note(", "open('seen', 'w').write(") + plan + TAP)

    def test_our_tap_is_asked_and_nothing_is_written(self):
        result = run("orders", "--dry-run")

        assert result.exit_code == 0, result.output
        lines = result.output.splitlines()
        assert lines[1].split() == ["STREAM", "FROM", "TO", "ROWS"]
        assert lines[2].split()[0] == "public-orders"
        assert lines[2].split()[-1] == "1,234"
        assert lines[3] == "    INCREMENTAL by updated_at, key id"
        assert "the start" in lines[4]
        assert lines[5] == "    FULL_TABLE, no key"
        assert lines[-1].startswith("Dry run: 2 stream(s), about 1,484 rows")
        assert all(len(line) <= 80 for line in lines)
        assert not Path("lake").exists()
        assert not list(Path("tmp").iterdir())

    def test_the_state_is_used_as_a_run_would(self):
        store().save(PipelineState("orders", STATE))
        assert "Incremental mode" in run("orders", "--dry-run").output
        assert json.loads(json.loads(Path("seen").read_text())["state"]) == STATE
        told = run("orders", "--dry-run", "--json", "--from", "1")
        more = [
            {"load_method": None, "verdict": None, "summary": summary}
            for summary in ("INCREMENTAL by updated_at, key id", "FULL_TABLE, no key")
        ]
        assert json.loads(told.stdout) == [
            {**one, **added} for one, added in zip(self.PLAN["streams"], more, strict=True)
        ]
        spied = json.loads(Path("seen").read_text())
        assert (spied["state"], spied["config"]["window_start"]) == ("none", "1")
        assert list_runs(store(), "orders") == []

    def test_what_becomes_of_a_stream_without_a_key_is_said(self):
        text = Path("pipelines/orders.yml").read_text()
        Path("pipelines/orders.yml").write_text(text.replace("target-fake", "target-spark-delta"))
        lines = run("orders", "--dry-run").output.splitlines()
        assert "    INCREMENTAL by updated_at, key id, upsert" in lines
        at = lines.index("    FULL_TABLE, no key, upsert")
        assert lines[at + 1] == "    ! no key: replaced at each run"

    def test_of_another_tap_streams_and_bookmarks_are_told(self):
        write_pipeline("orders")
        store().save(PipelineState("orders", STATE))
        catalog = {"streams": [{"tap_stream_id": "a"}, {"tap_stream_id": "c"}]}
        write("tap-fake", f"if '--discover' in sys.argv: print({json.dumps(catalog)!r})\n")
        told = json.loads(run("orders", "--dry-run", "--json").stdout)
        assert [(one["stream"], one["low"], one["rows"]) for one in told] == [
            ("a", STATE["bookmarks"]["a"], None), ("c", None, None),
        ]  # fmt: skip
        assert "1 stream(s); nothing" not in run("orders", "--dry-run").output

    def test_a_tap_without_a_plan_is_76_and_one_that_fails_keeps_its_code(self):
        write("tap-spark-source", "print('hello')")
        assert run("orders", "--dry-run").exit_code == 76
        write("tap-spark-source", "sys.exit(69)")
        assert run("orders", "--dry-run").exit_code == 69
