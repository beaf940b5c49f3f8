"""Loads tables by dlt, read by connectorx and merged into Delta: `dlt_merge.py JOB`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import dlt
from dlt.sources.sql_database import sql_database


def main(job: dict) -> None:
    folder = Path(job["folder"])
    source = sql_database(
        job["url"].replace("postgresql:", "postgresql+psycopg2:"),
        schema="public",
        table_names=[table["name"] for table in job["tables"]],
        backend="connectorx",
        backend_kwargs={"conn": job["url"], "return_type": "arrow"},
        reflection_level="full_with_precision",
    )
    for table in job["tables"]:
        source.resources[table["name"]].apply_hints(
            primary_key="id",
            write_disposition={"disposition": "merge", "strategy": "upsert"},
            incremental=dlt.sources.incremental(table["cursor"]),
            table_format="delta",
        )
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=str(folder / "state"),
        destination=dlt.destinations.filesystem(bucket_url=(folder / "lake").as_uri()),
        dataset_name="public",
    )
    pipeline.run(source).raise_on_failed_jobs()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
