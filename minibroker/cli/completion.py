"""`minibroker completion`: the script that completes commands, options and names of the cluster (completions.py) in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_MINIBROKER_COMPLETE"  #: the variable that makes click complete
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

    bash needs version 4.4 or newer. The script completes names of topics, groups and brokers from the cluster of -b or
    MINIBROKER_BOOTSTRAP_SERVER, and waits for it at most one second.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    of_shell = kind(click.get_current_context().find_root().command, {}, "minibroker", VARIABLE)
    click.echo(of_shell.source_template % of_shell.source_vars())  # .source() would run bash for its version first
