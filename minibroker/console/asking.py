"""Requests of the console to the broker's own handlers, without a socket, with the rights of a visitor.

A request takes the way of a client's, from the authorizer on. Faults of the lab and the simulation of several brokers do not apply to it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final

from minibroker.console.visitor import Visitor
from minibroker.dispatch import registry
from minibroker.dispatch.context import RequestContext, Services
from minibroker.dispatch.delayed import NO_RESPONSE, Delayed
from minibroker.dispatch.registry import Handler
from minibroker.errors import BY_CODE, KafkaError, UnknownServerError
from minibroker.wire.api import api_of

CLIENT_ID: Final = "minibroker-console"
TIMEOUT_S: Final = 30.0


async def ask(services: Services, visitor: Visitor, request: Any, version: int | None = None) -> Any:
    """Return the response to a request, a struct of `minibroker/schemas`, by default in its newest version.

    Raises:
        KafkaError: the request failed as a whole.
        TimeoutError: there is no answer within TIMEOUT_S.
    """
    api = api_of(sys.modules[type(request).__module__])
    handler = _handler(services, api.key)
    ctx = RequestContext(services, visitor.connection, api.max_version if version is None else version, 0, CLIENT_ID)
    result = handler.handle(ctx, request)
    if not isinstance(result, Delayed):
        return result
    return await _answer_of(result)


def check(error_code: int, message: str | None = None) -> None:
    """Raise the KafkaError of a code in a response, unless it is 0."""
    if error_code:
        raise BY_CODE.get(error_code, UnknownServerError)(message) if message else BY_CODE.get(error_code, UnknownServerError)()


def name_of(error_code: int) -> str | None:
    """Return Kafka's name of an error code; None for 0."""
    if not error_code:
        return None
    return BY_CODE[error_code].name if error_code in BY_CODE else str(error_code)


def _handler(services: Services, api_key: int) -> Handler:
    handler = registry.load().get(api_key)
    if handler is None:
        raise LookupError(f"the broker has no handler for API key {api_key}")
    if services.authorizer is not None:
        from minibroker.dispatch.authorization.enforcement import authorized  # noqa: PLC0415  most brokers have no authorizer

        return authorized(handler)
    return handler


async def _answer_of(delayed: Delayed) -> Any:
    """Wait for the response of a handler. A visitor that leaves cancels the request."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def serve(work: Callable[[], Any]) -> list[Any] | None:
        try:
            response = work()
        except KafkaError as error:
            if not future.done():
                future.set_exception(error.with_traceback(None))
            return []
        if response is None or isinstance(response, Delayed):
            return None
        if not future.done():
            future.set_result(None if response is NO_RESPONSE else response)
        return []

    delayed.bind(serve, lambda: "a request of the console")
    try:
        return await asyncio.wait_for(future, TIMEOUT_S)
    finally:
        delayed.cancel()
