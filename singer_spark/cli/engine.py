"""`singer-spark engine`: keep one Spark warm for all pipelines of this user."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from singer_spark.cli.output import json_option, show_json
from singer_spark.engine.lease import get_lease
from singer_spark.engine.registry import dial, engine_folder, shared_engines
from singer_spark.engine.spec import Spec
from singer_spark.errors import SettingsError, TransientError
from singer_spark.figures import parse_duration
from singer_spark.pipeline import find_pipeline, load_pipeline
from singer_spark.runner.sharing import needs_of
from singer_spark.secrets import mask
from singer_spark.settings import SparkSettings
from singer_spark.text import printable

_END_SECONDS = 90.0
_ANSWER_SECONDS = 10.0


@click.group(short_help="Keep Spark warm between runs.")
def engine() -> None:
    """Keep one Spark warm for all pipelines of this user.

    Without one each run starts its own, which ends with the run.
    """


@engine.command()
@click.option("--idle", default="8h", show_default=True,
              help="How long it stays after its last run.")  # fmt: skip
@click.option("--pipeline", "pipelines", multiple=True,
              help="Bring the drivers of this pipeline; repeatable.")  # fmt: skip
def start(*, idle: str, pipelines: tuple[str, ...]) -> None:
    """Start Spark and leave it to the runs that follow."""
    seconds = parse_duration(idle)
    if seconds is None:
        raise SettingsError("--idle must be a duration with its unit, such as 30m or 8h")
    spec = _spec(pipelines)
    known = shared_engines()
    lease = get_lease(spec, shared_engines, seconds)
    if reason := lease.wait():
        raise TransientError(f"Spark's engine does not fit its starter: {reason}; run again")
    lease.end()
    if lease.engine in known:
        click.echo(f"Spark is warm already ({lease.engine})")
    else:
        click.echo(f"Spark is warm ({lease.engine}); it stays for {idle} after its last run")


@engine.command()
def stop() -> None:
    """End every warm Spark of this user; runs that use it fail and can be repeated."""
    found = [name for name, _ in _answers("end")]
    deadline = time.monotonic() + _END_SECONDS
    while set(found) & set(shared_engines()) and time.monotonic() < deadline:
        time.sleep(0.1)
    if late := set(found) & set(shared_engines()):
        raise TransientError(f"{', '.join(sorted(late))}: still there; end its processes by hand")
    click.echo(f"Ended {', '.join(found)}" if found else "No Spark is warm")


@engine.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show the warm Sparks of this user, and how many processes use them."""
    found = [{"engine": name, **said} for name, said in _answers("status")]
    if as_json:
        show_json(found)
        return
    for one in found:
        state = "ready" if one["is_ready"] else "starting"
        click.echo(
            f"{one['engine']}  {state}  {one['master']}  used by {one['leases']}  pid {one['pid']}"
        )
    if not found:
        click.echo("No Spark is warm; singer-spark engine start keeps one")


@engine.command()
def logs() -> None:
    """Print what the warm Sparks of this user have logged."""
    for name in shared_engines():
        with suppress(OSError):
            text = (engine_folder(name) / "log").read_text(errors="replace")
            click.echo(printable(mask(text)), nl=False)


def _spec(pipelines: tuple[str, ...]) -> Spec:
    found = [needs_of(load_pipeline(find_pipeline(name, Path.cwd()))) for name in pipelines]
    needs = [one for one in found if one] or [(SparkSettings.from_config({}), [])]
    settings = needs[0][0]
    if len(needs) < len(found) or any(other != settings for other, _ in needs):
        raise SettingsError(
            "--pipeline: these cannot share one Spark: tap and target of each must be ours, with "
            "equal Spark settings"
        )
    return Spec.of(settings, [url for _, urls in needs for url in urls])


def _answers(question: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in shared_engines():
        try:
            with dial(name) as connection, connection.makefile("r", encoding="utf-8") as lines:
                connection.settimeout(_ANSWER_SECONDS)
                connection.sendall(json.dumps({"ask": question}).encode() + b"\n")
                line = lines.readline()
        except OSError:
            continue
        yield name, json.loads(line) if line else {}
