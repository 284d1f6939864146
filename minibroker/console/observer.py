"""What the console remembers of requests: the last ones with their bodies, and what each client did. The meter counts them (metrics/).

A RecordingDispatcher (testing/recording.py) calls an Observer for each request. Without a console there is none.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from minibroker.console.bodies import body_of
from minibroker.console.group_events import GroupEvents
from minibroker.dispatch.context import ConnectionInfo, RequestContext
from minibroker.testing.request_log import LoggedRequest

KEPT: Final = 2_000  #: requests
BODIES_PER_SECOND: Final = 50  #: more are served without a note of what they contain
_APIS_KEPT: Final = 100  #: of one client


class SeenRequest:
    """One request, its answer, and their bodies."""

    __slots__ = ("body", "connection", "entry", "number", "response", "response_size", "size", "waits_for")

    def __init__(self, number: int, entry: LoggedRequest, connection: ConnectionInfo, size: int) -> None:
        self.number = number
        self.entry = entry
        self.connection = connection
        self.size = size
        self.body: Any = None  #: JSON; None: not kept
        self.response: Any = None
        self.response_size = 0
        self.waits_for: dict[str, Any] = {}  #: of a Fetch and its like: how long, and for how many bytes


class ClientActivity:
    """What one connection did so far."""

    __slots__ = ("apis", "client_id", "error_count", "first_ms", "last", "number", "received", "request_count", "sent")

    def __init__(self, number: int, now_ms: int) -> None:
        self.number = number  #: of the connection, for the address of its page
        self.first_ms = now_ms
        self.client_id: str | None = None
        self.apis: dict[str, list[int]] = {}  #: by name: the version used last, and how often
        self.last: SeenRequest | None = None
        self.request_count = self.error_count = self.received = self.sent = 0


class Observer:
    """Remembers requests. Everything runs on the loop's thread."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self.requests: deque[SeenRequest] = deque(maxlen=KEPT)
        self.clients: dict[ConnectionInfo, ClientActivity] = {}
        self.group_events = GroupEvents()
        self.count = 0  #: all requests so far
        self._connection_count = 0
        self._second = 0
        self._bodies = 0

    def began(self, entry: LoggedRequest, ctx: RequestContext, request: Any) -> SeenRequest:
        """Note a request before it is served."""
        self.count += 1
        seen = SeenRequest(self.count, entry, ctx.connection, ctx.request_size)
        self.requests.append(seen)
        client = self._client(ctx.connection, entry.time_ms)
        client.client_id = entry.client_id
        client.last = seen
        client.request_count += 1
        client.received += ctx.request_size
        if entry.api in client.apis or len(client.apis) < _APIS_KEPT:
            uses = client.apis.setdefault(entry.api, [entry.version, 0])
            uses[0] = entry.version
            uses[1] += 1
        self.group_events.began(ctx.broker, entry)
        if self._has_room_for_body():
            seen.body = body_of(request)
        return seen

    def waits(self, seen: SeenRequest, request: Any) -> None:
        """Note that a request has to wait, and for what."""
        self.group_events.served()
        if not seen.waits_for:
            names = ("max_wait_ms", "min_bytes", "session_id", "rebalance_timeout_ms", "timeout_ms")
            seen.waits_for = {name: value for name in names if isinstance(value := getattr(request, name, None), int)}

    def answered(self, seen: SeenRequest, response: Any, size: int, _ctx: RequestContext) -> None:
        """Note the answer."""
        self.group_events.served()
        seen.response_size = size
        client = self.clients.get(seen.connection)
        if client is not None:
            client.sent += size
        if seen.entry.errors:
            self.group_events.failed(seen.entry)
            if client is not None:
                client.error_count += 1
        if seen.body is not None:
            seen.response = body_of(response)

    def find(self, number: int) -> SeenRequest | None:
        """Return a request by its number, if it is still kept."""
        if not self.requests:
            return None
        index = number - self.requests[0].number
        return self.requests[index] if 0 <= index < len(self.requests) else None

    def latest(self, since: int = 0) -> Iterator[SeenRequest]:
        """Yield the kept requests with numbers above `since`, newest first."""
        for seen in reversed(self.requests):
            if seen.number <= since:
                return
            yield seen

    def errors(self, min_time_ms: int, without: str = "") -> Iterator[SeenRequest]:
        """Yield the requests that were answered with an error other than `without`, newest first."""
        return (each for each in self.latest() if each.entry.errors not in {(), (without,)} and each.entry.time_ms >= min_time_ms)

    def _client(self, connection: ConnectionInfo, now_ms: int) -> ClientActivity:
        client = self.clients.get(connection)
        if client is None:
            self._connection_count += 1
            client = self.clients[connection] = ClientActivity(self._connection_count, now_ms)
            connection.when_closed(partial(self._forget, connection))
        return client

    def _forget(self, connection: ConnectionInfo) -> None:
        self.clients.pop(connection, None)

    def _has_room_for_body(self) -> bool:
        second = int(self._now_s())
        if second != self._second:
            self._second, self._bodies = second, 0
        self._bodies += 1
        return self._bodies <= BODIES_PER_SECOND
