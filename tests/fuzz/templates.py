"""Valid requests to mutate, for each API and version that is served: golden frames of real clients, and ones that chance draws."""

from __future__ import annotations

import struct
from collections import defaultdict
from random import Random
from typing import NamedTuple

from minibroker.wire import compiled
from minibroker.wire.api import Api
from minibroker.wire.header import RequestHeader, encode_request_header, request_header_version
from minibroker.wire.primitives import EncodeError
from tests.fuzz.answers import apis
from tests.fuzz.layout import Layout, layout_of
from tests.fuzz.values import request_of
from tests.fuzz.world import World
from tests.golden import all_golden

_CLIENT_ID = "fuzz"
_DRAWN_PER_VERSION = 6  #: kept at a time; they are replaced one after another
_RENEWED = 0.25  #: how often a drawn request is replaced by a new one when it is used


class Template(NamedTuple):
    """A valid request: its frame without the size, and where its fields are."""

    frame: bytes
    layout: Layout


def encoded(api: Api, version: int, request: object, correlation_id: int = 0) -> tuple[bytes, int]:
    """A frame without its size, and the position of its body."""
    header = RequestHeader(api_key=api.key, api_version=version, correlation_id=correlation_id, client_id=_CLIENT_ID)
    head = encode_request_header(header, request_header_version(api, version))
    body = compiled.encoder(api.Request, version, api.flexible(version))(request)
    return head + b"".join(body), len(head)


def with_correlation_id(frame: bytes, correlation_id: int) -> bytes:
    """The frame, to be recognized by its answer."""
    return frame[:4] + struct.pack(">i", correlation_id) + frame[8:] if len(frame) >= 8 else frame


class Templates:
    """The store of them; each API and version is equally likely."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kinds = [(api, version) for api in apis().values() for version in range(api.min_version, api.max_version + 1)]
        self._golden: dict[tuple[int, int], list[Template]] = defaultdict(list)
        self._drawn: dict[tuple[int, int], list[Template]] = defaultdict(list)
        for each in all_golden().values():
            api = apis().get(each.api_key)
            if each.direction == "request" and api is not None and api.serves(each.version):
                layout = layout_of(api.Request, each.frame, each.header_size, each.version, flexible=each.flexible)
                self._golden[each.api_key, each.version].append(Template(each.frame, layout))

    def one(self, chance: Random) -> Template:
        """A valid request."""
        api, version = self._kinds[chance.randrange(len(self._kinds))]
        golden = self._golden[api.key, version]
        if golden and chance.random() < 0.3:
            return golden[chance.randrange(len(golden))]
        drawn = self._drawn[api.key, version]
        if len(drawn) < _DRAWN_PER_VERSION:
            drawn.append(self._draw(api, version, chance))
            return drawn[-1]
        place = chance.randrange(_DRAWN_PER_VERSION)
        if chance.random() < _RENEWED:
            drawn[place] = self._draw(api, version, chance)
        return drawn[place]

    def _draw(self, api: Api, version: int, chance: Random) -> Template:
        for _ in range(10):
            request = request_of(api.Request, api.key, version, self._world, chance)
            try:
                frame, position = encoded(api, version, request)
            except EncodeError:  # a value that this version cannot carry
                continue
            return Template(frame, layout_of(api.Request, frame, position, version, flexible=api.flexible(version)))
        raise AssertionError(f"{api} {version}: nothing that was drawn can be encoded")
