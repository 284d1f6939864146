"""README and docs are true: the table of APIs, calls of minibroker, links, the index and the site's navigation."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

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


def documented() -> Iterator[Any]:
    """Return the modules, classes and functions that the pages of the Python API show."""
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE):
            module, _, attribute = name.rpartition(".")
            parent = importlib.import_module(module)
            yield getattr(parent, attribute) if hasattr(parent, attribute) else importlib.import_module(name)


def functions_of(thing: Any) -> Iterator[Callable[..., Any]]:
    """Return the public functions and methods of a module or class."""
    if inspect.isfunction(thing):
        yield thing
        return
    for name in dir(thing):
        member = inspect.getattr_static(thing, name)
        member = getattr(member, "__func__", member)
        if isinstance(thing, ModuleType):
            if not name.startswith("_") and getattr(member, "__module__", None) == thing.__name__ and callable(member):
                yield from functions_of(member)
        elif inspect.isfunction(member) and member.__module__.startswith("minibroker") and not name.startswith("_"):
            yield member


def missing_sections(name: str, signature: inspect.Signature, doc: str) -> list[str]:
    """Return the sections that a docstring lacks. One line says all about a function with one parameter at most."""
    parameters = [each for each in signature.parameters if each not in {"self", "cls"}]
    if len(parameters) <= 1 and "\n" not in doc:
        return [] if doc else [f"{name}: no docstring"]
    needed = ["Args:"] if parameters else []
    needed += [] if signature.return_annotation in {"None", "NoReturn", "Self"} else ["Returns:"]
    return [f"{name}: {section}" for section in needed if section not in doc]


def test_the_python_api_describes_its_arguments_and_results() -> None:
    found = set()
    for thing in documented():
        for function in functions_of(thing):
            name = f"{function.__module__}.{function.__qualname__}"
            found.update(missing_sections(name, inspect.signature(function), inspect.getdoc(function) or ""))
        if inspect.isclass(thing) and "__init__" in vars(thing) and not dataclasses.is_dataclass(thing):
            doc = f"{inspect.getdoc(thing)}\n{thing.__init__.__doc__}"
            several = len(inspect.signature(thing).parameters) > 1
            if several and "Args:" not in doc and "arguments of BrokerThread" not in doc:
                found.add(f"{thing.__qualname__}: Args:")
    assert sorted(found) == []
