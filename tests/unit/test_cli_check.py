"""check as its users meet it: everything tried, one line each, whatever fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singer_spark.state import create_state_store
from singer_spark.state.lock import locked
from tests.support.bench import FOREVER
from tests.support.shop import TAP, invoke, make_folder, write, write_pipeline

CATALOG = {"streams": [{"tap_stream_id": "public-orders"}, {"tap_stream_id": "public-empty"}]}
DISCOVER = f"if '--discover' in sys.argv: print({json.dumps(CATALOG)!r}); sys.exit()\n"


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    return make_folder(tmp_path, monkeypatch)


class TestCheck:
    @pytest.fixture(autouse=True)
    def tap(self):
        write("tap-fake", DISCOVER + TAP)

    def test_everything_is_tried_and_one_row_per_stream_shown(self):
        result = invoke("check", "orders")

        assert result.exit_code == 0, result.output
        assert result.output.splitlines() == [
            "orders",
            "✓ file: orders.yml describes orders",
            "✓ commands: tap-fake and target-fake",
            "✓ state store: lake/.singer-spark/state can be written; 0 runs so far",
            "✓ source: 2 stream(s), one row each:",
            '    public-orders: {"n": 0}',
            "    public-empty: no row",
            "✓ destination: target-fake starts",
        ]
        assert not list(Path("tmp").iterdir())
        assert not Path("lake/.singer-spark/state/orders/lock").exists()

    def test_what_becomes_of_a_stream_without_a_key_is_said(self):
        """The limit of one row that a check sets is none of the read."""
        read = {"read": {"rows": "some", "why": "max_rows"}}
        schema = (
            'say(type="SCHEMA", stream="{}", schema={{}}, key_properties=[], singer_spark={})\n'
        )
        records = 'for name in ("public-orders", "public-empty"): '
        records += 'say(type="RECORD", stream=name, record={})\n'
        write("tap-spark-source", DISCOVER + schema.format("public-orders", read) + records)
        write("target-spark-delta", "for line in sys.stdin: pass")
        text = Path("pipelines/orders.yml").read_text()
        text = text.replace("tap-fake", "tap-spark-source")
        Path("pipelines/orders.yml").write_text(text.replace("target-fake", "target-spark-delta"))
        result = invoke("check", "orders")
        assert result.exit_code == 0, result.output
        assert (
            "  ! public-orders: FULL_TABLE, no key, upsert: no key: replaced at each run"
            in result.output.splitlines()
        )

    def test_a_tap_that_would_go_on_for_ever_is_ended(self):
        endless = 'while True: say(type="RECORD", stream="public-orders", record={})\n'
        both = 'say(type="RECORD", stream="public-empty", record={"m": 1})\n'
        write("tap-fake", DISCOVER + both + endless)
        result = invoke("check", "--json")
        (told,) = json.loads(result.output)
        assert told["ok"]
        (source,) = [step for step in told["steps"] if step["step"] == "source"]
        assert source["rows"] == {"public-orders": {}, "public-empty": {"m": 1}}

    def test_a_source_that_does_not_answer_is_given_up(self, monkeypatch):
        monkeypatch.setattr("singer_spark.runner.preview.LIMIT_SECONDS", 1.0)
        write("tap-fake", "if '--discover' in sys.argv: time.sleep(100)\n")
        result = invoke("check", "orders")
        assert result.exit_code == 75
        assert "ended after the timeout of 1 s" in " ".join(result.output.split())

    def test_only_chosen_streams_are_waited_for(self):
        text = Path("pipelines/orders.yml").read_text()
        chosen = text.replace("{tap: tap-fake,", "{tap: tap-fake, streams: [public-orders],")
        Path("pipelines/orders.yml").write_text(chosen)
        write("tap-fake", DISCOVER + TAP + FOREVER)
        result = invoke("check", "orders")
        assert "1 stream(s), one row each" in result.output
        assert "public-empty" not in result.output

    @pytest.mark.parametrize(
        ("break_it", "code", "told"),
        [
            (lambda: write_pipeline("orders", more="colour: red\n"), 78, "✗ file\n"),
            (lambda: Path("bin/tap-fake").unlink(), 78, "there is no command tap-fake"),
            (lambda: write("tap-fake", "sys.exit(69) # --discover"), 69, "with exit code 69"),
            (lambda: write("tap-fake", DISCOVER + "sys.exit(65)"), 65, "✗ source"),
            (lambda: write("target-fake", "sys.exit(78)"), 78, "✗ destination"),
            (lambda: Path("lake").write_text("x"), 74, "✗ state store"),
        ],
    )  # fmt: skip
    def test_what_fails_is_told_and_gives_the_exit_code(self, break_it, code, told):
        break_it()
        result = invoke("check", "orders")
        assert result.exit_code == code
        assert told in result.output
        assert "do-not-tell" not in result.output
        assert all(len(line) <= 80 for line in result.output.splitlines())

    @pytest.mark.skipif(not Path("/sys").is_dir(), reason="needs a place where nobody writes")
    @pytest.mark.parametrize("command", ["check", "run"])
    def test_a_store_that_is_read_only_is_one_line(self, command):
        write_pipeline("orders", more="state: /sys/singer-spark\n")
        result = invoke(command, "orders")
        assert result.exit_code == 74
        assert "/sys/singer-spark" in result.output
        assert "Traceback" not in result.output

    def test_the_endpoint_that_spark_is_told_is_the_one_that_is_tried(
        self, s3, s3_endpoint, monkeypatch
    ):
        monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
        write("target-spark-delta", "for line in sys.stdin: pass")
        text = Path("pipelines/orders.yml").read_text().replace("target-fake", "target-spark-delta")
        conf = {"spark.hadoop.fs.s3a.endpoint": s3_endpoint}
        config = json.dumps({"path": f"s3a://{s3}/lake", "spark_conf": conf})
        text = text.replace("{path: lake}", config) + "state: store\n"
        Path("pipelines/orders.yml").write_text(text)
        result = invoke("check", "orders", "--json")
        assert result.exit_code == 0, result.output
        assert f"s3a://{s3}/lake can be written" in result.output

        keys = text.replace("fs.s3a.endpoint", "fs.s3a.access.key")
        Path("pipelines/orders.yml").write_text(keys)
        assert "is not tried: only Spark knows" in invoke("check", "orders", "--json").output

    def test_a_pipeline_that_runs_is_no_failure(self):
        with locked(create_state_store("lake/.singer-spark/state"), "orders"):
            result = invoke("check", "orders")
        assert result.exit_code == 0
        assert "✓ state store: in use: process" in result.output

    def test_without_pipelines_the_next_step_is_told(self):
        Path("pipelines/orders.yml").unlink()
        result = invoke("check")
        assert result.exit_code == 78
        assert "singer-spark init" in result.output
