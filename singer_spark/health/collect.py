"""Pipelines and stores, looked at: two requests per pipeline, whatever its history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import NamedTuple

from singer_spark.errors import SettingsError, SingerSparkError, StateError
from singer_spark.health.history import Activity, Case
from singer_spark.health.rules import Health
from singer_spark.pipeline import Alerts, load_pipeline
from singer_spark.pipeline.find import find_twins
from singer_spark.state import StateStore, create_state_store
from singer_spark.state.holder import Holder
from singer_spark.state.runs import look_at

AT_ONCE = 8  # pipelines looked at together


class Looked(NamedTuple):
    """A pipeline's health, with what is needed to tell others of it."""

    health: Health
    alerts: Alerts
    store: StateStore | None = None


def look_at_files(paths: Sequence[Path], working_folder: Path) -> list[Looked]:
    """Look at the pipelines of files; one that cannot be looked at is told as such."""
    twins = find_twins(working_folder)
    stores: dict[str, StateStore] = {}
    looks = [partial(_look_at_file, path, twins.get(path.resolve()), stores) for path in paths]
    return _together(path.stem for path in paths)(looks)


def look_at_store(store: StateStore, names: Sequence[str] = ()) -> list[Looked]:
    """Look at the pipelines of a store, all or some."""
    known = store.list_names()
    chosen = list(names) or known
    return _together(chosen)([partial(_look_at_known, store, name, known) for name in chosen])


def _look_at_known(store: StateStore, name: str, known: Sequence[str]) -> Looked:
    if name not in known:
        there = ", ".join(known) or "none"
        raise StateError(f"{store.objects.place} knows no pipeline {name}; there are {there}")
    return _look(store, name)


def _together(names: Iterable[str]) -> Callable[[Sequence[Callable[[], Looked]]], list[Looked]]:
    """Take several looks at a time; an error becomes the health of its pipeline."""

    def take(name: str, look: Callable[[], Looked]) -> Looked:
        try:
            return look()
        except SingerSparkError as error:
            return _unreadable(name, error, Alerts())

    def take_all(looks: Sequence[Callable[[], Looked]]) -> list[Looked]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(take, names, looks))

    return take_all


def _look_at_file(path: Path, twin: str | None, stores: dict[str, StateStore]) -> Looked:
    if twin:
        raise SettingsError(twin)
    pipeline = load_pipeline(path)
    # A client per store, not per pipeline: connecting costs more than looking.
    place = repr(pipeline.state)
    try:
        store = stores[place] = stores.get(place) or create_state_store(pipeline.state)
        return _look(store, pipeline.name, pipeline.alerts, pipeline.cron)
    except SingerSparkError as error:
        return _unreadable(pipeline.name, error, pipeline.alerts)


def _unreadable(name: str, error: SingerSparkError, alerts: Alerts) -> Looked:
    health = Health.unknown(name, datetime.now(timezone.utc), error.format_message())
    return Looked(health, alerts)


def _look(
    store: StateStore, name: str, alerts: Alerts | None = None, cron: str | None = None
) -> Looked:
    summary, holder = look_at(store, name)
    alerts = alerts or Alerts()
    case = Case(
        pipeline=name,
        now=datetime.now(timezone.utc),
        runs=summary.runs,
        activity=_activity(holder),
        alerts=alerts,
        cron=cron,
    )
    return Looked(Health.of(case), alerts, store)


def _activity(holder: Holder | None) -> Activity | None:
    if holder is None:
        return None
    return Activity(datetime.fromisoformat(holder.started_at), holder.is_dead)
