"""`singer-spark state recover`: a lost state, built again from the Delta tables' own commits."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from singer_spark import exact_json
from singer_spark.cli.options import Place, find_place, pipeline_argument, state_option, yes_option
from singer_spark.cli.output import json_option, lay_out, show_json, state_diff
from singer_spark.errors import SettingsError
from singer_spark.pipeline import find_pipeline, load_pipeline
from singer_spark.pipeline.tables import find_tables, place_of
from singer_spark.state import PipelineState
from singer_spark.state.change import is_same, replace_state
from singer_spark.state.recover import (
    Recovery,
    TableCommit,
    explain_lack,
    explain_silence,
    look_for_state,
    rebuild,
)

HEAD = ("STREAM", "VERSION", "COMMITTED (UTC)", "BOOKMARK")


@click.command()
@pipeline_argument
@click.option("--tables", metavar="PATH", help="Where the tables lie; needed with --state.")
@state_option
@click.option("--dry-run", is_flag=True, help="Show what would be stored, and store nothing.")
@yes_option
@json_option
def recover(
    pipeline: str, *, tables: str | None, url: str | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Build the state of PIPELINE again from the tables it has loaded.

    Every commit of target-spark-delta carries the bookmark that it made true. The newest one of
    each stream is laid over the stored state; streams without one keep what is stored.

    \b
    singer-spark state recover shop --dry-run
    singer-spark state recover shop --state s3://lake/state --tables s3://lake
    """  # noqa: D301, click reads the sign
    if url is not None and tables is None:
        raise SettingsError("with --state give --tables, the path under which the tables lie")
    where = (
        place_of(tables or "", {})
        if url is not None
        else find_tables(load_pipeline(find_pipeline(pipeline, Path.cwd())).target, tables)
    )
    place = find_place(pipeline, url)
    recovery = look_for_state(where, place.name)
    before = place.store.get(place.name) or PipelineState(place.name)
    after = rebuild(before.watermark, recovery.commits)
    changed = not is_same(after, before.watermark)
    if not as_json:
        _show(recovery, place, before, after)
    stored = changed and not dry_run and (yes or _confirm(place))
    note = partial(click.echo, err=True)
    if stored or not (changed or dry_run):
        # Where the tables say what is stored, failed runs have left nothing that it does not know.
        replace_state(place.store, before, after, note)
    if as_json:
        show_json(_as_json(recovery, place, after) | {"changed": changed, "stored": stored})
    elif not dry_run:
        click.echo(
            f"{place.name}: state stored; the next run starts from it"
            if stored
            else f"{place.name}: state unchanged"
        )


def _confirm(place: Place) -> bool:
    return click.confirm(f"Store this as the state of {place.name}?", err=True)


def _show(recovery: Recovery, place: Place, before: PipelineState, after: dict[str, Any]) -> None:
    rows = [_row(commit) for commit in sorted(recovery.commits, key=lambda found: found.stream)]
    click.echo("\n".join(lay_out([HEAD, *rows], right=(1,))))
    for commit in recovery.commits:
        if commit.newer:
            click.echo(
                f"{commit.stream}: {commit.newer} newer commit(s) carry no bookmark; "
                "their rows are read again"
            )
    for log in recovery.lacking:
        click.echo(f"{log.table}: {explain_lack(log, place.name)}")
    for log in recovery.silent:
        click.echo(f"{log.table}: {explain_silence(log)}")
    lines = state_diff(before.watermark, after, place.name, "recovered")
    click.echo("\n".join(["", *lines] if lines else ["", "The stored state says the same."]))


def _row(commit: TableCommit) -> tuple[str, ...]:
    state = commit.state
    value = state.get("replication_key_value", state) if isinstance(state, dict) else state
    told = value if isinstance(value, str) else exact_json.dumps(value, plain=True)
    moment = commit.committed_at[:19].replace("T", " ")
    return commit.stream, str(commit.version), moment, told


def _as_json(recovery: Recovery, place: Place, after: dict[str, Any]) -> dict[str, Any]:
    return {
        "pipeline": place.name,
        "tables": recovery.place,
        "found": [asdict(commit) for commit in recovery.commits],
        "silent": [{"table": log.table, "reason": explain_silence(log)} for log in recovery.silent],
        "lacking": [
            {"table": log.table, "reason": explain_lack(log, place.name)}
            for log in recovery.lacking
        ],
        "state": after,
    }
