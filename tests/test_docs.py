"""The README is true: its table of APIs, its calls of minibroker, its links."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from minibroker.cli.main import main
from minibroker.dispatch import registry

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = ["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CONTRIBUTING.md", "NOT_DONE.md"]


def test_api_table_matches_the_served_apis() -> None:
    table = re.findall(r"^\| (\d+) \| (\w+) \| (\d+) to (\d+) \|$", README, re.MULTILINE)
    served = [(api.key, api.name, api.min_version, api.max_version) for api in registry.load().apis()]
    assert [(int(key), name, int(low), int(high)) for key, name, low, high in table] == served


def calls() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    parts = [part.strip() for block in blocks for line in block.splitlines() for part in line.split(" | ")]
    return [part.removeprefix(".venv/bin/") for part in parts if part.startswith(".venv/bin/minibroker ")]


@pytest.mark.parametrize("call", calls())
def test_each_call_is_a_valid_one(call: str) -> None:
    context = click.Context(main, info_name="minibroker", **main.context_settings)
    name, command, rest = main.resolve_command(context, shlex.split(call)[1:])
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(context, rest)
    assert command is not None
    command.make_context(str(name), list(rest), parent=context)


@pytest.mark.parametrize("page", PAGES)
def test_links_and_files_that_are_named_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    named = {link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link}
    named |= {path for path in re.findall(r"`((?:tests|minibroker|benchmarks|config|docs)/[\w./-]*)`", text) if "kNN" not in path}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_links_within_docs_lead_somewhere(page: Path) -> None:
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if "://" not in link}
    assert [link for link in sorted(links) if not (page.parent / link).exists()] == []


def test_each_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md" and f"]({page.name})" not in index] == []
