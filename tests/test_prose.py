"""Prose for users avoids phrases that read like a translation. The list is short on purpose: it finds words, a reader finds sentences."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "BENCHMARKS", "CONTRIBUTING", "NOT_DONE", "SECURITY")),
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
#: a phrase to avoid -> what to write
PHRASES: Final = {
    r"anew": "again",
    r"(?<!there )(is|are|were) none": "does not exist, is invalid",
    r"tells|told": "reports, returns, says",
    r"held against": "compared with",
    r"of ours|of theirs|of one's own": "our, their, your",
    r"is content (when|if)": "does not fail if",
    r"makes one": "creates one",
    r"whoever|nobody|somebody": "the caller, no client, another process",
    r"what is to come|proves nothing": "the noun itself",
    r"(ask|asks|asked) of (it|them|the)": "request from",
}
TOO = re.compile(r",? too[.,;:)]")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def prose_of(page: Path) -> str:
    """Return a page without code. Help of commands is prose: it is in the blocks of docs/cli."""
    text = COMMENT.sub("", page.read_text())
    return text if page.parent.name == "cli" else re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_phrases(page: Path) -> None:
    lines = prose_of(page).splitlines()
    found = [
        f"{line.strip()!r}: write {better!r}"
        for line in lines
        for phrase, better in PHRASES.items()
        if re.search(rf"\b({phrase})\b", line, re.IGNORECASE)
    ]
    found += [f"{line.strip()!r}: write 'also' or 'as well'" for line in lines if TOO.search(line)]
    assert found == []


def messages_of(module: Path) -> list[tuple[int, str]]:
    """Return the strings of a module that may be read by a user: those with a space, except docstrings."""
    found, docstrings = [], set[ast.AST]()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Expr):
            docstrings.add(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and node not in docstrings:
            found.append((node.lineno, node.value))
    return found


def test_messages() -> None:
    """Errors, log lines and help of options. The case counts: `is None` is code that minibroker generates."""
    phrases = re.compile(rf"\b({'|'.join(PHRASES)})\b")
    found = [
        f"{module.relative_to(ROOT)}:{line}: {match[0]!r} in {message[:80]!r}"
        for module in (ROOT / "minibroker").rglob("*.py")
        for line, message in messages_of(module)
        if (match := phrases.search(message))
    ]
    assert found == []
