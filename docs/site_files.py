"""Add files of the repository to the site: pages such as ARCHITECTURE.md, and every other file that a page links.

MkDocs calls `on_files` and `on_page_markdown`. Links in docs/ are relative to the repository, so
that they work where the Markdown is read; this hook turns links that leave docs/ into links of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
LINK: Final = re.compile(r"(\]\(|(?:src|srcset|href)=\")(?!\w+:|#|/)([^)\s\"#]+)(#[^)\s\"]*)?")
#: a file of the repository -> its page
PAGES: Final = {
    "ARCHITECTURE.md": "repository/architecture.md",
    "BENCHMARKS.md": "repository/benchmarks.md",
    "CHANGELOG.md": "repository/changelog.md",
    "CONTRIBUTING.md": "repository/contributing.md",
    "NOT_DONE.md": "repository/not-done.md",
    "README.md": "README.md",
    "benchmarks/HISTORY.md": "repository/benchmarks-history.md",
    "examples/README.md": "repository/examples.md",
}
SOURCES: Final = {page: source for source, page in PAGES.items() if source != "README.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of PAGES, and the files that pages link outside of docs/."""
    for page, source in SOURCES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for file in list(files.documentation_pages()):
        for target in _targets(file.src_uri, file.content_string):
            uri = _uri(target)
            if uri != target.removeprefix("docs/") and uri not in PAGES.values() and files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  MkDocs passes them by name
    """Return the page's text with links into the site; a link to a folder becomes text."""
    here = page.file.src_uri

    def replaced(match: re.Match[str]) -> str:
        target = _target(here, match[2])
        if target is None or not (ROOT / target).is_file():
            return match[0]
        return f"{match[1]}{posixpath.relpath(_uri(target), posixpath.dirname(here))}{match[3] or ''}"

    return LINK.sub(replaced, _without_folders(markdown, here))


def _without_folders(markdown: str, here: str) -> str:
    def text(match: re.Match[str]) -> str:
        target = _target(here, match[2])
        return match[1] if target is not None and (ROOT / target).is_dir() else match[0]

    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)\s#]+)\)", text, markdown)


def _targets(here: str, text: str) -> set[str]:
    found = {_target(here, match[2]) for match in LINK.finditer(text)}
    return {target for target in found if target is not None and (ROOT / target).is_file()}


def _target(here: str, link: str) -> str | None:
    """Return the file that a link of a page names, relative to the repository; None outside of it."""
    source = SOURCES.get(here, f"docs/{here}")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return None if target.startswith("..") else target


def _uri(target: str) -> str:
    """Return where a file of the repository is in the site."""
    if target in PAGES:
        return PAGES[target]
    return target.removeprefix("docs/") if target.startswith("docs/") else f"repository/files/{target}"
