"""The model of exactly once complains of each history that is none, and of no other one; a schedule is drawn from its seed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.clients.transactional import Place
from tests.support.fault_model import NO_OFFSET, Model, Outcome, Sent, Transaction
from tests.support.fault_schedule import Shape, draw
from tests.support.faulted_readers import Readings

HERE, THERE = Place("orders", 0), Place("orders", 1)
Rows = Mapping[Place, Sequence[tuple[int, str]]]


def history() -> Model:
    """Two records of one producer and one of the next, whose answer is not known; a transaction of each outcome."""
    records = [Sent(HERE, "a", 1, 0), Sent(HERE, "b", 1, NO_OFFSET), Sent(HERE, "c", 2)]
    transactions = [
        Transaction(Outcome.COMMITTED, [Sent(HERE, "d", 1), Sent(THERE, "e", 1)], "group-d", 5),
        Transaction(Outcome.ABORTED, [Sent(THERE, "f", 1)], "group-f", 6),
        Transaction(Outcome.UNKNOWN, [Sent(THERE, "g", 1), Sent(THERE, "h", 1)], "group-g", 7),
    ]
    return Model("make", records, transactions)


GOOD: Rows = {HERE: [(0, "a"), (1, "b"), (3, "d")], THERE: [(0, "e")]}
COMMITTED = {"group-d": 5}


@pytest.mark.parametrize(
    ("rows", "committed"),
    [
        (GOOD, COMMITTED),
        ({HERE: [*GOOD[HERE], (9, "c")], THERE: GOOD[THERE]}, COMMITTED),
        ({HERE: GOOD[HERE], THERE: [*GOOD[THERE], (5, "g"), (6, "h")]}, COMMITTED | {"group-g": 7}),
    ],
)
def test_allowed_histories(rows: Rows, committed: Mapping[str, int]) -> None:
    assert history().complaints(rows, committed) == []


@pytest.mark.parametrize(
    ("rows", "committed", "said"),
    [
        ({HERE: [(1, "b"), (3, "d")], THERE: GOOD[THERE]}, COMMITTED, "make: a is lost"),
        ({HERE: [(1, "a"), (2, "b"), (3, "d")], THERE: GOOD[THERE]}, COMMITTED, "make: a is at offset 1"),
        ({HERE: [*GOOD[HERE], (4, "b")], THERE: GOOD[THERE]}, COMMITTED, "make: b is there 2 times"),
        ({HERE: [*GOOD[HERE], (4, "x")], THERE: GOOD[THERE]}, COMMITTED, "make: x was never sent"),
        ({HERE: [(0, "a"), (3, "d")], THERE: [(0, "e"), (1, "b")]}, COMMITTED, "make: b is in"),
        ({HERE: [(0, "a"), (-1, "b"), (3, "d")], THERE: GOOD[THERE]}, COMMITTED, "make: b is at offset -1"),
        ({HERE: GOOD[HERE]}, COMMITTED, "make: of a committed transaction 1 of 2"),
        ({HERE: GOOD[HERE], THERE: [(0, "e"), (1, "f")]}, COMMITTED | {"group-f": 6}, "make: of an aborted transaction 1 of 1"),
        ({HERE: GOOD[HERE], THERE: [(0, "e"), (1, "g")]}, COMMITTED | {"group-g": 7}, "make: of a transaction 1 of 2"),
        ({HERE: GOOD[HERE], THERE: [(0, "e"), (2, "g"), (1, "h")]}, COMMITTED | {"group-g": 7}, "make: h is at offset 1"),
        (GOOD, {}, "make: the offset of group-d is None, and 5"),
        (GOOD, COMMITTED | {"group-f": 6}, "make: the offset of group-f is 6, and None"),
    ],
)
def test_forbidden_histories(rows: Rows, committed: Mapping[str, int], said: str) -> None:
    complaints = history().complaints(rows, committed)
    assert len([each for each in complaints if each.startswith(said)]) == 1, complaints


def test_rereading_committed_records_is_a_complaint() -> None:
    found = Readings()
    found.note([(HERE, 0, "a"), (HERE, 1, "b")])
    found.note([(HERE, 0, "a")])
    found.keep(HERE, 2)
    assert found.complaints({HERE: 2}) == []
    assert found.complaints({}) == [f"committed 2 of {HERE} and read up to 1: the group has None"]
    assert len(found.complaints({HERE: 3})) == 1
    found.note([(HERE, 2, "c")])
    assert found.complaints({HERE: 3}) == [], "the answer to that commit was lost"
    found.note([(HERE, 1, "b")])
    assert found.complaints({HERE: 2}) == [f"read again what was committed before: {[(HERE, 1, 'b')]}"]


def test_a_seed_draws_the_same_schedule_again() -> None:
    shape = Shape(["aiokafka", "java"], {"orders": 2}, units=5, nodes=3)
    assert draw(1, shape) == draw(1, shape)
    assert draw(1, shape) != draw(2, shape)
