"""Prints the part of requirements.lock, with versions and hashes, that the image needs: the project's own dependencies, or what builds it.

python3 lock_of.py [--build] requirements.lock pyproject.toml
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

BUILD = ("hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers")


def main(*arguments: str) -> None:
    """Print the entries."""
    lock_file, project_file = [each for each in arguments if each != "--build"]
    project = tomllib.loads(Path(project_file).read_text(encoding="utf-8"))["project"]
    wanted = BUILD if "--build" in arguments else [name_of(requirement) for requirement in project["dependencies"]]
    entries = {name_of(entry): entry for entry in re.split(r"\n(?=\S)", Path(lock_file).read_text(encoding="utf-8")) if entry[:1].isalnum()}
    for name in wanted:
        print(entries[name])


def name_of(requirement: str) -> str:
    """The name of what is required."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


if __name__ == "__main__":
    main(*sys.argv[1:])
