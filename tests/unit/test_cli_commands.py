"""schedule, completion and runs as their users meet them; help and tables of all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from singer_spark.cli import main
from singer_spark.cli.output import cut, lay_out
from singer_spark.state import create_state_store
from singer_spark.state.runs import save_run
from tests.support.shop import invoke, make_folder, write, write_pipeline


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    return make_folder(tmp_path, monkeypatch)


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
        assert re.search(r"ExecStart=\S+/singer-spark engine start --idle=3650d\n", result.output)
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
        if command == ["state", "list"]:
            assert [line.split()[-2:] for line in lines] == [
                ["RUNS", "BOOKMARKS"],
                *[["0", "0"]] * 2,
            ]

    def test_signs_that_take_two_cells_keep_the_columns(self):
        head, row = lay_out([("NAME", "ROWS"), ("注文" * 10, "7")], right=(1,))
        assert cell_len(head) == cell_len(row) == 46
        assert cell_len(cut("注文" * 60)) == 79
