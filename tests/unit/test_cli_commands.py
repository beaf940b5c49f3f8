"""check, init, schedule, completion and runs as their users meet them; help and tables of all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from singer_spark.cli import main
from singer_spark.pipeline.new import parse_source, write_text
from singer_spark.state import create_state_store
from singer_spark.state.lock import locked
from singer_spark.state.runs import save_run
from tests.support.bench import FOREVER
from tests.support.shop import TAP, make_folder, write, write_pipeline

CATALOG = {"streams": [{"tap_stream_id": "public-orders"}, {"tap_stream_id": "public-empty"}]}
DISCOVER = f"if '--discover' in sys.argv: print({json.dumps(CATALOG)!r}); sys.exit()\n"


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    return make_folder(tmp_path, monkeypatch)


def invoke(*arguments, **options):
    return CliRunner().invoke(main, list(arguments), **options)


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

    def test_a_tap_that_would_go_on_for_ever_is_ended(self):
        endless = 'while True: say(type="RECORD", stream="public-orders", record={})\n'
        both = 'say(type="RECORD", stream="public-empty", record={"m": 1})\n'
        write("tap-fake", DISCOVER + both + endless)
        result = invoke("check", "--json")
        (told,) = json.loads(result.output)
        assert told["ok"]
        (source,) = [step for step in told["steps"] if step["step"] == "source"]
        assert source["rows"] == {"public-orders": {}, "public-empty": {"m": 1}}

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
            (lambda: write("tap-fake", "sys.exit(69)"), 69, "tap-fake failed with exit code 69"),
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


class TestInit:
    def test_what_is_not_given_is_asked_for(self):
        answers = "shop\npostgresql://db.example.com/shop\nreader\nlake/shop\n\n*/15 * * * *\n"
        result = invoke("init", input=answers)

        assert result.exit_code == 0, result.output
        written = yaml.safe_load(Path("pipelines/shop.yml").read_text())
        assert written == {
            "name": "shop",
            "source": {
                "tap": "tap-spark-source",
                "config": {
                    "source_url": "jdbc:postgresql://db.example.com/shop",
                    "source_user": "reader",
                    "source_password": "${SHOP_PASSWORD}",
                    "default_replication_method": "INCREMENTAL",
                    "default_replication_key": "updated_at",
                },
            },
            "destination": {"target": "target-spark-delta", "config": {"path": "lake/shop"}},
            "schedule": {"cron": "*/15 * * * *"},
        }
        assert "export SHOP_PASSWORD=" in result.output
        assert "singer-spark check shop" in result.output

    def test_everything_may_be_given_and_no_password_is_written(self):
        url = "postgresql://reader:do-not-tell@db/shop"
        given = ["--source", url, "--destination", "x", "--key", "none", "--cron", "none"]
        result = invoke("init", "shop", *given)

        assert result.exit_code == 0, result.output
        assert "do-not-tell" not in Path("pipelines/shop.yml").read_text() + result.output
        again = invoke("init", "shop", *given)
        assert again.exit_code == 78
        assert "pipelines/shop.yml exists and is left alone" in again.output

    @pytest.mark.parametrize(
        ("url", "jdbc", "user"),
        [
            ("postgres://u:p@h:5433/d?ssl=true", "jdbc:postgresql://h:5433/d?ssl=true", "u"),
            ("mysql://u%40x@h/d", "jdbc:mysql://h/d", "u@x"),
            ("sqlserver://h/d", "jdbc:sqlserver://h;databaseName=d", None),
            ("jdbc:postgresql://h/d?user=u&password=p&ssl=1", "jdbc:postgresql://h/d?ssl=1", "u"),
            ("jdbc:derby:shop", "jdbc:derby:shop", None),
            ("csv:examples/shop", "csv:examples/shop", None),
        ],
    )
    def test_usual_urls_are_understood(self, url, jdbc, user):
        source = parse_source(url)
        assert (source.url, source.user) == (jdbc, user)

    @pytest.mark.parametrize("arguments", [["a/b"], ["x", "--source", "ftp://x"],
                                           ["x", "--source", "csv:y", "--destination", "z",
                                            "--key", "none", "--cron", "often"]])  # fmt: skip
    def test_bad_input_is_one_line(self, arguments):
        result = invoke("init", *arguments)
        assert (result.exit_code, result.output.count("\n")) == (78, 1)
        assert not Path("pipelines/x.yml").exists()

    def test_a_text_with_signs_stays_what_it_is(self):
        text = write_text("p", parse_source('csv:it\'s "here": #1'), "a: b")
        written = yaml.safe_load(text)
        assert written["source"]["config"]["source_url"] == 'csv:it\'s "here": #1'
        assert written["destination"]["config"]["path"] == "a: b"


class TestSchedule:
    def test_lines_for_cron_and_units_for_systemd(self):
        write_pipeline("orders", more="schedule: {cron: '0 4 13 * FRI'}\n")
        write_pipeline("by-hand")
        result = invoke("schedule")

        assert result.exit_code == 0
        here = re.escape(str(Path.cwd()))
        line = rf"0 4 13 \* FRI cd {here} && \S+/singer-spark run {here}/pipelines/orders.yml"
        assert re.search(line, result.output)
        assert "OnCalendar=*-*-13 04:00:00\nOnCalendar=Fri *-*-* 04:00:00\n" in result.output
        assert f"WorkingDirectory={Path.cwd()}" in result.output
        assert "singer-spark-orders.timer" in result.output
        assert "by-hand" not in result.output
        assert "OnCalendar" not in invoke("schedule", "--format", "cron").output
        (told,) = json.loads(invoke("schedule", "--json").output)
        assert told["on_calendar"][1] == "Fri *-*-* 04:00:00"

    def test_without_a_schedule_the_next_step_is_told(self):
        result = invoke("schedule")
        assert result.exit_code == 78
        assert "add schedule:" in result.output

    def test_signs_that_mean_something_are_escaped(self, tmp_path, monkeypatch):
        odd = tmp_path / "50% off $5"
        (odd / "pipelines").mkdir(parents=True)
        monkeypatch.chdir(odd)
        write_pipeline("orders", more="schedule: {cron: '@daily'}\n")
        result = invoke("schedule")
        assert r"'/tmp" not in result.output.split("# ~/")[0] or r"50\% off $5'" in result.output
        assert "50%% off $5" in result.output
        assert '50%% off $$5/pipelines/orders.yml"' in result.output


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_a_script_is_printed(self, shell):
        result = invoke("completion", shell)
        assert result.exit_code == 0
        assert "_SINGER_SPARK_COMPLETE" in result.output

    def test_names_of_pipelines_are_completed(self):
        write_pipeline("orphans")
        env = {"_SINGER_SPARK_COMPLETE": "bash_complete", "COMP_WORDS": "singer-spark run or",
               "COMP_CWORD": "2"}  # fmt: skip
        result = invoke(prog_name="singer-spark", env=env)
        assert result.output.split() == ["plain,orders", "plain,orphans"]


class TestRuns:
    def test_all_pipelines_are_listed_together_newest_first(self):
        write_pipeline("shop-b")
        store = create_state_store("lake/.singer-spark/state")
        for name, run_id in (("orders", "r1"), ("shop-b", "r2"), ("orders", "r3")):
            save_run(store, name, {"run_id": run_id, "exit_code": 0, "inserted": 3})
        lines = invoke("runs").output.splitlines()
        assert [line.split()[0] for line in lines] == ["PIPELINE", "orders", "shop-b", "orders"]
        told = json.loads(invoke("runs", "--json", "--limit", "2").output)
        assert [one["run_id"] for one in told] == ["r3", "r2"]

    def test_a_record_of_a_newer_version_is_one_line(self):
        place = Path("lake/.singer-spark/state/orders")
        place.mkdir(parents=True)
        (place / "summary.json").write_text('{"schema": 99, "runs": []}')
        result = invoke("runs", "orders")
        assert (result.exit_code, result.output.count("\n")) == (74, 1)
        assert "written by a newer singer-spark" in result.output


def commands(group=main, prefix=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*prefix, name))
        else:
            yield (*prefix, name)


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_help_is_enough_to_use_it(command):
    result = invoke(*command, "--help")
    usage, _, text = result.output.partition("\n\n")
    assert usage.startswith("Usage: ")
    assert len(text.split("Options:")[0].strip()) > 30
    assert all(len(line) <= 80 for line in result.output.splitlines())
    options = re.findall(r"^  (-\S.*)$", text, re.MULTILINE)
    assert all(re.search(r"\s{2,}\S|^-\S+ [A-Z]+$|^--\S+$|^--\S+ \S+$", one) for one in options)


def test_the_list_of_commands_tells_each_in_one_line():
    listed = invoke("--help").output
    assert "..." not in listed.partition("Commands:")[2]
    assert len(listed.partition("Commands:")[2].splitlines()) == 1 + len(main.commands)


class TestWidth:
    LONG = "a-pipeline-whose-name-is-as-long-as-a-name-may-be-" + "x" * 70

    @pytest.mark.parametrize(
        "command",
        [["runs"], ["runs", LONG], ["status"], ["check"], ["state", "list"], ["run", "a-*"],
         ["run", LONG, "--dry-run"]],
        ids=lambda command: " ".join(command)[:12],
    )  # fmt: skip
    def test_tables_fit_eighty_columns_whatever_is_in_them(self, command):
        write_pipeline(self.LONG)
        long = {"streams": [{"tap_stream_id": "s" * 200}]}
        write("tap-fake", f"if '--discover' in sys.argv: print({json.dumps(long)!r}); sys.exit()\n")
        record = {
            "run_id": "r1",
            "exit_code": 69,
            "started_at": "2026-01-31T10:00:00.000+00:00",
            "error": "e" * 30 + " word" * 50,
            "records": 10**15,
            "inserted": 10**15,
            "milliseconds": 10**10,
            "lag_seconds": 10**9,
        }
        save_run(create_state_store("lake/.singer-spark/state"), self.LONG, record)
        result = invoke(*command)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert result.stdout
        lines = [line for line in result.stdout.splitlines() if not line.startswith("Planning: ")]
        assert all(len(line) <= 80 for line in lines)
