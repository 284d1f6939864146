"""One file a key; a doubled key is found at import."""

from __future__ import annotations

from pathlib import Path

import pytest

import minibroker.handlers
from minibroker.dispatch.registry import Handler, Registry, load
from minibroker.schemas import k03_metadata, k18_api_versions
from minibroker.wire.api import api_of


def handle(ctx: object, request: object) -> None:
    """A handler of this module's."""


def test_every_handler_file_is_one_registered_key() -> None:
    stems = {file.stem for folder in minibroker.handlers.__path__ for file in Path(folder).rglob("k*.py")}
    apis = load().apis()
    assert {int(stem[1:3]) for stem in stems} == {api.key for api in apis}
    assert len(stems) == len(apis)


def test_a_doubled_key_is_a_mistake() -> None:
    registry = Registry()
    registry.add(Handler(api_of(k03_metadata), handle))
    other = Handler(api_of(k03_metadata), handle)
    other.module = "elsewhere"
    with pytest.raises(RuntimeError, match="API key 3 is handled by"):
        registry.add(other)


def test_apis_are_listed_by_key() -> None:
    registry = Registry()
    registry.add(Handler(api_of(k18_api_versions), handle))
    registry.add(Handler(api_of(k03_metadata), handle))
    assert [api.key for api in registry.apis()] == [3, 18]
    assert registry.get(0) is None
