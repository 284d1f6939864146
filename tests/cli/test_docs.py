"""docs/cli.md is true: each command's help, and each example is a call that the command takes."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from minibroker.cli.main import main
from tests.cli.help_pages import BLOCK, PAGE, command_paths, with_help

TEXT = PAGE.read_text()


def test_each_command_has_its_help_on_the_page() -> None:
    documented = {tuple(match["path"].split()) for match in BLOCK.finditer(TEXT)}
    assert documented == set(command_paths())


def test_the_help_on_the_page_is_that_of_the_commands() -> None:
    assert with_help(TEXT) == TEXT, "run: python -m tests.cli.help_pages"


def test_listings_are_not_truncated() -> None:
    assert re.findall(r"^  [a-z-]+ .*\.\.\.$", TEXT, re.MULTILINE) == []


def examples() -> list[str]:
    """Calls of minibroker in the page's shell blocks, with a pipe's other commands cut off."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
    return [part.strip() for line in lines for part in re.split(r"\s[|<>]\s", line) if part.strip().startswith("minibroker ")]


@pytest.mark.parametrize("example", examples())
def test_each_example_is_a_valid_call(monkeypatch: pytest.MonkeyPatch, example: str) -> None:
    words = shlex.split(example, comments=True)[1:]
    context = click.Context(main, info_name="minibroker", **main.context_settings)
    name, command, rest = main.resolve_command(context, words)
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(context, rest)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            monkeypatch.setattr(parameter, "type", click.STRING)  # the files of an example are not here
    command.make_context(str(name), list(rest), parent=context)
