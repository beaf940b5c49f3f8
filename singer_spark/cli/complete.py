"""Names of pipelines for the shell to complete."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from singer_spark.pipeline import list_pipeline_files


def complete_pipeline(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the names in pipelines/, and files where a path is begun."""
    if "/" in incomplete:
        return [CompletionItem(incomplete, type="file")]
    names = [path.stem for path in list_pipeline_files(Path.cwd())]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
