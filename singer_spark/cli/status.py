"""`singer-spark status`: the health of every pipeline, for people, monitors, scrapers, browsers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from singer_spark.cli.options import pipelines_argument, state_option
from singer_spark.cli.output import (
    cut,
    json_option,
    lay_out,
    show_json,
    wrap,
)
from singer_spark.errors import SettingsError
from singer_spark.figures import format_count, format_duration, format_milliseconds, format_time
from singer_spark.health.collect import Checked, check_files, check_store
from singer_spark.health.metrics import write_metrics
from singer_spark.health.notify import send_alerts
from singer_spark.health.rules import Health
from singer_spark.pipeline import find_pipelines
from singer_spark.state import create_state_store
from singer_spark.storage.folder import replace_file

HEAD = ("PIPELINE", "HEALTH", "LAST RUN (UTC)", "TOOK", "RECORDS", "LAG")
file_type = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Tell how pipelines are doing.")
@pipelines_argument
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
    checked = _check(pipelines, url)
    healths = [one.health for one in checked]
    # Whoever reads the table may go away in the middle of it.
    unsent = send_alerts(checked)
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


def _check(pipelines: Sequence[str], url: str | None) -> list[Checked]:
    if url is not None:
        return check_store(create_state_store(url), pipelines)
    here = Path.cwd()
    paths = find_pipelines(pipelines, here)
    return check_files(paths, here)


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
    last = health.history.last or {}
    return (
        cut(health.pipeline, 24),
        health.word,
        format_time(last.get("started_at")) if last else "never",
        format_milliseconds(last.get("milliseconds")),
        format_count(last.get("records")),
        format_duration(health.history.lag),
    )


def _write(path: Path, text: str) -> None:
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}; name a file that can be written") from error
