"""No turn of the loop does much for the frame of each API that costs the most for its size. Work is counted in calls of functions.

What such frames take in memory is bounded by tests/wire/test_compiled.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from minibroker.wire.api import api_of
from minibroker.wire.compiled import sliced_decoder
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.turns import most_calls, shortest_slices
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


@pytest.mark.parametrize("key", APIS)
def test_a_frame_of_tiny_elements(broker: BrokerInMemory, key: int) -> None:
    schema = schemas[key]
    version = schema.VERSIONS[1]
    for small, frame in zip(worst_frames(schema, version, 100), worst_frames(schema, version, SIZE, distinct()), strict=True):
        most_calls(broker, small)  # what is compiled and imported once
        sliced_decoder(schema.Request, version, api_of(schema).flexible(version))
        assert most_calls(broker, frame) <= CALLS_MAX
