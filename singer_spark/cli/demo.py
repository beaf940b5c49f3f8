"""`singer-spark demo`: a shop in a database, loaded into Delta tables, changed, loaded again.

Both runs share one warm Spark, as those of `singer-spark engine start` do.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import click

from singer_spark.cli.output import lay_out
from singer_spark.demo.shop import (
    Row,
    change_shop,
    make_shop,
    read_rows,
    write_pipeline,
)
from singer_spark.engine import jars
from singer_spark.errors import SettingsError, SingerSparkError
from singer_spark.figures import NOTHING
from singer_spark.pipeline import load_pipeline
from singer_spark.runner import PlainDisplay, run_pipeline
from singer_spark.runner.sharing import engine_of_run
from singer_spark.scratch import DEMO, make_scratch, remove_scratch

HOW_READ = {
    "main-customers": "by updated_at, from the last bookmark on (inclusive)",
    "main-orders": "by updated_at, likewise",
    "main-products": "in full: a read by time cannot see a deleted row",
}
ROWS_AT_THE_END = {"main_customers": 41, "main_orders": 1002, "main_products": 5}


def run_demo(directory: Path | None) -> None:
    """Make the shop, load it, change it, load the change, show the tables.

    Args:
        directory: A new or empty folder, in which everything stays; else a temporary one.
    """
    # The demo tells the story; what tap and target log would drown it.
    os.environ.setdefault("LOGLEVEL", "WARNING")
    if directory is None:
        folder = make_scratch(DEMO)
        try:
            _run_both(folder)
        finally:
            remove_scratch(folder)
        click.echo("The folder is removed. To keep one: singer-spark demo --directory shop-demo")
        return
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise SettingsError(f"--directory {directory}: the folder is not empty; name a new one")
    _run_both(directory.absolute())
    file = shlex.quote(str(directory / "pipelines" / "shop.yml"))
    click.echo("All of it stays. Try next:")
    click.echo(f"  singer-spark run {file}   # finds next to nothing new")
    click.echo(f"  cat {file}   # point a copy at a database of yours")


def _run_both(folder: Path) -> None:
    click.echo(f"A shop's database, loaded into Delta tables by two runs, in {folder}")
    click.echo(f"(jars, 40 MB, are fetched once and kept in {jars.cache_folder()})\n")

    click.echo("1. Make the shop, an SQLite database: shop.db")
    make_shop(folder)
    pipeline = write_pipeline(folder)
    with engine_of_run(load_pipeline(pipeline), "demo") as engine, _given(engine):
        first, second = _load_twice(folder, pipeline)

    click.echo("\n5. Records read")
    _show(
        [
            {"stream": name, "first run": first[name], "second run": second[name], "read": how}
            for name, how in HOW_READ.items()
        ]
    )
    _show_lake(folder / "lake")


@contextmanager
def _given(variables: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def _load_twice(folder: Path, pipeline: Path) -> list[Mapping[str, int]]:
    click.echo(f"\n2. First run: singer-spark run {pipeline.relative_to(folder)}")
    first = _run(pipeline)

    click.echo("\n3. Change the shop: 3 orders paid, 2 orders and 1 customer added, 1 e-mail")
    click.echo("   removed, 1 price raised, 1 product deleted")
    change_shop(folder)

    click.echo("\n4. Second run, the same command: it starts from the state of the first, and")
    click.echo("   Spark is warm")
    return [first, _run(pipeline)]


def _run(pipeline: Path) -> Mapping[str, int]:
    """Do what `singer-spark run` does; return the records by stream."""
    began = time.monotonic()
    display = PlainDisplay(lambda text: click.echo(f"   {text}"))
    result = run_pipeline(load_pipeline(pipeline), display=display)
    records, seconds = sum(result.records.values()), time.monotonic() - began
    click.echo(f"   Done! {records} records in {seconds:.0f} s")
    return result.records


def _show_lake(lake: Path) -> None:
    click.echo("6. Rows of the Delta tables, read from their files: lake/")
    tables = {name: read_rows(lake / name) for name in ROWS_AT_THE_END}
    for name, columns, keys in (
        ("main_customers", ("id", "name", "email", "born_on", "updated_at"), (2, 3, 41)),
        ("main_orders", ("id", "sku", "amount_cents", "is_paid", "updated_at"), (1, 2, 1002)),
        ("main_products", ("sku", "price_cents", "weight_kg", "_sdc_deleted_at"), None),
    ):
        chosen = [row for row in tables[name] if keys is None or row[columns[0]] in keys]
        click.echo(f"   {name}, {len(chosen)} of {len(tables[name])} rows")
        _show([{column: row[column] for column in columns} for row in chosen])
    if {name: len(rows) for name, rows in tables.items()} != ROWS_AT_THE_END:
        raise SingerSparkError(
            f"the tables in {lake} do not hold what the shop holds; "
            "try again in an empty folder, with --directory"
        )


def _show(rows: list[Row]) -> None:
    head = list(rows[0])
    right = [n for n, name in enumerate(head) if type(rows[0][name]) in (int, float, Decimal)]
    lines = [[NOTHING if value is None else str(value) for value in row.values()] for row in rows]
    for line in lay_out([head, *lines], right=right, width=100):
        click.echo(f"   {line}")
    click.echo()


@click.command(short_help="Load an embedded example, change it, load the change.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the example lives and stays; a temporary folder otherwise.",
)
def demo(directory: Path | None) -> None:
    """Show the whole of it: make a source, load it, change it, load the change."""
    run_demo(directory)
