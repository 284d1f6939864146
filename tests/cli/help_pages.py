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
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        yield (name,)
        if isinstance(command, click.Group):
            yield from ((name, inner) for inner in command.list_commands(context))


def help_of(path: tuple[str, ...]) -> str:
    """What `minibroker PATH --help` prints on a terminal of 80 columns."""
    result = CliRunner(env={"COLUMNS": "80"}).invoke(main, [*path, "--help"])
    assert result.exit_code == 0, result.output
    return "\n".join(line.rstrip() for line in result.output.splitlines()) + "\n"


def with_help(page: str) -> str:
    """A page whose help blocks are those of now."""

    def block(match: re.Match[str]) -> str:
        return match[1] + help_of(tuple(match["path"].split())) + match[3]

    return BLOCK.sub(block, page)


if __name__ == "__main__":
    PAGE.write_text(with_help(PAGE.read_text()))
