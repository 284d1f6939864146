"""The log of requests that a test sees: client, API, topics, and the outcome of each."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, Final, overload

ANSWERED: Final = "answered"
WAITING: Final = "waiting"  #: for records, other members or a sync
NOT_ANSWERED: Final = "not answered"  #: the client left or needs no answer (acks=0), or the request closed the connection

_NAMES_SHOWN: Final = 4


@dataclass(slots=True)
class LoggedRequest:
    """One request."""

    time_ms: int  #: epoch milliseconds by the broker's clock when it came
    client_id: str | None
    client_host: str
    api: str  #: "Produce"
    version: int
    topics: tuple[str, ...] = ()  #: named in the request; a Fetch of a session names only changed ones
    group: str | None = None
    transactional_id: str | None = None
    errors: tuple[str, ...] = ()  #: Kafka's names of the error codes in the answer: ("UNKNOWN_TOPIC_OR_PARTITION",)
    outcome: str = WAITING
    duration_ms: float | None = None  #: until the answer; None without one
    faults: tuple[str, ...] = ()  #: of a test that hit it: ("NOT_LEADER_OR_FOLLOWER",), ("delay of 200 ms",)
    node: int | None = None  #: the broker that received it, of several

    def what(self) -> str:
        """Return the request and its outcome without times, as a key for similar requests."""
        words = [f"{self.client_id or '-'}  {self.api} v{self.version}"]
        if self.node is not None:
            words.append(f"at {self.node}")
        if self.topics:
            more = len(self.topics) - _NAMES_SHOWN
            words.append(" ".join(self.topics[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else ""))
        if self.group is not None:
            words.append(f"group={self.group}")
        if self.transactional_id is not None:
            words.append(f"transactional_id={self.transactional_id}")
        if self.errors or self.outcome != ANSWERED:
            words.append("-> " + (", ".join(self.errors) or self.outcome))
        if self.faults:
            words.append(f"[injected: {', '.join(self.faults)}]")
        return "  ".join(words)

    def __str__(self) -> str:
        took = "" if self.duration_ms is None else f"  {self.duration_ms:.1f} ms"
        return f"{_clock_time(self.time_ms)}  {self.what()}{took}"


class RequestLog(Sequence[LoggedRequest]):
    """Requests in order of arrival. `str` has a line for each, and counts similar neighbours."""

    def __init__(self, requests: Iterable[LoggedRequest] = ()) -> None:
        self._requests = tuple(requests)

    @overload
    def __getitem__(self, index: int) -> LoggedRequest: ...
    @overload
    def __getitem__(self, index: slice) -> RequestLog: ...
    def __getitem__(self, index: int | slice) -> LoggedRequest | RequestLog:
        return RequestLog(self._requests[index]) if isinstance(index, slice) else self._requests[index]

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[LoggedRequest]:
        return iter(self._requests)

    def of(
        self,
        api: str | None = None,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        error: str | None = None,
        node: int | None = None,
        injected: bool | None = None,
    ) -> RequestLog:
        """Return the requests that match all arguments: `of("Produce", topic="orders")`, `of(error="NOT_COORDINATOR")`.

        Args:
            api: Kafka's name of the API, such as "Produce".
            topic: a topic that the request names.
            client_id: the `client.id` of the client.
            group: the group that the request names.
            transactional_id: the transactional id that the request names.
            error: Kafka's name of an error in the answer, such as "NOT_COORDINATOR".
            node: the broker that received the request, if there are several.
            injected: True: only requests that a fault of the test hit; False: only the others.

        Returns:
            The matching requests, in order of arrival.
        """
        criteria = {"api": api, "client_id": client_id, "group": group, "transactional_id": transactional_id, "node": node}
        chosen = [(name, value) for name, value in criteria.items() if value is not None]
        return RequestLog(
            each
            for each in self._requests
            if all(getattr(each, name) == value for name, value in chosen)
            and (topic is None or topic in each.topics)
            and (error is None or error in each.errors)
            and (injected is None or injected == bool(each.faults))
        )

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, most: int | None = None) -> list[str]:
        """Return a line for each run of similar requests; `most` limits them to the last ones."""
        lines = []
        for _, run in groupby(self._requests, LoggedRequest.what):
            first, *others = run
            lines.append(f"{first}  (and {len(others)} more like this)" if others else str(first))
        if most is None or len(lines) <= most:
            return lines
        return [f"... {len(lines) - most} lines before", *lines[-most:]]

    def __repr__(self) -> str:
        return f"<RequestLog of {len(self)} requests>"


def _clock_time(time_ms: int) -> str:
    seconds, milliseconds = divmod(time_ms, 1000)
    return f"{time.strftime('%H:%M:%S', time.localtime(seconds))}.{milliseconds:03d}"


COLUMNS: Final = tuple(each.name for each in fields(LoggedRequest))  #: of a row


def to_json(log: RequestLog) -> list[list[Any]]:
    """Encode a log as JSON: a row for each request."""
    return [[getattr(each, name) for name in COLUMNS] for each in log]


def from_json(rows: Iterable[Sequence[Any]]) -> RequestLog:
    """Decode what `to_json` encoded."""
    return RequestLog(_request(row) for row in rows)


def _request(row: Sequence[Any]) -> LoggedRequest:
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
    return LoggedRequest(*values)
