"""The APIs that the broker serves, and their handlers.

The files kNN_*.py of `minibroker.handlers` and its packages define the list: an API without a file
is not served. ApiVersions, the documentation and the CLI read the facts about an API from the
schema of the same name. A handler's module is imported at the first request for its key, and
registers itself with `@handles(schema)`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final, TypeVar

from minibroker.dispatch.pieces import ElementLimit, Pieces
from minibroker.errors import KafkaError
from minibroker.wire.api import Api, api_of

Handle = Callable[[Any, Any], Any]  #: (RequestContext, Request) -> Response | Delayed | NoResponse
OnError = Callable[[Any, Any, KafkaError], Any]  #: (RequestContext, Request, error) -> Response | NoResponse
H = TypeVar("H", bound=Handle)

_HANDLER_FILE: Final = re.compile(r"k\d\d_\w+\.py").fullmatch


class Handler:
    """The function that serves one API key, with the declarations of `@handles`."""

    __slots__ = ("api", "handle", "has_long_answer", "limit", "module", "pieces")

    def __init__(
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
        self.pieces = pieces  #: how large requests are cut; the first whose array a version has applies
        self.limit = limit
        self.has_long_answer = has_long_answer  #: its answer is encoded in slices
        self.module: str = module or handle.__module__

    def around(self, handle: Handle) -> Handler:
        """Return a handler of the same API with another function, and with the same error responses."""
        return Handler(self.api, handle, self.module, self.pieces, self.limit, has_long_answer=self.has_long_answer)

    @property
    def on_error(self) -> OnError | None:
        """The module's function that creates an error response; None if error_answer.py creates it."""
        return getattr(sys.modules[self.module], "on_error", None)


class Registry:
    """The APIs of a broker by key, and their handlers, each of which is looked up at its first request."""

    def __init__(self, apis: Iterable[Api] = (), find: Callable[[int], Handler | None] = lambda _: None) -> None:
        self._apis = {api.key: api for api in apis}
        self._find = find  #: returns the handler of a key in `apis`
        self._handlers: dict[int, Handler] = {}

    def add(self, handler: Handler) -> None:
        """Add a handler.

        Raises:
            RuntimeError: Another module handles this key.
        """
        taken = self._handlers.get(handler.api.key)
        if taken is not None and taken.module != handler.module:
            raise RuntimeError(f"API key {handler.api.key} is handled by {taken.module} and by {handler.module}")
        self._apis[handler.api.key] = handler.api
        self._handlers[handler.api.key] = handler

    def api(self, api_key: int) -> Api | None:
        """Return the API of a key; None if it is not supported."""
        return self._apis.get(api_key)

    def get(self, api_key: int) -> Handler | None:
        """Return the handler of a key, and import it at first use; None if the key is not supported."""
        handler = self._handlers.get(api_key)
        if handler is None and api_key in self._apis:
            handler = self._find(api_key)
            if handler is not None:
                self._handlers[api_key] = handler
        return handler

    def __iter__(self) -> Iterator[Handler]:
        """Import and yield all handlers, by key."""
        return (handler for api in self.apis() if (handler := self.get(api.key)) is not None)

    def apis(self) -> list[Api]:
        """Return the APIs, sorted by key."""
        return [self._apis[key] for key in sorted(self._apis)]


_DECLARED: Final = Registry()  #: the handlers of the modules imported so far


def handles(schema: ModuleType, *pieces: Pieces, limit: ElementLimit | None = None, has_long_answer: bool = False) -> Callable[[H], H]:
    """Register the decorated function for the API that `schema` declares, in every version that `schema.VERSIONS` names.

    Args:
        schema: The module of the API in minibroker/schemas.
        pieces: How large requests are cut; several values if versions have different arrays.
        limit: The most elements of a request that cannot be cut; larger ones are rejected.
        has_long_answer: The answer may be long though the request is short (dispatch/plan.py).
    """

    def register(handle: H) -> H:
        _DECLARED.add(Handler(api_of(schema), handle, pieces=pieces, limit=limit, has_long_answer=has_long_answer))
        return handle

    return register


@cache
def load() -> Registry:
    """Return the registry of all handlers in `minibroker.handlers`. Imports their schemas.

    Raises:
        RuntimeError: Two files handle the same key.
    """
    apis: dict[int, Api] = {}
    modules: dict[int, str] = {}
    for module in _handler_modules():
        api = api_of(import_module(f"minibroker.schemas.{module.rpartition('.')[2]}"))
        if api.key in modules:
            raise RuntimeError(f"API key {api.key} is handled by {modules[api.key]} and by {module}")
        apis[api.key], modules[api.key] = api, module

    def find(api_key: int) -> Handler | None:
        import_module(modules[api_key])
        return _DECLARED.get(api_key)

    return Registry(apis.values(), find)


def _handler_modules() -> Iterator[str]:
    """Yield the names of the modules kNN_* in `minibroker.handlers` and in its packages, which are not imported."""
    root = import_module("minibroker.handlers")
    folders = [(folder, root.__name__) for folder in root.__path__]
    for folder, package in folders:
        for entry in os.scandir(folder):  # pkgutil would import `inspect`: a tenth of the time to start
            if _HANDLER_FILE(entry.name):
                yield f"{package}.{entry.name[:-3]}"
            elif entry.is_dir() and not entry.name.startswith("_"):
                folders.append((entry.path, f"{package}.{entry.name}"))
