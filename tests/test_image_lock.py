"""docker/lock_of.py: the part of requirements.lock that the image installs. The build itself needs podman (tests/docker)."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def locked(capsys: pytest.CaptureFixture[str], *options: str, project: Path = ROOT / "pyproject.toml") -> set[str]:
    """Return the names that the program prints."""
    runpy.run_path(str(ROOT / "docker" / "lock_of.py"))["main"](*options, str(ROOT / "requirements.lock"), str(project))
    return set(re.findall(r"^([a-z0-9-]+)==", capsys.readouterr().out, re.MULTILINE))


def test_the_image_has_what_its_extras_need(capsys: pytest.CaptureFixture[str]) -> None:
    found = locked(capsys)
    # One of the project, of each extra, and one that only another one needs.
    assert {"lz4", "uvloop", "aiohttp", "cryptography", "jinja2", "prometheus-client", "opentelemetry-proto", "cffi"} <= found
    assert not found & {"pytest", "pyspark", "hatchling"}
    assert {"hatchling", "mypy", "librt", "setuptools"} <= locked(capsys, "--build")


def test_an_extra_may_name_others_of_the_project(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    extras = 'console = ["minibroker[metrics, lab]"]\nmetrics = ["protobuf"]\nlab = ["jinja2"]\nsecurity = []\nregistry = []'
    project.write_text(f'[project]\nname = "minibroker"\ndependencies = ["lz4"]\n[project.optional-dependencies]\n{extras}\n')
    assert locked(capsys, project=project) == {"lz4", "protobuf", "jinja2", "markupsafe"}
