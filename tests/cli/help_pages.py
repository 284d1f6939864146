"""The pages of docs/cli: `python -m tests.cli.help_pages` writes the help of every command into them, and test_docs.py compares.

One page for each command of `minibroker`. The commands below it have sections of that page, and
`minibroker` itself is in README.md. Text between the blocks of help is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from minibroker.cli.main import main

PAGES = Path(__file__).parents[2] / "docs" / "cli"
BLOCK = re.compile(r"(<!-- help: (?P<path>[a-z -]*) -->\n```text\n).*?(```\n)", re.DOTALL)


def page_of(path: tuple[str, ...]) -> Path:
    """Return the page that has the help of a command."""
    return PAGES / f"{path[0] if path else 'README'}.md"


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
    """Return a page with the help that its commands print now."""

    def block(match: re.Match[str]) -> str:
        return match[1] + help_of(tuple(match["path"].split())) + match[3]

    return BLOCK.sub(block, page)


def write_pages() -> None:
    """Write the help into all pages; a command that has no place yet gets one at the end of its page."""
    for path in command_paths():
        page = page_of(path)
        text = page.read_text() if page.exists() else ""
        if not any(tuple(match["path"].split()) == path for match in BLOCK.finditer(text)):
            words = " ".join(path)
            text = f"{text}\n{'#' * len(path)} {words}\n\n<!-- help: {words} -->\n```text\n```\n".lstrip("\n")
        page.write_text(text)
    for page in PAGES.glob("*.md"):
        page.write_text(with_help(page.read_text()))


if __name__ == "__main__":
    write_pages()
