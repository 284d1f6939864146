"""README and docs are true: the table of APIs, calls of minibroker, links, the index and the site's navigation."""

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
GUIDES = [ROOT / "docs" / f"{name}.md" for name in ("start-laptop", "start-spark", "spark", "moving", "groups", "transactions")]
PAGES = ["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CONTRIBUTING.md", "NOT_DONE.md"]


def test_api_table_matches_the_served_apis() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text()
    table = re.findall(r"^\| (\d+) \| (\w+) \| (\d+) to (\d+) \|$", page, re.MULTILINE)
    served = [(api.key, api.name, api.min_version, api.max_version) for api in registry.load().apis()]
    assert [(int(key), name, int(low), int(high)) for key, name, low, high in table] == served


def calls() -> list[str]:
    texts = [README, *(page.read_text() for page in GUIDES)]
    lines = [line for text in texts for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    parts = [part.strip() for line in lines for part in re.split(r" \| | > |  #", line)]
    return sorted({part for part in parts if part.startswith("minibroker ")})


@pytest.mark.parametrize("call", calls())
def test_each_call_is_a_valid_one(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    context = click.Context(main, info_name="minibroker", **main.context_settings)
    name, command, rest = main.resolve_command(context, shlex.split(call)[1:])
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(context, rest)
    assert command is not None
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            monkeypatch.setattr(parameter, "type", click.STRING)  # the files of an example are not here
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


def test_each_page_is_in_the_navigation_of_the_site() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} <= named
