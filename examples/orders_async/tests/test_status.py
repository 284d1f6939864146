from __future__ import annotations

import pytest

from orders_async.status import Event, EventError, Status, after, from_json, read_event, to_json


def through(*kinds: str) -> Status:
    status = Status("o1")
    for number, kind in enumerate(kinds, 1):
        status = after(status, Event("o1", kind, number))
    return status


@pytest.mark.parametrize(
    "kinds, state, refused",
    [
        (["placed"], "open", 0),
        (["placed", "paid", "shipped"], "shipped", 0),
        (["placed", "cancelled"], "cancelled", 0),
        (["placed", "shipped"], "open", 1),
        (["placed", "paid", "shipped", "cancelled"], "shipped", 1),
        (["paid", "placed"], "open", 1),
    ],
)
def test_events_move_an_order(kinds: list[str], state: str, refused: int) -> None:
    assert through(*kinds) == Status("o1", state, len(kinds), refused)


def test_an_event_counts_once() -> None:
    status = through("placed", "shipped")
    assert after(status, Event("o1", "shipped", 2)) is status


def test_a_status_is_kept_as_it_is() -> None:
    status = through("placed", "paid")
    assert from_json(to_json(status)) == status


@pytest.mark.parametrize(
    "value, reason",
    [
        (None, "not an event: JSONDecodeError"),
        (b'{"order_id": "o1", "event": "paid"}', "not an event: KeyError: 'number'"),
        (b'{"order_id": "o1", "event": "lost", "number": 1}', "there is no event 'lost': placed, paid, shipped, cancelled"),
    ],
)
def test_what_is_no_event_is_told(value: bytes | None, reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        read_event(value)
