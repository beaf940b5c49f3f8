"""A pipeline as a Dagster asset, whose materializations keep the state.

Needs the command singer-spark on the PATH; SINGER_SPARK_PIPELINE_FILE names the pipeline.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import dagster as dg

PIPELINE = os.environ.get("SINGER_SPARK_PIPELINE_FILE", "pipelines/shop.yml")
TRANSIENT = 75  # the exit code that is safe to repeat as it is


@dg.asset(retry_policy=dg.RetryPolicy(max_retries=3, delay=60))
def shop(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Load the shop from the state of the last materialization."""
    last = context.instance.get_latest_materialization_event(context.asset_key)
    known = last.asset_materialization.metadata if last and last.asset_materialization else {}
    state = known["state"].value if "state" in known else {}
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder, "in.json"), Path(folder, "out.json")
        given.write_text(json.dumps(state))
        command = ["singer-spark", "run", PIPELINE, "--json"]
        command += ["--state-in", str(given), "--state-out", str(result)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise dg.Failure(
                f"singer-spark exited with {done.returncode}; see its log",
                allow_retries=done.returncode == TRANSIENT,
            )
        state = json.loads(result.read_text())
    record = json.loads(done.stdout)
    return dg.MaterializeResult(
        metadata={
            "state": dg.MetadataValue.json(state),
            "mode": record["mode"],
            "dagster/row_count": record["records"],
            "streams": dg.MetadataValue.json(record["streams"]),
        }
    )


every_quarter = dg.ScheduleDefinition(
    name="every_quarter", cron_schedule="*/15 * * * *", target=[shop]
)
defs = dg.Definitions(assets=[shop], schedules=[every_quarter])

if __name__ == "__main__":
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(2):
            loaded = dg.materialize([shop], instance=instance)
            print(loaded.asset_materializations_for_node("shop")[0].metadata["mode"].value)
