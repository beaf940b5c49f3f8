"""The command as its users meet it: output, exit codes, signals, no process left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import types
from pathlib import Path

import pytest
from click.testing import CliRunner

from singer_spark import __version__
from singer_spark.cli import main

TAP = """
say(type="SCHEMA", stream="public-orders", schema={}, key_properties=[])
for n in range(340): say(type="RECORD", stream="public-orders", record={"n": n})
say(type="SCHEMA", stream="public-empty", schema={}, key_properties=[])
say(type="STATE", value={"bookmarks": {"public-orders": 340}})
"""
TARGET = """
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "STATE":
        say(**message["value"])
"""
WITH_GRANDCHILD = """
child = subprocess.Popen(["sleep", "100"])
note(f"{os.getpid()} {child.pid}")
"""
FOREVER = "while True: time.sleep(1)\n"


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A working folder with a pipeline `orders` and its commands on PATH."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "pipelines" / "orders.yml").write_text(
        "name: orders\n"
        "source: {tap: tap-fake, config: {password: '${SECRET_OF_TAP}'}}\n"
        "destination: {target: target-fake, config: {path: lake}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("SECRET_OF_TAP", "do-not-tell")
    write("tap-fake", TAP)
    write("target-fake", TARGET)
    return tmp_path


def write(name, body):
    path = Path("bin", name)
    path.write_text(
        f"#!{sys.executable} -SE\n"
        "import json, os, signal, subprocess, sys, time\n"
        "def say(**message): print(json.dumps(message), flush=True)\n"
        f"def note(text): open({str(Path.cwd() / name)!r} + '.pids', 'w').write(text)\n"
        + textwrap.dedent(body)
    )
    path.chmod(0o755)


def singer_spark(*arguments, **options):
    command = [sys.executable, "-c", "from singer_spark.cli import main; main()", *arguments]
    return subprocess.Popen(command, text=True, **options)


def finish(*arguments):
    process = singer_spark(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def is_running(pid):
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def await_pids(*names):
    files = [Path(f"{name}.pids") for name in names]
    until = time.monotonic() + 20
    while not all(file.exists() and file.read_text() for file in files):
        assert time.monotonic() < until
        time.sleep(0.01)
    return [int(pid) for file in files for pid in file.read_text().split()]


def await_gone(pids):
    until = time.monotonic() + 5
    while any(map(is_running, pids)):
        assert time.monotonic() < until
        time.sleep(0.01)


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

    def test_json_is_one_line_with_the_final_state_and_progress_goes_to_stderr(self):
        code, out, err = finish("run", "orders", "--json")

        result = json.loads(out)
        assert code == 0
        assert out.count("\n") == 1
        assert result["state"] == {"bookmarks": {"public-orders": 340}}
        assert result["records"] == 340
        assert result["streams"]["public-empty"]["records"] == 0
        assert err == "Running: orders\npublic-orders: 340 records...\n"
        write("tap-fake", "sys.exit(3)")
        assert finish("run", "orders", "--json")[:2] == (3, "")

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


@pytest.mark.usefixtures("work")
class TestSignals:
    @pytest.fixture
    def running(self):
        """A run whose tap and target work on, each with a process of its own."""
        write("tap-fake", TAP + WITH_GRANDCHILD + FOREVER)
        write("target-fake", WITH_GRANDCHILD + TARGET)
        process = singer_spark("run", "orders", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        pids = await_pids("tap-fake", "target-fake")
        yield process, pids
        for pid in filter(is_running, pids):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate()

    @pytest.mark.parametrize(
        ("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
    )
    def test_a_stopped_run_leaves_no_process_no_file_and_no_state(self, running, signum, code):
        process, pids = running
        process.send_signal(signum)
        _, err = process.communicate(timeout=20)

        assert process.returncode == code
        assert f"Error: stopped by {signal.Signals(signum).name}" in err
        assert not any(map(is_running, pids))
        assert not list(Path("tmp").iterdir())
        assert not Path("lake/.singer-spark/state/orders/state.json").exists()

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's death")
    def test_a_killed_runner_takes_tap_and_target_with_it(self, running):
        process, pids = running
        process.kill()
        process.wait()

        await_gone(pids[::2])
        write("tap-fake", TAP)
        assert "Took over the lock of a dead run" in finish("run", "orders")[1]

    def test_a_second_signal_does_not_wait_for_the_deaf(self):
        deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        write("tap-fake", deaf + WITH_GRANDCHILD + FOREVER)
        process = singer_spark("run", "orders", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        tap, _ = await_pids("tap-fake")
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert is_running(tap)
        while process.poll() is None and time.monotonic() < started + 8:
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)

        assert process.returncode == 130
        assert time.monotonic() - started < 5
        assert not is_running(tap)


class TestGroup:
    def test_the_version_is_told(self):
        result = CliRunner().invoke(main, ["--version"])

        assert result.output == f"singer-spark, version {__version__}\n"

    @pytest.mark.parametrize("arguments", [[], ["--directory", "here"]])
    def test_the_demo_is_called_with_its_folder(self, monkeypatch, arguments):
        called = []
        module = types.SimpleNamespace(run_demo=called.append)
        monkeypatch.setitem(sys.modules, "singer_spark.demo", module)
        result = CliRunner().invoke(main, ["demo", *arguments])

        assert result.exit_code == 0
        assert called == [Path("here") if arguments else None]

    def test_the_command_loads_neither_spark_nor_the_sdk_nor_boto3(self):
        heavy = "{'pyspark', 'singer_sdk', 'boto3', 'pyarrow', 'pandas'}"
        code = f"import sys, singer_spark.cli; print({heavy} & set(sys.modules))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )

        assert done.stdout == "set()\n"
