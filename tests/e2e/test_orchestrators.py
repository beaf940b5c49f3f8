"""The examples for Airflow and Dagster, run with the real packages, each in its own environment.

They are large: an environment is made once in SINGER_SPARK_TEST_VENVS, or in the test's folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shop import TAP, make_folder, write

EXAMPLES = Path(__file__).parents[2] / "examples" / "orchestrators"
SEEN = 'open("modes", "a").write("given " if "--state" in sys.argv else "none ")\n'

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def work(tmp_path, monkeypatch):
    make_folder(tmp_path, monkeypatch)
    monkeypatch.setenv("SINGER_SPARK_PIPELINE_FILE", str(tmp_path / "pipelines" / "orders.yml"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    write("tap-fake", SEEN.replace('"modes"', repr(str(tmp_path / "modes"))) + TAP)
    return tmp_path


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Give the Python of an environment that has a package; skips where it cannot be installed."""

    def make(package):
        uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
        known = os.environ.get("SINGER_SPARK_TEST_VENVS")
        if uv is None and known is None:
            pytest.skip("uv is not installed")
        folder = Path(known or tmp_path_factory.mktemp("venvs")) / package.removeprefix("apache-")
        python = folder / "bin" / "python"
        if not python.exists():
            subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True)
            done = subprocess.run([uv, "pip", "install", "-q", "--python", python, package],
                                  capture_output=True, text=True, check=False)  # fmt: skip
            if done.returncode:
                shutil.rmtree(folder)
                pytest.skip(f"{package} cannot be installed: {done.stderr[-200:]}")
        return str(python)

    return make


def run(*command, **env):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900,
                          env={**os.environ, **env})  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_airflow_keeps_the_state_between_two_runs(work, environment):
    python = environment("apache-airflow")
    home = {
        "AIRFLOW_HOME": str(work / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
    }
    run(python, "-m", "airflow", "db", "migrate", **home)
    for _ in range(2):
        run(python, EXAMPLES / "airflow_dag.py", **home)

    assert (work / "modes").read_text().split() == ["none", "given"]
    told = run(python, "-m", "airflow", "variables", "get", "singer_spark_state_shop", **home)
    assert '"public-orders": 340' in told


def test_dagster_keeps_the_state_between_two_materializations(work, environment):
    told = run(environment("dagster"), EXAMPLES / "dagster_assets.py", DAGSTER_HOME=str(work))

    assert told.split() == ["full", "incremental"]
    assert (work / "modes").read_text().split() == ["none", "given"]
