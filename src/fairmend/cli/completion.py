"""`fairmend completion`: print click's script for completion in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from fairmend.cli.group import IndependentCommand
from fairmend.cli.options import common_options

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=IndependentCommand)
@click.argument("shell", type=click.Choice(_SHELLS))
@common_options
@click.pass_context
def command(ctx: click.Context, /, shell: str) -> None:
    """Print the script for shell completion.

    \b
    bash: add eval "$(fairmend completion bash)" to ~/.bashrc
    zsh:  add eval "$(fairmend completion zsh)" to ~/.zshrc
    fish: fairmend completion fish > ~/.config/fish/completions/fairmend.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "fairmend", "_FAIRMEND_COMPLETE").source())
