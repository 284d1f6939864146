"""Streams of server-sent events: one for each open page that follows changes."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

STREAMS_MAX: Final = 64  #: of all visitors
VISITOR_MAX: Final = 16  #: of one visitor; a browser opens six connections at most
_COMMENT_S: Final = 10.0  #: so long without an event, and a comment is sent: a closed connection is noticed


class Stream:
    """One open stream."""

    def __init__(self, request: web.Request, response: web.StreamResponse, streams: Streams, visitor: str) -> None:
        self.response = response
        self._request = request
        self._streams = streams
        self._visitor = visitor
        self._sent_s = time.monotonic()

    async def send(self, event: str, data: Any, event_id: str = "") -> None:
        """Send an event. ConnectionError: the visitor is gone. A slow one is waited for."""
        head = f"id: {event_id}\n" if event_id else ""
        await self.response.write(f"{head}event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode())
        self._sent_s = time.monotonic()

    async def pause(self, seconds: float) -> None:
        """Wait, and keep the connection alive. Raises ConnectionError: the visitor is gone."""
        await asyncio.sleep(seconds)
        if self._request.transport is None:  # a write would notice it later, and pages that were left would count as open
            raise ConnectionResetError
        if time.monotonic() - self._sent_s >= _COMMENT_S:
            await self.response.write(b": still here\n\n")
            self._sent_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self._streams.close(self._visitor)
        return isinstance(error, ConnectionError)


class TooManyStreamsError(RuntimeError):
    """No further stream can be opened. The message is for the visitor."""


class Streams:
    """All open streams."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()  #: by visitor; a visitor without a stream has no entry

    async def open(self, request: web.Request, headers: Mapping[str, str], visitor: str) -> Stream:
        """Open a stream for a visitor. Raises TooManyStreamsError."""
        if self._counts[visitor] >= VISITOR_MAX:
            raise TooManyStreamsError(f"{visitor} has {VISITOR_MAX} open pages that follow changes, the limit for one visitor: close some")
        if self._counts.total() >= STREAMS_MAX:
            raise TooManyStreamsError(f"all visitors together have {STREAMS_MAX} open pages that follow changes, the limit of this console")
        response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
        self._counts[visitor] += 1
        try:
            await response.prepare(request)
            await response.write(b"retry: 1000\n\n")
        except BaseException:
            self.close(visitor)
            raise
        return Stream(request, response, self, visitor)

    def close(self, visitor: str) -> None:
        """Forget a stream of a visitor."""
        self._counts[visitor] -= 1
        if not self._counts[visitor]:
            del self._counts[visitor]
