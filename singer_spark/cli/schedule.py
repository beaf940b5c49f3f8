"""`singer-spark schedule`: what cron or systemd need to run pipelines on time."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import click

from singer_spark.cli.options import pipelines_argument
from singer_spark.cli.output import json_option, show_json
from singer_spark.errors import SettingsError
from singer_spark.pipeline import Pipeline, find_pipelines, load_pipeline
from singer_spark.pipeline.cron import next_due, to_calendar


@click.command(short_help="Print lines for a crontab, units for systemd.")
@pipelines_argument
@click.option("--format", "kind", type=click.Choice(["cron", "systemd", "both"]), default="both",
              show_default=True, help="What to print.")  # fmt: skip
@json_option
def schedule(*, pipelines: tuple[str, ...], kind: str, as_json: bool) -> None:
    """Print the lines that run pipelines on schedule.cron, for a crontab and for systemd.

    Nothing is installed: add the lines with crontab -e, or the units to ~/.config/systemd/user/.
    """
    here = Path.cwd()
    paths = find_pipelines(pipelines, here)
    planned = [(path, found) for path in paths if (found := load_pipeline(path)).cron]
    if not planned:
        raise SettingsError('no pipeline has a schedule; add schedule: {cron: "*/15 * * * *"}')
    if as_json:
        show_json([_describe(path, pipeline, here) for path, pipeline in planned])
        return
    if kind != "systemd":
        click.echo("# crontab -e")
        for path, pipeline in planned:
            click.echo(crontab_line(pipeline.cron or "", _command(path), here))
    if kind != "cron":
        for path, pipeline in planned:
            click.echo("\n".join(units(pipeline.name, pipeline.cron or "", _command(path), here)))
        click.echo("\n".join(engine_unit(_singer_spark(), here)))


def _describe(path: Path, pipeline: Pipeline, folder: Path) -> dict[str, object]:
    cron = pipeline.cron or ""
    due = next_due(cron, datetime.now(timezone.utc))
    return {
        "pipeline": pipeline.name,
        "cron": cron,
        "crontab": crontab_line(cron, _command(path), folder),
        "on_calendar": to_calendar(cron),
        "next_due": due.isoformat(timespec="seconds"),
    }


def _command(path: Path) -> list[str]:
    return [*_singer_spark(), "run", str(path.absolute())]


def _singer_spark() -> list[str]:
    """Name the command in full: neither cron nor systemd know the PATH of a shell."""
    beside = Path(sys.executable).with_name("singer-spark")
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "singer_spark.cli"]


def crontab_line(cron: str, command: Sequence[str], folder: Path) -> str:
    """Write a line of a crontab, in which a percent sign would end the command."""
    told = f"cd {shlex.quote(str(folder))} && {shlex.join(command)}"
    return f"{cron} {told}".replace("%", r"\%")


def units(name: str, cron: str, command: Sequence[str], folder: Path) -> Iterator[str]:
    """Write a service and the timer that starts it; what was missed is made up for."""
    yield f"\n# ~/.config/systemd/user/singer-spark-{name}.service"
    yield f"[Unit]\nDescription=singer-spark run {name}\n"
    yield f"[Service]\nType=oneshot\nWorkingDirectory={_unit_text(str(folder))}"
    yield f"ExecStart={' '.join(map(_quoted, command))}"
    yield f"\n# ~/.config/systemd/user/singer-spark-{name}.timer"
    yield f"[Unit]\nDescription=singer-spark run {name} ({cron})\n\n[Timer]"
    for line in to_calendar(cron):
        yield f"OnCalendar={line}"
    yield "Persistent=true\n\n[Install]\nWantedBy=timers.target"
    yield f"\n# systemctl --user enable --now singer-spark-{name}.timer"


def engine_unit(command: Sequence[str], folder: Path) -> Iterator[str]:
    """Write a service that keeps one Spark warm for all of them."""
    start, stop = ([*command, "engine", *rest] for rest in (["start", "--idle=3650d"], ["stop"]))
    yield "\n# ~/.config/systemd/user/singer-spark-engine.service, to keep Spark warm between runs"
    yield "[Unit]\nDescription=singer-spark engine\n"
    yield "[Service]\nType=oneshot\nRemainAfterExit=yes"
    yield f"WorkingDirectory={_unit_text(str(folder))}"
    yield f"ExecStart={' '.join(map(_quoted, start))}"
    yield f"ExecStop={' '.join(map(_quoted, stop))}\n\n[Install]\nWantedBy=default.target"
    yield "\n# systemctl --user enable --now singer-spark-engine.service"


def _quoted(word: str) -> str:
    plain = all(sign.isalnum() or sign in "/._-+=:@," for sign in word)
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return _unit_text(word if plain else f'"{escaped}"')


def _unit_text(text: str) -> str:
    return text.replace("%", "%%")
