"""The life of an order: which events move it where. Knows nothing of Kafka."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

#: By event: the states in which it may come, and the state it leads to.
MOVES: Final[dict[str, tuple[set[str | None], str]]] = {
    "placed": ({None}, "open"),
    "paid": ({"open"}, "paid"),
    "shipped": ({"paid"}, "shipped"),
    "cancelled": ({"open", "paid"}, "cancelled"),
}


class EventError(Exception):
    """An event that says nothing; one line says why."""


@dataclass(frozen=True)
class Event:
    """What happened to an order; `number` counts the events of one order, from 1."""

    order_id: str
    kind: str
    number: int


@dataclass(frozen=True)
class Status:
    """Where an order is."""

    order_id: str
    state: str | None = None
    number: int = 0  #: of the last event that counted
    refused: int = 0  #: events that came when they could not


def read_event(value: bytes | None) -> Event:
    """An event as JSON; EventError says what is wrong with it."""
    try:
        fields = json.loads(value or b"")
        event = Event(str(fields["order_id"]), str(fields["event"]), int(fields["number"]))
    except (ValueError, KeyError, TypeError) as error:
        raise EventError(f"not an event: {type(error).__name__}: {error}") from error
    if event.kind not in MOVES:
        raise EventError(f"there is no event {event.kind!r}: {', '.join(MOVES)}")
    return event


def after(status: Status, event: Event) -> Status:
    """The status behind an event; the same one where the event was counted already, so that it may be delivered twice."""
    if event.number <= status.number:
        return status
    sources, target = MOVES[event.kind]
    if status.state not in sources:
        return replace(status, number=event.number, refused=status.refused + 1)
    return replace(status, number=event.number, state=target)


def to_json(status: Status) -> bytes:
    """As it is kept."""
    return json.dumps(asdict(status)).encode()


def from_json(value: bytes) -> Status:
    """What `to_json` made."""
    return Status(**json.loads(value))
