"""Streams of server-sent events: one for each open page that follows changes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

STREAMS_MAX: Final = 64  #: of all visitors
_COMMENT_S: Final = 10.0  #: so long without an event, and a comment is sent: a closed connection is noticed


class Stream:
    """One open stream."""

    def __init__(self, response: web.StreamResponse, streams: Streams) -> None:
        self.response = response
        self._streams = streams
        self._sent_s = time.monotonic()

    async def send(self, event: str, data: Any, event_id: str = "") -> None:
        """Send an event. ConnectionError: the visitor is gone. A slow one is waited for."""
        head = f"id: {event_id}\n" if event_id else ""
        await self.response.write(f"{head}event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode())
        self._sent_s = time.monotonic()

    async def pause(self, seconds: float) -> None:
        """Wait, and keep the connection alive."""
        await asyncio.sleep(seconds)
        if time.monotonic() - self._sent_s >= _COMMENT_S:
            await self.response.write(b": still here\n\n")
            self._sent_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self._streams.count -= 1
        return isinstance(error, ConnectionError)


class Streams:
    """All open streams."""

    def __init__(self) -> None:
        self.count = 0

    async def open(self, request: web.Request, headers: Mapping[str, str]) -> Stream:
        """Begin a stream. HTTPServiceUnavailable: there are too many."""
        if self.count >= STREAMS_MAX:
            raise web.HTTPServiceUnavailable(reason=f"{STREAMS_MAX} pages are open already")
        response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
        self.count += 1
        try:
            await response.prepare(request)
            await response.write(b"retry: 1000\n\n")
        except BaseException:
            self.count -= 1
            raise
        return Stream(response, self)
