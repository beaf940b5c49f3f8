"""`singer-spark run`: one run of a pipeline, runs until nothing is left, or several pipelines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from singer_spark import exact_json
from singer_spark.cli.completion import complete_pipeline
from singer_spark.cli.fleet import follow_parent, run_several, show_failure, show_outcomes
from singer_spark.cli.output import cut, lay_out, show_json, wrap
from singer_spark.cli.progress import open_display, print_line
from singer_spark.errors import SettingsError, SingerSparkError
from singer_spark.pipeline import Pipeline, find_pipelines, load_pipeline, refuse_twins
from singer_spark.pipeline.find import is_pattern
from singer_spark.runner import (
    RunOptions,
    RunResult,
    StateFiles,
    Window,
    run_pipeline,
    run_until_complete,
)
from singer_spark.runner.preview import preview_run
from singer_spark.runner.sharing import started_cold

HEAD = ("STREAM", "FROM", "TO", "ROWS")
WIDTHS = (24, 21, 21)


def show_preview(streams: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print what would be read."""
    if as_json:
        show_json(list(streams))
        return
    rows = [
        (
            str(one.get("stream")),
            _bound(one, "low", "the start"),
            _bound(one, "high", "the end"),
            "?" if one.get("rows") is None else f"{one['rows']:,}",
        )
        for one in streams
    ]
    fitted = [(*map(cut, row, WIDTHS), row[-1]) for row in rows]
    head, *lines = lay_out([HEAD, *fitted], right=(3,))
    click.echo(head)
    for line, one in zip(lines, streams, strict=True):
        click.echo(line)
        click.echo(cut(f"    {one.get('summary')}"))
        if verdict := one.get("verdict"):
            click.echo(wrap(f"  ! {verdict}"))
    known = [one["rows"] for one in streams if one.get("rows") is not None]
    about = f", about {sum(known):,} rows" if known else ""
    click.echo(f"Dry run: {len(streams)} stream(s){about}; nothing was read or written")


def _bound(one: Mapping[str, Any], end: str, otherwise: str) -> str:
    value = one.get(end)
    if isinstance(value, Mapping):
        value = value.get("replication_key_value", value)
    if value is None:
        return otherwise
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("T", " ").removesuffix("+00:00")


path_type = click.Path(path_type=Path)


@click.command(short_help="Run a pipeline, or several.")
@click.argument("pipelines", metavar="PIPELINE...", nargs=-1, required=True,
                shell_complete=complete_pipeline)  # fmt: skip
@click.option("--full", is_flag=True, help="Start afresh; the old state stays until success.")
@click.option("--resume", is_flag=True, help="Start where the last, failed run got to.")
@click.option("--refresh", metavar="STREAM", multiple=True,
              help="Read this stream afresh, the others as usual; may be repeated.")  # fmt: skip
@click.option("--from", "start", metavar="A", help="Read again from this key on; leaves the state.")
@click.option("--to", "end", metavar="B", help="Read again up to, but without, this key.")
@click.option("--dry-run", is_flag=True, help="Show what would be read; read and write nothing.")
@click.option("--until-complete", is_flag=True, help="Run again until nothing is left to read.")
@click.option("--parallel", type=click.IntRange(min=1), metavar="N",
              help="Of several pipelines, run N at the same time.  [default: 1]")  # fmt: skip
@click.option("--state-in", type=path_type, help="Read the state from this file; use no store.")
@click.option("--state-out", type=path_type, help="Write the state to this file; use no store.")
@click.option("--json", "as_json", is_flag=True, help="Print the result, state included, as JSON.")
@click.option("--parent", type=int, hidden=True, expose_value=False, callback=follow_parent,
              help="End when this process, which started us, ends.")  # fmt: skip
