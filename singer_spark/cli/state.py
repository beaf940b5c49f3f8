"""`singer-spark state`: inspect stored states, set them to a point, reset them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import click

from singer_spark.cli.options import (
    Place,
    find_place,
    pipeline_argument,
    raise_all,
    read_places,
    state_option,
    yes_option,
)
from singer_spark.cli.output import cut, json_option, lay_out, pretty, show_json, state_diff
from singer_spark.cli.recover import recover
from singer_spark.errors import SettingsError, StateError
from singer_spark.state import PipelineState
from singer_spark.state.change import (
    accept_state,
    delete_state,
    is_same,
    move_bookmark,
    parse_state,
    replace_state,
)
from singer_spark.state.generation import has_attempts
from singer_spark.state.store import DamagedError

HEAD = ("PIPELINE", "LAST RUN (UTC)", "RUNS", "BOOKMARKS")
state_file = click.argument("file", type=click.File("rb"))


@click.group()
def state() -> None:
    """Inspect, set and reset the state of pipelines.

    PIPELINE is a pipeline file, its name in pipelines/, or with --state URL its name in that store:
    a folder, s3://, sqlite:///, postgresql://, mysql://, gs://, az://, or Meltano's layout as
    meltano+file:// and the like. A state is never changed under a run in progress.
    """


@state.command("list")
@state_option
@json_option
def list_states(*, url: str | None, as_json: bool) -> None:
    """List the pipelines of pipelines/, or of a store, with their last run."""
    places, errors = read_places(lambda place: (place, place.store.get(place.name)), url)
    # A store may still hold the history of a pipeline whose state was deleted.
    found = [known or PipelineState(place.name) for place, known in places if known or not url]
    if as_json:
        show_json([one.to_dict() for one in found])
    elif found:
        click.echo("\n".join(lay_out([HEAD, *map(_row, found)], right=(2, 3))))
    raise_all(errors)


@state.command()
@pipeline_argument
@state_option
def get(pipeline: str, *, url: str | None) -> None:
    """Print the Singer state of PIPELINE, as a tap's --state takes it."""
    show_json(_get(find_place(pipeline, url)).watermark)


@state.command("set")
@pipeline_argument
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--stream", "moves", nargs=2, multiple=True, metavar="STREAM VALUE",
              help="Move the bookmark of this stream to this value; may be repeated.")  # fmt: skip
@state_option
def set_state(
    pipeline: str, file: IO[bytes] | None, *, moves: tuple[tuple[str, str], ...], url: str | None
) -> None:
    """Start the next run of PIPELINE from another point.

    FILE (- is standard input) holds the whole Singer state. With --stream only the bookmarks of
    these streams are moved: the next run reads them again from there, a backfill.

    \b
    singer-spark state set shop --stream public-orders 2026-01-01T00:00:00+00:00
    singer-spark state set shop state.json
    """  # noqa: D301, click reads the sign
    if (file is None) == (not moves):
        raise SettingsError("give the new state as FILE, or the bookmarks to move as --stream")
    place = find_place(pipeline, url)
    before = _before_or_damaged(place) if file else _before(place)
    new = parse_state(file.read(), _name_of(file)) if file else before.watermark
    for stream, value in moves:
        new = move_bookmark(new, stream, value)
    streams = {stream for stream, _ in moves} if moves else None
    # The same once more is set too: what failed runs left no longer counts.
    replace_state(place.store, before, new, _note, streams=streams)
    _show_change(place, before, new)


@state.command()
@pipeline_argument
@state_option
def edit(pipeline: str, *, url: str | None) -> None:
    """Change the state of PIPELINE in $EDITOR; what is no JSON object is refused."""
    place = find_place(pipeline, url)
    before = _before(place)
    text = click.edit(pretty(before.watermark), extension=".json")
    new = before.watermark if text is None else parse_state(text, "the edited text")
    if not is_same(new, before.watermark):
        replace_state(place.store, before, new, _note)
    _show_change(place, before, new)


@state.command()
@pipeline_argument
@state_option
@yes_option
def delete(pipeline: str, *, url: str | None, yes: bool) -> None:
    """Forget the state of PIPELINE; the next run reads everything.

    The history of its runs stays. `run --full` reads everything too, but keeps the old state until
    it has succeeded.
    """
    place = find_place(pipeline, url)
    try:
        _get(place)
    except DamagedError as error:
        click.echo(f"Warning: {error.message}", err=True)
    if not yes:
        click.confirm(f"Delete the state of {place.name}?", abort=True)
    delete_state(place.store, place.name, _note)
    click.echo(f"{place.name}: state deleted; the next run reads everything")


@state.command()
@pipeline_argument
@state_file
@state_option
def diff(pipeline: str, file: IO[bytes], *, url: str | None) -> None:
    """Show how FILE (- is standard input) differs from the state of PIPELINE."""
    place = find_place(pipeline, url)
    old, new = _before(place).watermark, parse_state(file.read(), _name_of(file))
    for line in state_diff(old, new, place.name, _name_of(file)):
        click.echo(line)


@state.command()
@pipeline_argument
@state_option
def accept(pipeline: str, *, url: str | None) -> None:
    """Let the state of PIPELINE belong to the source and the tables that there are now.

    A run that finds another source, or a table that was removed, restored or moved, stops: only the
    increment would arrive. Where that is meant, this lets the next run take them as it finds them.
    """
    place = find_place(pipeline, url)
    has_failed = place.store.read_checkpoint(place.name) or has_attempts(place.store, place.name)
    accept_state(place.store, _before(place) if has_failed else _get(place), _note)
    click.echo(f"{place.name}: accepted; the next run takes source and tables as it finds them")


state.add_command(recover)


def _note(text: str) -> None:
    click.echo(text, err=True)


def _show_change(place: Place, before: PipelineState, new: Mapping[str, Any]) -> None:
    unchanged = is_same(new, before.watermark)
    done = "state unchanged" if unchanged else "state stored; the next run starts from it"
    click.echo(f"{place.name}: {done}")


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


def _before_or_damaged(place: Place) -> PipelineState:
    """Read what a whole new state replaces, which need not make sense."""
    try:
        return _before(place)
    except DamagedError as error:
        click.echo(f"Warning: {error.message}", err=True)
        return PipelineState(place.name)  # the store remembers which version it has read


def _name_of(file: IO[bytes]) -> str:
    return str(getattr(file, "name", "<stdin>"))


def _row(known: PipelineState) -> tuple[str, ...]:
    bookmarks = known.watermark.get("bookmarks")
    count = len(bookmarks) if isinstance(bookmarks, Mapping) else 0
    last = (known.last_run_at or "never")[:19].replace("T", " ")
    return cut(known.pipeline_name, 36), last, str(known.run_count), str(count)
