"""`singer-spark state`: inspect stored states, set them to a point, reset them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import unified_diff
from typing import IO, Any

import click

from singer_spark.cli.places import Place, find_place, find_places, state_option, yes_option
from singer_spark.cli.table import json_option, lay_out, show_json
from singer_spark.errors import SingerSparkError, StateError
from singer_spark.state import PipelineState
from singer_spark.state.change import delete_state, parse_state, replace_state

HEAD = ("PIPELINE", "LAST RUN (UTC)", "RUNS", "BOOKMARKS")
state_file = click.argument("file", type=click.File("rb"))


@click.group()
def state() -> None:
    """Inspect, set and reset the state of pipelines."""


@state.command("list")
@state_option
@json_option
def list_states(*, url: str | None, as_json: bool) -> None:
    """List the pipelines of pipelines/, or of a store, with their last run."""
    found: list[PipelineState] = []
    errors: list[SingerSparkError] = []
    for find in find_places(url):
        try:
            place = find()
            found.append(place.store.get(place.name) or PipelineState(place.name))
        except SingerSparkError as error:
            errors.append(error)
    if as_json:
        show_json([one.to_dict() for one in found])
    elif found:
        click.echo("\n".join(lay_out([HEAD, *map(_row, found)], right=(2, 3))))
    for other in errors[1:]:
        other.show()
    if errors:
        raise errors[0]


@state.command()
@click.argument("pipeline")
@state_option
def get(pipeline: str, *, url: str | None) -> None:
    """Print the Singer state of PIPELINE, as a tap's --state takes it."""
    show_json(_get(find_place(pipeline, url)).watermark)


@state.command("set")
@click.argument("pipeline")
@state_file
@state_option
def set_state(pipeline: str, file: IO[bytes], *, url: str | None) -> None:
    """Set the state of PIPELINE to that of FILE (- is standard input)."""
    place = find_place(pipeline, url)
    new = parse_state(file.read(), _name_of(file))
    replace_state(place.store, _before(place), new)
    click.echo(f"{place.name}: state stored; the next run starts from it")


@state.command()
@click.argument("pipeline")
@state_option
def edit(pipeline: str, *, url: str | None) -> None:
    """Change the state of PIPELINE in $EDITOR."""
    place = find_place(pipeline, url)
    before = _before(place)
    text = click.edit(_pretty(before.watermark), extension=".json")
    new = before.watermark if text is None else parse_state(text, "the edited text")
    if new == before.watermark:
        click.echo(f"{place.name}: state unchanged")
        return
    replace_state(place.store, before, new)
    click.echo(f"{place.name}: state stored; the next run starts from it")


@state.command()
@click.argument("pipeline")
@state_option
@yes_option
def delete(pipeline: str, *, url: str | None, yes: bool) -> None:
    """Forget the state of PIPELINE; the next run reads everything."""
    place = find_place(pipeline, url)
    _get(place)
    if not yes:
        click.confirm(f"Delete the state of {place.name}?", abort=True)
    delete_state(place.store, place.name)
    click.echo(f"{place.name}: state deleted; the next run reads everything")


@state.command()
@click.argument("pipeline")
@state_file
@state_option
def diff(pipeline: str, file: IO[bytes], *, url: str | None) -> None:
    """Show how FILE (- is standard input) differs from the state of PIPELINE."""
    place = find_place(pipeline, url)
    old, new = _before(place).watermark, parse_state(file.read(), _name_of(file))
    a, b = (_pretty(value, sort_keys=True).splitlines() for value in (old, new))
    for line in unified_diff(a, b, place.name, _name_of(file), lineterm=""):
        click.echo(line)


def _get(place: Place) -> PipelineState:
    found = place.store.get(place.name)
    if found is None:
        raise StateError(
            f"{place.name} has no state in {place.store.objects.place}; it has not been run yet, "
            "or its state is kept elsewhere (--state)"
        )
    return found


def _before(place: Place) -> PipelineState:
    return place.store.get(place.name) or PipelineState(place.name)


def _name_of(file: IO[bytes]) -> str:
    return str(getattr(file, "name", "<stdin>"))


def _pretty(value: Mapping[str, Any], *, sort_keys: bool = False) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=sort_keys) + "\n"


def _row(known: PipelineState) -> tuple[str, ...]:
    bookmarks = known.watermark.get("bookmarks")
    count = len(bookmarks) if isinstance(bookmarks, Mapping) else 0
    last = (known.last_run_at or "never")[:19].replace("T", " ")
    return known.pipeline_name, last, str(known.run_count), str(count)
