"""Changing a stored state by hand, which a run in progress must not notice too late."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from singer_spark.errors import StateError
from singer_spark.state.base import PipelineState, StateStore
from singer_spark.state.lock import locked


def parse_state(text: str | bytes, where: str) -> dict[str, Any]:
    """Read a Singer state, which is a JSON object; `where` names it in the error."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise StateError(
            f"{where} is no Singer state: it must be a JSON object such as "
            '{"bookmarks": {}}. Nothing was changed'
        )
    return value


def replace_state(store: StateStore, before: PipelineState, watermark: Mapping[str, Any]) -> None:
    """Store another state over the one that was read, while no run is active."""
    with locked(store, before.pipeline_name):
        store.save(replace(before, watermark=watermark))
        # It led on from the old state.
        store.delete_checkpoint(before.pipeline_name)


def delete_state(store: StateStore, name: str) -> None:
    """Forget a pipeline's state, while no run is active; its history stays."""
    with locked(store, name):
        store.delete(name)


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError("NaN and the infinities are not JSON")
