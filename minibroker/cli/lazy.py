"""A group of commands that imports a command when it is called. Help and completion import no command."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: name -> (module, function, one line of help)
Commands = Mapping[str, tuple[str, str, str]]


class LazyGroup(click.Group):
    """Has commands by name, and imports the one that is called: `@click.group(cls=LazyGroup, lazy=COMMANDS)`."""

    def __init__(self, *args: Any, lazy: Commands, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names of commands, sorted."""
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """Import the module of one command."""
        if cmd_name not in self.lazy:
            return None
        module, function, _ = self.lazy[cmd_name]
        command = getattr(import_module(module), function)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.{function} is not a click command")
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does; for an unknown name, suggest the nearest one."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self.lazy, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """List the commands without importing any."""
        rows = [(name, self.lazy[name][2]) for name in sorted(self.lazy)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands and options of this group, without importing a command."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only completion pays for it

        options = click.Command.shell_complete(self, ctx, incomplete)
        return options + [CompletionItem(name, help=self.lazy[name][2]) for name in sorted(self.lazy) if name.startswith(incomplete)]
