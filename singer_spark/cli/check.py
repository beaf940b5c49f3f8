"""`singer-spark check`: everything a run needs, tried before the run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from singer_spark.cli.options import pipelines_argument
from singer_spark.cli.output import WIDTH, cut, json_option, show_json, wrap
from singer_spark.errors import SettingsError, SingerSparkError
from singer_spark.pipeline import (
    Pipeline,
    find_pipelines,
    load_pipeline,
    refuse_twins,
)
from singer_spark.pipeline.plugins import version_of
from singer_spark.pipeline.source_url import state_advice, transit_advice
from singer_spark.pipeline.tables import s3_options
from singer_spark.runner.commands import find_tap, find_target
from singer_spark.runner.preview import sample_source, start_target
from singer_spark.runner.supervisor import StoppedError
from singer_spark.settings import SparkSettings
from singer_spark.state import create_state_store
from singer_spark.state.holder import LockedError
from singer_spark.state.lock import locked
from singer_spark.storage.objects import Expect, refuse_unconditional

PROBE = ".singer-spark/check"


class Step(NamedTuple):
    """One thing tried: what it is, and what came of it."""

    name: str
    told: str
    code: int = 0
    rows: dict[str, Any] = {}
    verdicts: dict[str, str] = {}

    def to_dict(self) -> dict[str, Any]:
        """Give the step as plain JSON values."""
        known = self._asdict()
        return {"step": known.pop("name"), "ok": not known.pop("code"), **known}


@click.command(short_help="Try everything that a run needs.")
@pipelines_argument
@json_option
@click.pass_context
def check(ctx: click.Context, /, *, pipelines: tuple[str, ...], as_json: bool) -> None:
    """Try everything that a run needs, for those named or all of pipelines/.

    Validates the file, writes to the state store, discovers the source and shows one row per
    stream, starts the target. Moves nothing. Exits with the code of the first thing that failed.
    """
    here = Path.cwd()
    paths = find_pipelines(pipelines, here)
    if not paths:
        raise SettingsError("no pipelines in pipelines/; write one with: singer-spark init")
    checked = {path: _check(path, quiet=as_json) for path in paths}
    if as_json:
        show_json(
            [
                {
                    "pipeline": path.stem,
                    "ok": not any(step.code for step in steps),
                    "steps": [step.to_dict() for step in steps],
                }
                for path, steps in checked.items()
            ]
        )
    codes = [step.code for steps in checked.values() for step in steps if step.code]
    ctx.exit(codes[0] if codes else 0)


def _check(path: Path, *, quiet: bool) -> list[Step]:
    if not quiet:
        click.echo(click.style(cut(path.stem), bold=True))
    steps = []
    for step in _steps(path):
        steps.append(step)
        if not quiet:
            _show(step)
    return steps


def _show(step: Step) -> None:
    mark = click.style("✗", fg="red") if step.code else click.style("✓", fg="green")
    if step.code:
        click.echo(f"{mark} {step.name}")
        click.echo(wrap(step.told))
    else:
        click.echo(f"{mark} {cut(f'{step.name}: {step.told}', WIDTH - 2)}")
    for stream, row in step.rows.items():
        told = "no row" if row is None else json.dumps(row, ensure_ascii=False, default=str)
        click.echo(cut(f"    {stream}: {told}"))
    for stream, verdict in step.verdicts.items():
        click.echo(wrap(f"! {stream}: {verdict}"))


def _steps(path: Path) -> Iterator[Step]:
    """Try one thing after another; what needs one that failed is not tried."""
    try:
        refuse_twins([path], Path.cwd())
        pipeline = load_pipeline(path)
    except SingerSparkError as error:
        yield Step("file", error.format_message(), error.exit_code)
        return
    yield Step("file", f"{path.name} describes {pipeline.name}")
    tries: dict[str, Callable[[], Step]] = {
        "commands": lambda: Step("commands", _commands(pipeline)),
        "state store": lambda: Step("state store", _store(pipeline), verdicts=_transit(pipeline)),
        "source": lambda: _source(pipeline),
        "destination": lambda: Step("destination", _destination(pipeline)),
    }
    for name, attempt in tries.items():
        try:
            yield attempt()
        except StoppedError:
            raise
        except SingerSparkError as error:
            yield Step(name, error.format_message(), error.exit_code)
            if name == "commands":
                return


def _commands(pipeline: Pipeline) -> str:
    found = {
        c.name: version_of(Path(c.argv[0])) for c in (find_tap(pipeline), find_target(pipeline))
    }
    return " and ".join(
        f"{name} ({version})" if version else name for name, version in found.items()
    )


def _store(pipeline: Pipeline) -> str:
    store = create_state_store(pipeline.state)
    if pipeline.locks:
        refuse_unconditional(store.objects, pipeline.name)
    try:
        with locked(store, pipeline.name, pause=None):
            known = store.get(pipeline.name)
    except LockedError as error:
        return f"in use: {error.holder}"
    runs = known.run_count if known else 0
    without = "" if pipeline.locks else ", without a lock"
    return f"{store.objects.place} can be written{without}; {runs} runs so far"


def _transit(pipeline: Pipeline) -> dict[str, str]:
    advice = state_advice(pipeline.state)
    return {"state": advice} if advice else {}


def _source(pipeline: Pipeline) -> Step:
    samples = sample_source(pipeline)
    rows, verdicts = samples.rows, dict(samples.verdicts(pipeline))
    if advice := transit_advice(pipeline.tap.config):
        verdicts["source_url"] = advice
    if not rows:
        raise SettingsError("source: the tap offers no stream; check source.config, such as tables")
    return Step("source", f"{len(rows)} stream(s), one row each:", rows=rows, verdicts=verdicts)


def _destination(pipeline: Pipeline) -> str:
    path = pipeline.target.config.get("path")
    place = ""
    if pipeline.target.is_ours and isinstance(path, str):
        place = _try_place(path, pipeline.target.config)
    start_target(pipeline)
    return f"{pipeline.target.command} starts{place}"


def _try_place(path: str, config: Mapping[str, Any]) -> str:
    """See whether tables can be written; a local folder is not made for that."""
    if path.startswith(("s3a://", "s3://", "s3n://")):
        conf = SparkSettings.from_config(config).conf
        if any(re.search(r"fs\.s3a\..*(key|credentials|token)", name) for name in conf):
            return f" ({path} is not tried: only Spark knows the credentials of spark_conf)"
        place = {"url": "s3://" + path.split("://", 1)[1], **s3_options(conf)}
        objects = create_state_store(place).objects
        objects.write(PROBE, b"{}", Expect.ANYTHING)
        objects.delete(PROBE)
        return f", {path} can be written"
    if "://" in path:
        return f" ({path} is not tried)"
    nearest = next(folder for folder in _upwards(Path(path).absolute()) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise SettingsError(f"destination: {nearest} cannot be written; choose another path")
    return f", {path} can be written"


def _upwards(path: Path) -> Sequence[Path]:
    return (path, *path.parents)
