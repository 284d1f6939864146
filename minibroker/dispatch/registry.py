"""Which handler serves which API key: read from the folder `minibroker.handlers`, one file a key.

A handler's module registers itself with `@handles(schema)`. ApiVersions, the dispatcher and the documentation read the
same table; an API without a file is not supported, and says so by being absent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from minibroker.dispatch.element_limit import ElementLimit
from minibroker.dispatch.pieces import Pieces
from minibroker.errors import KafkaError
from minibroker.wire.api import Api, api_of

Handle = Callable[[Any, Any], Any]  #: (RequestContext, Request) -> Response | Delayed | NoResponse
OnError = Callable[[Any, Any, KafkaError], Any]  #: (RequestContext, Request, error) -> Response | NoResponse
H = TypeVar("H", bound=Handle)


class Handler:
    """One API key as the broker serves it."""

    __slots__ = ("api", "handle", "has_long_answer", "limit", "module", "pieces")

    def __init__(  # each argument after the first two is named by those who give it
        self,
        api: Api,
        handle: Handle,
        module: str | None = None,
        pieces: Sequence[Pieces] = (),
        limit: ElementLimit | None = None,
        *,
        has_long_answer: bool = False,
    ) -> None:
        self.api = api
        self.handle = handle
        self.pieces = pieces  #: how large requests are cut, by the first that a version has
        self.limit = limit
        self.has_long_answer = has_long_answer  #: its answer is encoded in slices
        self.module: str = module or handle.__module__

    def around(self, handle: Handle) -> Handler:
        """The same API by another function, with this module's shape of errors."""
        return Handler(self.api, handle, self.module, self.pieces, self.limit, has_long_answer=self.has_long_answer)

    @property
    def on_error(self) -> OnError | None:
        """The module's own shape of errors, where the generic answer will not do."""
        return getattr(sys.modules[self.module], "on_error", None)


class Registry:
    """API key -> Handler, in the order of the keys."""

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}

    def add(self, handler: Handler) -> None:
        """Enter one handler; a key that is taken is a mistake of ours.

        Raises:
            RuntimeError: another module handles this key.
        """
        taken = self._handlers.get(handler.api.key)
        if taken is not None and taken.module != handler.module:
            raise RuntimeError(f"API key {handler.api.key} is handled by {taken.module} and by {handler.module}")
        self._handlers[handler.api.key] = handler

    def get(self, api_key: int) -> Handler | None:
        """The handler of a key, None when it is not supported."""
        return self._handlers.get(api_key)

    def __iter__(self) -> Iterator[Handler]:
        """All handlers, by key."""
        return iter([self._handlers[key] for key in sorted(self._handlers)])

    def apis(self) -> list[Api]:
        """What is served, by key."""
        return [self._handlers[key].api for key in sorted(self._handlers)]


_REGISTRY = Registry()


def handles(schema: ModuleType, *pieces: Pieces, limit: ElementLimit | None = None, has_long_answer: bool = False) -> Callable[[H], H]:
    """Register the decorated function for the API that `schema` declares, in every version that `schema.VERSIONS` names.

    `pieces` say how large requests are cut; several of them where versions have different arrays. `limit` is for requests that cannot be
    cut: those of more elements are refused. `has_long_answer`: the answer may be long though the request is short (long_answers.py).
    """

    def register(handle: H) -> H:
        _REGISTRY.add(Handler(api_of(schema), handle, pieces=pieces, limit=limit, has_long_answer=has_long_answer))
        return handle

    return register


def load() -> Registry:
    """Import every module of `minibroker.handlers` (file-name order) and return the registry they make."""
    package = import_module("minibroker.handlers")
    # pkgutil would do this too, and import `inspect` for it: a tenth of the time to start.
    stems = {name.removesuffix(".py") for folder in package.__path__ for name in os.listdir(folder) if name.endswith(".py")}  # noqa: PTH208
    for stem in sorted(stems - {"__init__"}):
        import_module(f"{package.__name__}.{stem}")
    return _REGISTRY
