"""The help of every command inside docs/cli.md: `python -m tests.cli.help_pages` writes it anew, test_docs.py compares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from minibroker.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"(<!-- help: (?P<path>[a-z -]*) -->\n```text\n).*?(```\n)", re.DOTALL)


def command_paths() -> Iterator[tuple[str, ...]]:
    """The words of each command, `()` for `minibroker` itself."""
    yield ()
    yield from _below((), main, click.Context(main))


def _below(path: tuple[str, ...], group: click.Group, context: click.Context) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from _below((*path, name), command, context)


def help_of(path: tuple[str, ...]) -> str:
    """What `minibroker PATH --help` prints on a terminal of 80 columns."""
    _forget_help_options(path)
    result = CliRunner(env={"COLUMNS": "80"}).invoke(main, [*path, "--help"])
    assert result.exit_code == 0, result.output
    return "\n".join(line.rstrip() for line in result.output.splitlines()) + "\n"


def _forget_help_options(path: tuple[str, ...]) -> None:
    """Undo what other tests of this process did: click keeps a command's help option of its first context, which may have had no `-h`."""
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        below = command.get_command(click.Context(command), name)
        assert below is not None
        below._help_option = None
        command = below


def with_help(page: str) -> str:
    """A page whose help blocks are those of now."""

    def block(match: re.Match[str]) -> str:
        return match[1] + help_of(tuple(match["path"].split())) + match[3]

    return BLOCK.sub(block, page)


if __name__ == "__main__":
    PAGE.write_text(with_help(PAGE.read_text()))
