"""`minibroker completion`: the script with which a shell completes our commands, options, and names of the cluster (completions.py)."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_MINIBROKER_COMPLETE"  #: how click is asked for completions
SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog="""\b
Examples:
  source <(minibroker completion bash)
  minibroker completion bash > ~/.local/share/bash-completion/completions/minibroker
  minibroker completion zsh > ~/.zfunc/_minibroker
  minibroker completion fish > ~/.config/fish/completions/minibroker.fish
"""
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands in a shell.

    bash needs version 4.4 or newer. Names of topics, groups and brokers are asked of the cluster that -b or MINIBROKER_BOOTSTRAP_SERVER
    names, for a second at the most.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    of_shell = kind(click.get_current_context().find_root().command, {}, "minibroker", VARIABLE)
    click.echo(of_shell.source_template % of_shell.source_vars())  # .source() would ask bash for its version first
