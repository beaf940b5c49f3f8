"""OpenLineage: events of a run's start and end, for those who keep a map of data.

Told by `openlineage` of the pipeline file (a URL, or a file that gets one line per event), else by
OPENLINEAGE_URL and its companions, as every OpenLineage client knows them. What cannot be told is
warned of; no run fails for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from singer_spark import __version__
from singer_spark.errors import SettingsError
from singer_spark.names import table_name
from singer_spark.pipeline import Pipeline
from singer_spark.pipeline.source_url import take_login
from singer_spark.post import UnpostedError, post_json
from singer_spark.runner.process import print_error
from singer_spark.runner.record import RunRecord

PRODUCER = f"urn:singer-spark:{__version__}"
SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = "https://openlineage.io/spec/facets/1-0-0"


def send_lineage(kind: str, pipeline: Pipeline, record: RunRecord) -> None:
    """Send an event: START, COMPLETE or FAIL."""
    place = pipeline.openlineage or _from_environment()
    if not place:
        return
    message = json.dumps(lineage_event(kind, pipeline, record)).encode()
    try:
        if place.startswith(("http://", "https://")):
            post_json(place, message, token=os.environ.get("OPENLINEAGE_API_KEY"))
        else:
            with Path(place).open("ab") as file:
                file.write(message + b"\n")
    except (UnpostedError, OSError) as error:
        print_error(
            f"Warning: the OpenLineage event {kind} was not taken ({error}); see openlineage"
        )


def lineage_event(kind: str, pipeline: Pipeline, record: RunRecord) -> dict[str, Any]:
    """Describe the run: what it reads, what it writes, how it ended."""
    source, target = pipeline.tap.config, pipeline.target.config
    inputs = [
        {"namespace": _namespace(source.get("source_url"), pipeline.tap.command), "name": stream}
        for stream in record.streams
    ]
    outputs = [
        {
            "namespace": _namespace(target.get("path"), pipeline.target.command),
            "name": table_name(stream),
            "outputFacets": {
                "outputStatistics": {
                    "_producer": PRODUCER,
                    "_schemaURL": f"{FACETS}/OutputStatisticsOutputDatasetFacet.json",
                    "rowCount": facts.rows,
                }
            },
        }
        for stream, facts in record.streams.items()
    ]
    run: dict[str, Any] = {"runId": record.run_id}
    if record.error:
        run["facets"] = {"errorMessage": _error(record.error)}
    return {
        "eventType": kind,
        "eventTime": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "run": run,
        "job": {"namespace": "singer-spark", "name": pipeline.name},
        "inputs": inputs,
        "outputs": outputs,
        "producer": PRODUCER,
        "schemaURL": SPEC,
    }


def _error(text: str) -> Mapping[str, str]:
    return {
        "_producer": PRODUCER,
        "_schemaURL": f"{FACETS}/ErrorMessageRunFacet.json",
        "message": text,
        "programmingLanguage": "python",
    }


def _namespace(place: object, command: str) -> str:
    """Name where data lie, without user, password and parameters."""
    if not isinstance(place, str) or not place:
        return Path(command).name
    try:
        place = take_login(place).url
    except SettingsError:
        return place.removeprefix("jdbc:").split(":")[0]
    parts = urlsplit(place.removeprefix("jdbc:").split(";")[0])
    host = parts.netloc.rpartition("@")[2]
    return (
        f"{parts.scheme}://{host}{parts.path}" if host else f"{parts.scheme or 'file'}:{parts.path}"
    )


def _from_environment() -> str | None:
    url = os.environ.get("OPENLINEAGE_URL")
    endpoint = os.environ.get("OPENLINEAGE_ENDPOINT", "api/v1/lineage")
    return f"{url.rstrip('/')}/{endpoint.lstrip('/')}" if url else None
