"""A run that is stopped or killed: its exit code, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.bench import FOREVER, is_running
from tests.support.shop import (
    TAP,
    TARGET,
    await_pids,
    finish,
    make_folder,
    singer_spark,
    store,
    write,
)

WITH_GRANDCHILD = """
child = subprocess.Popen(["sleep", "100"])
note(f"{os.getpid()} {child.pid}")
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    return make_folder(tmp_path, monkeypatch)


def await_gone(pids):
    until = time.monotonic() + 5
    while any(map(is_running, pids)):
        assert time.monotonic() < until
        time.sleep(0.01)


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

    def test_a_signal_at_the_end_of_a_run_ends_until_complete(self):
        counting = 'n = json.load(open(option("--state")))["n"] + 1 if option("--state") else 1\n'
        told = 'say(type="STATE", value={"n": n})\n'
        write("tap-fake", counting + 'if n == 2: note("x"); time.sleep(100)\n' + told)
        # The target leaves a process that stops the runner when it is swept away, after success.
        left = """
script = "trap 'kill -TERM $0; exit' TERM; touch ready; while :; do sleep 0.02; done"
subprocess.Popen(["sh", "-c", script, str(os.getppid())])
while not os.path.exists("ready"): time.sleep(0.01)
"""
        write("target-fake", TARGET + left)
        process = singer_spark(
            "run", "orders", "--until-complete", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            _, err = process.communicate(timeout=15)
        finally:
            process.kill()
        assert (process.returncode, Path("tap-fake.pids").exists()) == (143, False)
        assert "Error: stopped by SIGTERM" in err
        assert store().get("orders").run_count == 1

    def test_a_check_is_stopped_by_one_signal(self):
        write("tap-fake", WITH_GRANDCHILD + FOREVER + "# --discover\n")
        write("target-fake", WITH_GRANDCHILD + TARGET)
        process = singer_spark("check", "orders", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pids = await_pids("tap-fake")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

        assert process.returncode == 130
        await_gone(pids)
        assert not Path("target-fake.pids").exists()

    def test_a_second_signal_does_not_wait_for_the_deaf(self):
        deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        write("tap-fake", deaf + WITH_GRANDCHILD + FOREVER)
        process = singer_spark("run", "orders", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        tap, _ = await_pids("tap-fake")
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert is_running(tap)
        while process.poll() is None and time.monotonic() < started + 8:
            process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        process.communicate(timeout=20)

        assert process.returncode == 130
        assert time.monotonic() - started < 5
        assert not is_running(tap)
