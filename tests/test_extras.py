"""The pip command in messages fits the installation: from an index, from a clone, and an editable clone."""

from __future__ import annotations

import importlib.metadata
import json
from types import SimpleNamespace

import pytest

from minibroker.extras import install_command


@pytest.mark.parametrize(
    ("direct_url", "command"),
    [
        (None, "pip install 'minibroker[spark]'"),
        ({"url": "file:///home/me/minibroker", "dir_info": {}}, "pip install '/home/me/minibroker[spark]'"),
        ({"url": "file:///home/me/mini%20broker", "dir_info": {"editable": True}}, "pip install -e '/home/me/mini broker[spark]'"),
        ({"url": "https://git.example/minibroker.git", "vcs_info": {"vcs": "git"}}, "pip install 'minibroker[spark]'"),
    ],
)
def test_the_command_names_where_the_package_came_from(monkeypatch: pytest.MonkeyPatch, direct_url: object, command: str) -> None:
    text = None if direct_url is None else json.dumps(direct_url)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))
    assert install_command("spark") == command


def test_sources_that_were_never_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert install_command("lab") == "pip install 'minibroker[lab]'"
