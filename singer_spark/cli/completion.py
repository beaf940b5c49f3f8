"""Completion in the shell: names of pipelines, and `singer-spark completion`."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from singer_spark.pipeline import list_pipeline_files

SHELLS = ("bash", "zsh", "fish")


def complete_pipeline(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the names in pipelines/, and files where a path is begun."""
    if "/" in incomplete:
        return [CompletionItem(incomplete, type="file")]
    names = [path.stem for path in list_pipeline_files(Path.cwd())]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(short_help="Print the script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, /, *, shell: str) -> None:
    """Print the script that completes commands, options and pipelines in SHELL.

    \b
    bash: eval "$(singer-spark completion bash)" in ~/.bashrc
    zsh:  eval "$(singer-spark completion zsh)" in ~/.zshrc
    fish: singer-spark completion fish | source, in ~/.config/fish/config.fish
    """  # noqa: D301, click reads the sign
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101, the choice knows the shells
    root = ctx.find_root().command
    click.echo(kind(root, {}, "singer-spark", "_SINGER_SPARK_COMPLETE").source())
