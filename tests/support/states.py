"""Two pipelines in a working folder, for the state commands."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from singer_spark.cli import main
from singer_spark.state import PipelineState, create_state_store

OLD = {"bookmarks": {"orders": {"replication_key_value": "2026-01-31 ü"}}}
NEW = {"bookmarks": {"orders": {"replication_key_value": "2025-12-01"}}}
PIPELINE = "name: {}\nsource: {{tap: t}}\ndestination: {{target: x}}\nstate: {}\n"


def prepare(folder, monkeypatch):
    """Make two pipelines in pipelines/, of which `orders` has a state."""
    monkeypatch.chdir(folder)
    Path("pipelines").mkdir()
    Path("pipelines/orders.yml").write_text(PIPELINE.format("orders", "store"))
    Path("pipelines/users.yaml").write_text(PIPELINE.format("users", "store"))
    open_store().save(PipelineState("orders", OLD, "r", "2026-02-01T10:00:00+00:00", 7))
    Path("new.json").write_text(json.dumps(NEW))


def open_store():
    return create_state_store("store")


def state(*arguments, **options):
    return CliRunner().invoke(main, ["state", *arguments], **options)


def current():
    return open_store().get("orders").watermark
