"""What an answer says: decoded by its schema, every error code looked at, ids and epochs kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from minibroker.dispatch import registry
from minibroker.errors import WireError
from minibroker.wire import compiled
from minibroker.wire.api import Api
from minibroker.wire.header import decode_response_header, response_header_version
from minibroker.wire.schema import fields_of
from tests.fuzz.world import CONCEPTS, World

UNKNOWN_SERVER_ERROR = -1
UNKNOWN = "UNKNOWN_SERVER_ERROR"
UNSUPPORTED_VERSION = 35
API_VERSIONS = 18


@cache
def apis() -> dict[int, Api]:
    """Every API that the broker serves, by key."""
    return {api.key: api for api in registry.load().apis()}


class Verdict:
    """What is wrong with an answer, None if nothing is, and its content."""

    __slots__ = ("content", "wrong")

    def __init__(self, wrong: str | None, content: Any = None) -> None:
        self.wrong = wrong
        self.content = content


def judge(api_key: int, version: int, frame: memoryview, world: World, chance: Random) -> Verdict:
    """Decode an answer and look for UNKNOWN_SERVER_ERROR; learn ids from it."""
    api = apis()[api_key]
    if api_key == API_VERSIONS and not api.serves(version):
        version = 0
    flexible = api.flexible(version)
    try:
        _, position = decode_response_header(frame, response_header_version(api, version))
        content = compiled.decode_all(api.Response, frame, position, version, flexible)
    except WireError as error:
        return Verdict(f"the answer does not decode: {error}")
    visit = _visitor(api.Response)
    codes: list[int] = []
    if visit is not None:
        visit(content, codes, world, chance)
    return Verdict(UNKNOWN if UNKNOWN_SERVER_ERROR in codes else None, content)


Visit = Callable[[Any, list[int], World, Random], None]


_visitors: dict[type[Any], Visit | None] = {}


def _visitor(struct_type: type[Any]) -> Visit | None:
    if struct_type not in _visitors:
        _visitors[struct_type] = _visitor_of(struct_type)
    return _visitors[struct_type]


def _visitor_of(struct_type: type[Any]) -> Visit | None:
    """A function that collects the error codes in a struct and what is below it; None where there is nothing to find."""
    fields = fields_of(struct_type)
    codes = [field.name for field in fields if field.name.endswith("error_code") and field.kind == "int16"]
    concepts = [
        (field.name, CONCEPTS[field.name]) for field in fields if field.name in CONCEPTS and not field.is_array and not field.struct
    ]
    visited = [(field.name, field.is_array, visit) for field in fields if field.struct is not None and (visit := _visitor(field.struct))]
    if not (codes or concepts or visited):
        return None

    def visit_all(value: Any, found: list[int], world: World, chance: Random) -> None:
        found += [getattr(value, name) for name in codes]
        for name, concept in concepts:
            content = getattr(value, name)
            if content is not None:
                world.learn(concept, content, chance)
        for name, is_array, visit in visited:
            below = getattr(value, name)
            for content in (below or ()) if is_array else () if below is None else (below,):
                visit(content, found, world, chance)

    return visit_all