@click.pass_context
def run(
    ctx: click.Context,
    /,
    *,
    pipelines: tuple[str, ...],
    start: str | None,
    end: str | None,
    dry_run: bool,
    until_complete: bool,
    parallel: int | None,
    state_in: Path | None,
    state_out: Path | None,
    as_json: bool,
    **starts: bool | tuple[str, ...],
) -> None:
    """Run a pipeline once, or several: 'shop-*' is every such name in pipelines/.

    PIPELINE is a pipeline file, or its name in pipelines/. The exit code is that of the side that
    failed first; 75 is safe to repeat as it is.

    \b
    singer-spark run shop
    singer-spark run shop --refresh public-orders
    singer-spark run shop --from 2026-01-01 --to 2026-02-01
    singer-spark run 'shop-*' --parallel 2
    """  # noqa: D301, click reads the sign
    options = RunOptions(
        window=Window(start, end) if start or end else None,
        files=StateFiles(state_in, state_out) if state_in or state_out else None,
        **starts,  # type: ignore[arg-type]
    )
    options.check()
    paths = find_pipelines(pipelines, Path.cwd())
    refuse_twins(paths, Path.cwd())
    if len(paths) > 1 or any(map(is_pattern, pipelines)):
        if options.files or dry_run:
            raise SettingsError(
                "--state-in, --state-out and --dry-run are for one pipeline; name one"
            )
        ctx.exit(_run_several(paths, ctx, parallel or 1, as_json=as_json))
    if parallel:
        raise SettingsError("--parallel is for several pipelines; this is one")
    if dry_run:
        pipeline = load_pipeline(paths[0])
        click.echo(f"Planning: {pipeline.name}", err=as_json)
        told = preview_run(pipeline, options, partial(click.echo, err=as_json))
        show_preview(told, as_json=as_json)
        return
    if options.files and not options.files.result and not until_complete:
        click.echo("Warning: without --state-out the new state is not kept", err=True)
    _run_path(paths[0], options, until_complete=until_complete, as_json=as_json)


def _run_path(path: Path, options: RunOptions, *, until_complete: bool, as_json: bool) -> None:
    """Run a pipeline; as JSON a failure is printed too, of the run or of its start."""
    failures: list[RunResult] = []
    try:
        pipeline = load_pipeline(path)
        results = _run_one(pipeline, options, failures, until_complete, as_json)
    except SingerSparkError as error:
        if as_json and not failures:
            show_failure(path.stem, error.exit_code, error.format_message())
        raise
    finally:
        for failure in failures if as_json else ():
            _show_json(failure)
    if not as_json:
        show_results(results)
        if sys.stdout and sys.stdout.isatty() and started_cold(pipeline):
            print_line("Spark started for this run alone; singer-spark engine start keeps one warm")


def _run_one(
    pipeline: Pipeline,
    options: RunOptions,
    failures: list[RunResult],
    until_complete: bool,
    as_json: bool,
) -> list[RunResult]:
    results = []
    with open_display(err=as_json) as display:
        runs: Iterable[RunResult] = (
            run_until_complete(pipeline, options, display, on_failure=failures.append)
            if until_complete
            else [run_pipeline(pipeline, options, display=display, on_failure=failures.append)]
        )
        for result in runs:
            results.append(result)
            if as_json:
                _show_json(result)
    return results


def _show_json(result: RunResult) -> None:
    click.echo(exact_json.dumps({**result.record, "state": result.state}))


def show_results(results: Sequence[RunResult]) -> None:
    """Print what a run did, or all the runs of one command together."""
    streams: Counter[str] = Counter()
    known: Counter[str] = Counter()
    for result in results:
        streams.update(result.records)
        for stream, facts in result.record["streams"].items():
            known[stream] += facts["unchanged"] or 0
    runs = f" by {len(results)} runs" if len(results) > 1 else ""
    print_line(f"Done! {streams.total()} records in {len(streams)} stream(s){runs}")
    for stream, count in streams.items():
        left_out = f" ({known[stream]} left out, the table has them)" if known[stream] else ""
        print_line(f"  {stream}: {count}{left_out}")


def _run_several(paths: Sequence[Path], ctx: click.Context, parallel: int, *, as_json: bool) -> int:
    """Run each pipeline as a command of its own with the same options; give the worst exit code."""
    outcomes = run_several(paths, _repeated_options(ctx), parallel)
    if as_json:
        for outcome in outcomes:
            for result in outcome.results:
                click.echo(exact_json.dumps(result))
            if outcome.code and not any(result["exit_code"] for result in outcome.results):
                show_failure(outcome.name, outcome.code, "it ended without a word; see its log")
    else:
        show_outcomes(outcomes)
    return max(outcome.code for outcome in outcomes)


def _repeated_options(ctx: click.Context) -> list[str]:
    given: list[str] = []
    for name in ("full", "resume", "until_complete"):
        given += [f"--{name.replace('_', '-')}"] if ctx.params[name] else []
    given += [f"--refresh={stream}" for stream in ctx.params["refresh"]]
    for option, name in (("--from", "start"), ("--to", "end")):
        given += [f"{option}={ctx.params[name]}"] if ctx.params[name] else []
    return given
