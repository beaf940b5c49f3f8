"""`singer-spark completion`: the script with which a shell completes commands and pipelines."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


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
