"""`singer-spark status`: the health of every pipeline, for people, monitors, scrapers, browsers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from singer_spark.cli.completion import complete_pipeline
from singer_spark.cli.options import state_option
from singer_spark.cli.output import (
    cut,
    json_option,
    lay_out,
    show_json,
    tell_count,
    tell_duration,
    wrap,
)
from singer_spark.errors import SettingsError
from singer_spark.figures import tell_seconds
from singer_spark.health.collect import Looked, look_at_files, look_at_store
from singer_spark.health.metrics import write_metrics
from singer_spark.health.notify import send_alerts
from singer_spark.health.rules import Health
from singer_spark.pipeline import find_pipelines, list_pipeline_files
from singer_spark.state import create_state_store
from singer_spark.storage.folder import replace_file

HEAD = ("PIPELINE", "HEALTH", "LAST RUN (UTC)", "TOOK", "RECORDS", "LAG")
file_type = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Tell how pipelines are doing.")
@click.argument("pipelines", metavar="[PIPELINE]...", nargs=-1, shell_complete=complete_pipeline)
@click.option("--html", type=file_type, metavar="FILE", help="Write the dashboard, one page.")
@click.option("--metrics", type=file_type, metavar="FILE", help="Write OpenMetrics for a scraper.")
@state_option
@json_option
@click.pass_context
def status(
    ctx: click.Context,
    /,
    *,
    pipelines: tuple[str, ...],
    html: Path | None,
    metrics: Path | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Tell how pipelines are doing: those named, or all of pipelines/.

    Exits with 0 when all are well, 1 for a warning, 2 when one is critical. Alerts that the
    pipeline files ask for are sent, once for each condition.
    """
    looked = _look(pipelines, url)
    healths = [one.health for one in looked]
    # Whoever reads the table may go away in the middle of it.
    unsent = send_alerts(looked)
    if as_json:
        show_json([health.to_dict() for health in healths])
    else:
        show_healths(healths)
    if metrics:
        _write(metrics, write_metrics(healths))
    if html:
        from singer_spark.health.page import write_page

        _write(html, write_page(healths))
    for error in unsent:
        error.show()
    ctx.exit(max((health.level for health in healths), default=0))


def _look(pipelines: Sequence[str], url: str | None) -> list[Looked]:
    if url is not None:
        return look_at_store(create_state_store(url), pipelines)
    here = Path.cwd()
    paths = find_pipelines(pipelines, here) if pipelines else list_pipeline_files(here)
    return look_at_files(paths, here)


def show_healths(healths: Sequence[Health]) -> None:
    """Print a table, each pipeline followed by what is wrong with it."""
    if not healths:
        click.echo("No pipelines in pipelines/; write one with: singer-spark init")
        return
    head, *lines = lay_out([HEAD, *map(_row, healths)], right=(3, 4, 5))
    click.echo(head)
    for line, health in zip(lines, healths, strict=True):
        colour = ("green", "yellow", "red")[health.level]
        click.echo(line.replace(health.word, click.style(health.word, fg=colour), 1))
        for finding in health.findings:
            click.echo(wrap(finding.reason))


def _row(health: Health) -> tuple[str, ...]:
    last = health.last or {}
    return (
        cut(health.pipeline, 24),
        health.word,
        str(last.get("started_at") or "never")[:16].replace("T", " "),
        tell_duration(int(last.get("milliseconds") or 0)) if last else "-",
        tell_count(int(last.get("records") or 0)) if last else "-",
        "-" if health.lag is None else tell_seconds(health.lag),
    )


def _write(path: Path, text: str) -> None:
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}; name a file that can be written") from error
