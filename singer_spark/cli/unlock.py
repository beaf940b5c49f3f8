"""`singer-spark unlock`: end the lock of a run that died."""

from __future__ import annotations

import click

from singer_spark.cli.options import find_place, pipeline_argument, state_option, yes_option
from singer_spark.state.holder import LockedError, end_lock, read_lock
from singer_spark.storage.objects import Expect


@click.command()
@pipeline_argument
@state_option
@yes_option
def unlock(pipeline: str, *, url: str | None, yes: bool) -> None:
    """End the lock of PIPELINE, whose run has died.

    It is seldom needed: the next run takes over a dead lock by itself, at once on the same machine,
    after it has seen the heartbeat stand still for 4 minutes on another. A run that is alive after
    all stops as soon as it notices, stores no state, and can commit nothing after its successor.
    """
    name, store = find_place(pipeline, url)
    holder, tag = read_lock(store, name)
    if tag is Expect.ABSENT:
        click.echo(f"{name} is not locked")
        return
    click.echo(f"{name} is locked by {holder or 'an unknown run (the lock is damaged)'}")
    if holder and not holder.is_dead:
        click.echo("Warning: that run looks alive and will fail if its lock is ended", err=True)
    if not yes:
        click.confirm("End this lock?", abort=True)
    # Whoever was asked may have taken longer than a heartbeat.
    newer, tag = read_lock(store, name)
    if newer and holder and newer.run_id != holder.run_id:
        raise LockedError(name, newer)
    end_lock(store, name, tag)
    click.echo(f"{name} is unlocked")
