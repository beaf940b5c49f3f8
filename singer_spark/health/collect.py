"""The health of pipelines, from files and stores: two requests each, whatever the history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from singer_spark.errors import SettingsError, SingerSparkError, StateError
from singer_spark.health.history import FoundLock, History
from singer_spark.health.rules import Finding, Health, Level
from singer_spark.pipeline import Alerts, load_pipeline
from singer_spark.pipeline.find import find_twins
from singer_spark.state import StateStore, create_state_store
from singer_spark.state.runs import look_at

AT_ONCE = 8  # pipelines
USUAL = Alerts()


class Checked(NamedTuple):
    """A pipeline's health, and the store that keeps which alerts were sent."""

    health: Health
    store: StateStore | None = None

    @property
    def alerts(self) -> Alerts:
        """When the pipeline needs attention, and who gets the alerts."""
        return self.health.history.alerts


def check_files(paths: Sequence[Path], working_folder: Path) -> list[Checked]:
    """Check the pipelines of files; one that cannot be read has that as its health."""
    twins = find_twins(working_folder)
    stores: dict[str, StateStore] = {}

    def check(path: Path) -> Checked:
        if problem := twins.get(path.resolve()):
            raise SettingsError(problem)
        pipeline = load_pipeline(path)
        # A client per store, not per pipeline: connecting costs more than reading.
        place = repr(pipeline.state)
        try:
            store = stores[place] = stores.get(place) or create_state_store(pipeline.state)
            return _check(store, pipeline.name, pipeline.alerts, pipeline.cron)
        except SingerSparkError as error:
            return _unreadable(pipeline.name, error, pipeline.alerts)

    return _check_each(check, {path: path.stem for path in paths})


def check_store(store: StateStore, names: Sequence[str] = ()) -> list[Checked]:
    """Check the pipelines of a store, all or some."""
    known = store.list_names()

    def check(name: str) -> Checked:
        refuse_unknown(name, known, store)
        return _check(store, name)

    return _check_each(check, {name: name for name in names or known})


def refuse_unknown(name: str, known: Sequence[str], store: StateStore) -> None:
    """Refuse the name of a pipeline that a store does not know."""
    if name not in known:
        there = ", ".join(known) or "none"
        raise StateError(f"{store.objects.place} knows no pipeline {name}; there are {there}")


def _check_each(check: Callable[[Any], Checked], named: Mapping[Any, str]) -> list[Checked]:
    """Check several at a time; an error becomes the health of its pipeline."""

    def safely(one: Any) -> Checked:
        try:
            return check(one)
        except SingerSparkError as error:
            return _unreadable(named[one], error)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(safely, named))


def _unreadable(name: str, error: SingerSparkError, alerts: Alerts = USUAL) -> Checked:
    finding = Finding("unreadable", Level.CRITICAL, error.format_message())
    history = History(pipeline=name, now=datetime.now(timezone.utc), alerts=alerts)
    return Checked(Health(history, (finding,)))


def _check(
    store: StateStore, name: str, alerts: Alerts = USUAL, cron: str | None = None
) -> Checked:
    summary, holder = look_at(store, name)
    lock = None
    if holder:
        lock = FoundLock(datetime.fromisoformat(holder.started_at), holder.is_dead)
    now = datetime.now(timezone.utc)
    history = History(
        pipeline=name, now=now, runs=summary.runs, lock=lock, alerts=alerts, cron=cron
    )
    return Checked(Health.of(history), store)
