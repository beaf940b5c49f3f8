"""A pipeline under Airflow 3, which keeps the state itself, as a Variable.

Needs the command singer-spark on the worker's PATH; SINGER_SPARK_PIPELINE_FILE names the pipeline.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow.exceptions import AirflowFailException
from airflow.sdk import Variable, dag, task

PIPELINE = os.environ.get("SINGER_SPARK_PIPELINE_FILE", "pipelines/shop.yml")
STATE = "singer_spark_state_shop"
TRANSIENT = 75  # the exit code that is safe to repeat as it is


@task(retries=3, retry_delay=timedelta(minutes=1), max_active_tis_per_dag=1)
def run_pipeline(pipeline: str, state_variable: str) -> dict:
    """Run a pipeline from the state of the last run, and keep the new one after success."""
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder, "in.json"), Path(folder, "out.json")
        given.write_text(Variable.get(state_variable, default="{}"))
        command = ["singer-spark", "run", pipeline, "--json"]
        command += ["--state-in", str(given), "--state-out", str(result)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode and done.returncode != TRANSIENT:
            raise AirflowFailException(f"singer-spark exited with {done.returncode}; see its log")
        done.check_returncode()
        Variable.set(state_variable, result.read_text())
    record = json.loads(done.stdout)
    return {key: record[key] for key in ("run_id", "mode", "records", "lag_seconds")}


@dag(
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
)
def singer_spark_shop():
    """Load the shop every quarter of an hour."""
    run_pipeline(PIPELINE, STATE)


shop = singer_spark_shop()

if __name__ == "__main__":
    shop.test()
