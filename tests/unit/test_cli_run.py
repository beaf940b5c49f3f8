"""The command `run` as its users meet it: output, exit codes, logs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from singer_spark import __version__
from singer_spark.cli import main
from singer_spark.state.lock import locked
from singer_spark.state.runs import list_runs
from tests.support.shop import TAP, TARGET, finish, make_folder, singer_spark, store, write


@pytest.fixture
def work(tmp_path, monkeypatch):
    return make_folder(tmp_path, monkeypatch)


@pytest.mark.usefixtures("work")
class TestRun:
    def test_a_run_prints_what_it_did_and_the_next_one_is_incremental(self):
        assert finish("run", "orders") == (
            0,
            "Running: orders\n"
            "public-orders: 340 records...\n"
            "Done! 340 records in 2 stream(s)\n"
            "  public-orders: 340\n"
            "  public-empty: 0\n",
            "",
        )
        state = Path("lake/.singer-spark/state/orders/state.json")
        assert json.loads(state.read_text()) == {"bookmarks": {"public-orders": 340}}
        meta = json.loads(state.with_name("meta.json").read_text())
        assert meta["run_count"] == 1

        code, out, _ = finish("run", "pipelines/orders.yml")
        assert code == 0
        assert out.splitlines()[1] == "Incremental mode (using previous checkpoint)"
        assert "Incremental" not in finish("run", "orders", "--full")[1]
        assert not list(Path("tmp").iterdir())

    def test_what_the_table_has_is_counted_as_left_out(self):
        fact = {"kind": "commit", "stream": "public-orders", "rows": 340, "unchanged": 12}
        tell = f"open(os.environ['SINGER_SPARK_REPORT'], 'a').write({json.dumps(fact)!r} + chr(10))"
        write("target-fake", TARGET + tell)
        out = finish("run", "orders")[1].splitlines()
        assert "  public-orders: 340 (12 left out, the table has them)" in out
        assert "  public-empty: 0" in out

    def test_json_is_one_line_with_the_final_state_and_progress_goes_to_stderr(self):
        code, out, err = finish("run", "orders", "--json")

        result = json.loads(out)
        assert code == 0
        assert out.count("\n") == 1
        assert result["state"] == {"bookmarks": {"public-orders": 340}}
        assert result["records"] == 340
        assert result["streams"]["public-empty"]["records"] == 0
        assert err == "Running: orders\npublic-orders: 340 records...\n"

    def test_a_run_that_fails_is_a_line_of_json_too(self):
        finish("run", "orders")
        write("tap-fake", 'sys.stderr.write("Error: no table\\n")\nsys.exit(3)')
        code, out, err = finish("run", "orders", "--json")

        told = json.loads(out)
        assert (code, told["exit_code"], told["status"]) == (3, 3, "failed")
        assert told["error"] == "tap-fake failed with exit code 3: no table"
        assert told["state"] == {"bookmarks": {"public-orders": 340}}
        assert "Error: tap-fake failed with exit code 3" in err

    def test_what_fails_before_there_is_a_run_is_a_line_of_json_too(self):
        with locked(store(), "orders"):
            code, out, _ = finish("run", "orders", "--json")
        told = json.loads(out)
        assert (code, told["exit_code"], told["status"], told["state"]) == (75, 75, "failed", None)
        assert "is being run already" in told["error"]

    @pytest.mark.parametrize("damage", ['{"bookmarks"', "[]"])
    def test_a_damaged_state_is_a_failed_run_that_status_tells_of(self, damage):
        finish("run", "orders")
        Path("lake/.singer-spark/state/orders/state.json").write_text(damage)

        code, _, err = finish("run", "orders")
        assert (code, err.count("\n")) == (74, 1)
        assert "singer-spark state delete" in err
        assert list_runs(store(), "orders")[0]["exit_code"] == 74
        code, out, _ = finish("status", "orders")
        assert code == 2
        assert "state.json is damaged" in " ".join(out.split())

    def test_a_failed_run_is_resumed(self):
        write("target-fake", TARGET + '        note("committed")\n')
        wait = 'while not os.path.exists("target-fake.pids"): time.sleep(0.01)\n'
        write("tap-fake", TAP + wait + "sys.exit(3)")
        assert finish("run", "orders")[0] == 3
        write("tap-fake", TAP)
        assert "Resuming" in finish("run", "orders", "--resume")[1]

    def test_an_orchestrator_may_keep_the_state_itself(self):
        assert finish("run", "orders", "--state-out", "s.json")[0] == 0
        code, out, _ = finish("run", "orders", "--state-in", "s.json", "--state-out", "s.json")

        assert code == 0
        assert "Incremental mode" in out
        assert json.loads(Path("s.json").read_text()) == {"bookmarks": {"public-orders": 340}}
        assert not Path("lake").exists()

    @pytest.mark.parametrize("options", [["--full", "--resume"], ["--resume", "--state-in", "x"]])
    def test_what_contradicts_itself_is_78(self, options):
        code, out, err = finish("run", "orders", *options)
        assert (code, out, err.count("\n")) == (78, "", 1)

    def test_a_failing_tap_is_one_error_line_and_its_own_exit_code(self):
        write("tap-fake", 'sys.stderr.write("no such table\\n")\nsys.exit(3)')
        code, out, err = finish("run", "orders")

        assert code == 3
        assert "Done!" not in out
        assert err == (
            "tap-fake | no such table\n"
            "Error: tap-fake failed with exit code 3; its log above says why. "
            "The stored state is unchanged\n"
        )

    def test_a_settings_problem_is_one_line_and_78(self, monkeypatch):
        monkeypatch.delenv("SECRET_OF_TAP")
        code, out, err = finish("run", "orders")

        assert (code, out) == (78, "")
        assert err.startswith("Error: ")
        assert "source.config.password: environment variable SECRET_OF_TAP is not set" in err
        assert err.count("\n") == 1

    def test_of_many_runs_at_once_none_disturbs_another(self):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        runs = [singer_spark("run", "orders", **pipes) for _ in range(8)]
        errors = [run.communicate(timeout=60)[1] for run in runs]

        codes = [run.returncode for run in runs]
        assert set(codes) <= {0, 75}
        for code, error in zip(codes, errors, strict=True):
            assert not code or "is being run already (process" in error
        meta = json.loads(Path("lake/.singer-spark/state/orders/meta.json").read_text())
        assert meta["run_count"] == codes.count(0) > 0
        assert not Path("lake/.singer-spark/state/orders/lock").exists()

    @pytest.mark.parametrize("argument", ["nix", "pipelines", "/nix/nix.yml"])
    def test_a_pipeline_that_is_not_there_is_78(self, argument):
        code, _, err = finish("run", argument)

        assert code == 78
        assert err.count("\n") == 1

    @pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
    def test_a_hundred_megabytes_of_logs_need_neither_time_nor_memory(self):
        write(
            "tap-fake",
            """
            line = "x" * 99 + "\\n"
            for n in range(100): sys.stderr.write(line * 10_000)
            """
            + textwrap.indent(TAP, " " * 12),
        )
        # The target logs as much again, without a single line break, then looks at the runner.
        look = 'note(open(f"/proc/{os.getppid()}/status").read())'
        logs = "for n in range(50): os.write(2, b'y' * 2_000_000)\n"
        write("target-fake", logs + TARGET + look)
        log = Path("log")
        with log.open("w") as file:
            process = singer_spark("run", "orders", stderr=file, stdout=subprocess.PIPE)
            out, _ = process.communicate(timeout=30)
        logged = log.stat().st_size
        log.unlink()
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path("target-fake.pids").read_text())

        assert process.returncode == 0
        assert "Done! 340 records" in out
        assert logged > 200_000_000
        assert int(peak[1]) < 80_000

    def test_a_closed_standard_error_does_not_stop_the_run(self):
        write("tap-fake", 'sys.stderr.write("log\\n" * 100_000)\n' + TAP)
        reader, writer = os.pipe()
        process = singer_spark("run", "orders", stderr=writer, stdout=subprocess.PIPE)
        os.close(reader)
        os.close(writer)

        out, _ = process.communicate(timeout=30)
        assert "Done! 340 records" in out

    @pytest.mark.parametrize("end", ["| head -1", ">&-", "2>&- >&-"])
    def test_a_closed_standard_output_does_not_stop_the_run(self, end):
        write("tap-fake", TAP + "time.sleep(1)\n")
        command = f"{sys.executable} -m singer_spark.cli run orders"
        script = f"{{ {command}; echo $? > code; }} {end}" if "|" in end else f"{command} {end}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)

        assert done.stderr == ""
        assert (Path("code").read_text().strip() if "|" in end else done.returncode) in (0, "0")
        assert list_runs(store(), "orders")[0]["exit_code"] == 0


class TestGroup:
    def test_the_version_is_told(self):
        result = CliRunner().invoke(main, ["--version"])

        assert result.output == f"singer-spark, version {__version__}\n"

    @pytest.mark.parametrize("arguments", [[], ["--directory", "here"]])
    def test_the_demo_is_called_with_its_folder(self, monkeypatch, arguments):
        called = []
        monkeypatch.setattr("singer_spark.cli.demo.run_demo", called.append)
        result = CliRunner().invoke(main, ["demo", *arguments])

        assert result.exit_code == 0
        assert called == [Path("here") if arguments else None]

    def test_the_command_loads_neither_spark_nor_the_sdk_nor_boto3(self):
        heavy = "{'pyspark', 'singer_sdk', 'boto3', 'pyarrow', 'pandas', 'jinja2', 'jsonschema_rs'}"
        code = f"import sys, singer_spark.cli; print({heavy} & set(sys.modules))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )

        assert done.stdout == "set()\n"
