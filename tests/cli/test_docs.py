"""The pages of docs/cli are true: each command's help, and each example is a call that the command takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from minibroker.cli.main import main
from tests.cli.help_pages import BLOCK, PAGES, command_paths, page_of, with_help

TEXTS = {page: page.read_text() for page in sorted(PAGES.glob("*.md"))}


def test_each_command_has_its_help_on_its_page() -> None:
    documented = {(tuple(match["path"].split()), page) for page, text in TEXTS.items() for match in BLOCK.finditer(text)}
    assert documented == {(path, page_of(path)) for path in command_paths()}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.stem)
def test_the_help_on_the_page_is_that_of_the_commands(page: Path) -> None:
    assert with_help(TEXTS[page]) == TEXTS[page], "run: python -m tests.cli.help_pages"


def test_the_overview_links_each_page() -> None:
    overview = TEXTS[PAGES / "README.md"]
    assert [page.name for page in TEXTS if page.name != "README.md" and f"]({page.name})" not in overview] == []


def test_listings_are_not_truncated() -> None:
    assert re.findall(r"^  [a-z-]+ .*\.\.\.$", "".join(TEXTS.values()), re.MULTILINE) == []


def test_prose_is_at_most_100_columns_wide() -> None:
    prose = (re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE).splitlines() for text in TEXTS.values())
    assert [line for lines in prose for line in lines if len(line) > 100 and not line.startswith("|")] == []


def examples() -> list[str]:
    """Calls of minibroker in the pages' shell blocks, with a pipe's other commands cut off."""
    lines = [line for text in TEXTS.values() for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
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
