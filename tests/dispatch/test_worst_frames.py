"""No turn of the loop does much for the frame of each API that costs the most for its size. Work is counted in calls of functions.

What such frames take in memory is bounded by tests/wire/test_compiled.py.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from minibroker.dispatch.dispatcher import InFlight
from minibroker.errors import WireError
from minibroker.wire.api import api_of
from minibroker.wire.compiled import sliced_decoder
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.turns import shortest_slices, turn
from tests.support.worst_frames import distinct, schemas, worst_frames

SIZE = 80_000  #: more than what is decoded at once
CALLS_MAX = 130_000  #: in one turn: about 20 ms of work

#: the ones that clients send most, and those that took seconds for 2 MB; all others: tests/dispatch/test_pieces.py
APIS = (0, 1, 2, 3, 8, 9, 10, 16, 19, 20, 23, 32, 33, 35, 44, 48, 49, 51, 57, 68, 76, 88)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInMemory]:
    logging.disable(logging.ERROR)
    broker = BrokerInMemory(topics={"0": 3, "orders": 4}, config={"auto.create.topics.enable": "false"})
    shortest_slices(broker)
    yield broker
    logging.disable(logging.NOTSET)
    broker.cluster.close(clean=False)


def calls_in(work: Callable[[], object]) -> int:
    """How many functions `work` calls."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        if event in {"call", "c_call"}:
            count += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def most_calls(broker: BrokerInMemory, frame: bytes) -> int:
    """Serve a frame to its end; the most functions that were called in one turn."""
    answers: list[Any] = []

    def begin() -> None:
        try:
            answers.append(broker.dispatcher.dispatch(broker.connection, memoryview(bytearray(frame))))
        except WireError:
            answers.append(None)

    most = calls_in(begin)
    answer = answers[0]
    while isinstance(answer, InFlight) and not answer.is_done and len(broker.services.slices):
        most = max(most, calls_in(lambda: turn(broker)))
    if isinstance(answer, InFlight):
        answer.cancel()
    return most


@pytest.mark.parametrize("key", APIS)
def test_a_frame_of_tiny_elements(broker: BrokerInMemory, key: int) -> None:
    schema = schemas[key]
    version = schema.VERSIONS[1]
    for small, frame in zip(worst_frames(schema, version, 100), worst_frames(schema, version, SIZE, distinct()), strict=True):
        most_calls(broker, small)  # what is compiled and imported once
        sliced_decoder(schema.Request, version, api_of(schema).flexible(version))
        assert most_calls(broker, frame) <= CALLS_MAX
