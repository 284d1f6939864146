"""Partitions without a leader: the error names them, and comes before the time-out of a command."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.client import transport
from minibroker.client.client import Client
from minibroker.client.errors import TimedOut, describe
from minibroker.client.offsets import LATEST, Bounds, FoundOffset, bounds, list_offsets
from minibroker.client.routing import ELECTION_MS
from minibroker.errors import LeaderNotAvailable
from minibroker.schemas import k02_list_offsets, k03_metadata
from minibroker.wire.schema import replace
from tests.client.fake_broker import FakeBroker


class Time:
    """Replaces the module `time`: a sleep only advances the clock."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(transport, "time", made)
    return made


def broker_without_leader(elected_s: float, time: Time) -> FakeBroker:
    """Partition 1 of `orders` has no leader before a time."""
    broker = FakeBroker(topics={"orders": 2})

    def metadata(request: k03_metadata.Request, version: int) -> k03_metadata.Response:
        response = broker._metadata(request, version)
        for topic in response.topics:
            if time.now_s < elected_s:
                lost = replace(topic.partitions[1], leader_id=-1, error_code=LeaderNotAvailable.code)
                topic.partitions[1:] = [lost]
        return response

    def offsets(request: k02_list_offsets.Request, version: int) -> k02_list_offsets.Response:
        return k02_list_offsets.Response(
            topics=[
                k02_list_offsets.TopicResult(
                    name=topic.name,
                    partitions=[
                        k02_list_offsets.PartitionResult(partition_index=each.partition_index, error_code=0, offset=7)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    broker.on(k03_metadata, metadata)
    broker.on(k02_list_offsets, offsets)
    return broker


POSITIONS = {("orders", 0): LATEST, ("orders", 1): LATEST}


def answers(broker: FakeBroker, **options: Any) -> dict[Any, Any]:
    with Client("fake:1", timeout_ms=30_000, connect=broker.connect) as client:
        return list_offsets(client, POSITIONS, **options)


def test_a_partition_without_a_leader_is_an_error_after_the_time_of_an_election(time: Time) -> None:
    found = answers(broker_without_leader(float("inf"), time), leader_wait_ms=ELECTION_MS)
    assert isinstance(found["orders", 0], FoundOffset)
    assert describe(found["orders", 1]) == "topic orders partition 1 has no leader [LEADER_NOT_AVAILABLE]"
    assert ELECTION_MS / 1000 <= time.now_s < 2 * ELECTION_MS / 1000


def test_client_waits_for_an_election(time: Time) -> None:
    found = answers(broker_without_leader(2.0, time), leader_wait_ms=ELECTION_MS)
    assert [type(found[key]) for key in POSITIONS] == [FoundOffset, FoundOffset]


def test_timeout_names_the_partition(time: Time) -> None:
    with pytest.raises(TimedOut, match=r"gave up after 30 s: topic orders partition 1 has no leader \[LEADER_NOT_AVAILABLE\]"):
        answers(broker_without_leader(float("inf"), time))
    assert time.now_s >= 28


def test_bounds_of_the_other_partitions_are_found(time: Time) -> None:
    broker = broker_without_leader(float("inf"), time)
    with Client("fake:1", timeout_ms=30_000, connect=broker.connect) as client:
        found = bounds(client, POSITIONS, leader_wait_ms=ELECTION_MS)
    assert found["orders", 0] == Bounds(7, 7, 7, 7)
    assert isinstance(found["orders", 1], LeaderNotAvailable)
    assert time.now_s < 2 * ELECTION_MS / 1000, "one wait for all four requests"
