"""The metadata hash of a group, compared with Utils.computeTopicHash and computeGroupHash of Apache Kafka 4.3.1."""

from __future__ import annotations

from uuid import UUID

import pytest

from minibroker.coordinator.group.topics import KnownTopic, MatchingTopics, metadata_hash

Counts = dict[str, int]


class SomeTopics:
    """Topics whose ids are 0x0123456789abcdef and, behind it, -3, -2, ... in the order in which they are given."""

    version = 1
    refresh_interval_ms = 0

    def __init__(self, partition_counts: Counts, rack: str | None) -> None:
        self._known = {
            name: KnownTopic(UUID(int=0x0123456789ABCDEF << 64 | (index - 3) % 2**64), count, rack)
            for index, (name, count) in enumerate(partition_counts.items())
        }

    def matching(self, pattern: str) -> MatchingTopics:
        raise NotImplementedError

    def find(self, name: str) -> KnownTopic | None:
        return self._known.get(name)


@pytest.mark.parametrize(
    ("partition_counts", "rack", "kafka_says"),
    [
        ({}, None, 0),
        ({"t": 1}, None, -5847788614472349559),
        ({"t": 6}, None, -2544048724522588383),
        ({"t": 1, "u": 2}, None, 8546202533829292047),
        ({"b.topic_with-a-name": 3, "a": 50, "c": 1000}, None, -882444804906147303),
        ({"t": 3}, "eu-1", -8733110182853059635),
        ({"t": 3}, "r\N{GRINNING FACE}", -2389212143960784820),
        ({f"t{index}": 1 for index in range(32)}, None, 7882641394812178511),
    ],
)
def test_metadata_hash_matches_kafka(partition_counts: Counts, rack: str | None, kafka_says: int) -> None:
    topics = SomeTopics(partition_counts, rack)
    assert metadata_hash(partition_counts, topics) == kafka_says
    assert metadata_hash([*partition_counts, "absent"], topics) == kafka_says
