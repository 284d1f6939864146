"""Prints the part of requirements.lock, with versions and hashes, that the image needs: what runs the broker, or what builds it.

python3 lock_of.py [--build] requirements.lock pyproject.toml
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

BUILD = ["hatchling", "mypy", "setuptools"]  #: mypy has mypyc, the compiler, which needs setuptools
EXTRAS = ["console", "lab", "metrics", "registry", "security"]  #: of the project, in the image
LEFT_OUT = {"grpcio", "setuptools"}  #: of grpcio-tools: its protoc, all that is used of it, does not need these 20 MB


def main(*arguments: str) -> None:
    """Print the entries of what is wanted, and of all that it needs."""
    lock_file, project_file = [each for each in arguments if each != "--build"]
    project = tomllib.loads(Path(project_file).read_text(encoding="utf-8"))["project"]
    text = Path(lock_file).read_text(encoding="utf-8")
    entries = {name_of(entry): entry for entry in re.split(r"\n(?=\S)", text) if entry[:1].isalnum()}
    wanted = set(BUILD if "--build" in arguments else map(name_of, [*project["dependencies"], *required_by(EXTRAS, project)]))
    while more := {name for name in entries if name not in wanted | LEFT_OUT and wanted & needed_by(entries[name])}:
        wanted |= more
    for name in sorted(wanted):
        print(entries[name])


def required_by(extras: list[str], project: dict[str, Any]) -> list[str]:
    """Return the requirements of extras. One of them may be the project itself with other extras: minibroker[metrics]."""
    found = []
    for extra in extras:
        for each in project["optional-dependencies"][extra]:
            if name_of(each) == project["name"]:
                found += required_by(each.partition("[")[2].partition("]")[0].replace(" ", "").split(","), project)
            else:
                found.append(each)
    return found


def name_of(requirement: str) -> str:
    """The name of what is required."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def needed_by(entry: str) -> set[str]:
    """Whose requirement it is, as the comment behind it says."""
    return {name_of(each) for each in re.findall(r"^ +#(?: via|  ) +([\w.-]+)$", entry, re.MULTILINE)}


if __name__ == "__main__":
    main(*sys.argv[1:])
