"""A member of a share group of a broker in memory, as the handlers of ShareFetch and ShareAcknowledge see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minibroker.coordinator.share_state.records import InitialState
from minibroker.schemas import k78_share_fetch as k78
from minibroker.schemas import k79_share_acknowledge as k79
from tests.support.broker_in_memory import BrokerInMemory, Pending, records

GROUP = "workers"
Said = tuple[int, int, Sequence[int]]  #: first offset, last offset, types


class Member:
    """Of a group that reads partition 0 of one topic, from the beginning unless told otherwise."""

    def __init__(self, broker: BrokerInMemory, topic: str, name: str = "a", *, group: str = GROUP, start_offset: int = 0) -> None:
        self.broker = broker
        self.group = group
        self.name = name
        self.topic = topic
        self.epoch = 0  #: of the next request
        self.topic_id = broker.cluster.topics[topic].topic_id
        persister = broker.services.coordinators.share_persister
        persister.ensure_topic()
        (summary,) = persister.read_summary(group, [(self.topic_id, 0)])
        if not getattr(summary, "state_epoch", 0):
            persister.initialize(group, [InitialState(self.topic_id, 0, 1, start_offset)])

    def produce(self, *sizes: int) -> None:
        for size in sizes:
            self.broker.append(self.topic, 0, records(size, timestamp=self.broker.clock.now_ms()))

    def request(self, *said: Said, **fields: Any) -> k78.Request:
        defaults = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        partition = k78.Partition(partition_index=0, acknowledgement_batches=batches(k78, said))
        request = k78.Request(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch,
            **defaults | fields,
            topics=[k78.Topic(topic_id=self.topic_id, partitions=[partition])],
            forgotten_topics_data=[],
        )
        self.epoch += 1
        return request

    def begin_fetch(self, *said: Said, version: int = 2, **fields: Any) -> Pending:
        return self.broker.begin(self.request(*said, **fields), version)

    def fetch(self, *said: Said, version: int = 2, **fields: Any) -> k78.PartitionResult | None:
        """The answer for the partition, if there is one."""
        response = self.begin_fetch(*said, version=version, **fields).answer()
        assert response.error_code == 0
        found: k78.PartitionResult | None = next((each for topic in response.responses for each in topic.partitions), None)
        return found

    def take(self, *said: Said, **fields: Any) -> list[tuple[int, int, int]]:
        """First and last offset, and deliveries, of what it got."""
        result = self.fetch(*said, **fields)
        return acquired(result)

    def acknowledgement(self, *said: Said, is_renew_ack: bool = False) -> k79.Request:
        partition = k79.Partition(partition_index=0, acknowledgement_batches=batches(k79, said))
        request = k79.Request(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch,
            is_renew_ack=is_renew_ack,
            topics=[k79.Topic(topic_id=self.topic_id, partitions=[partition])],
        )
        self.epoch += 1
        return request

    def begin_acknowledge(self, *said: Said) -> Pending:
        return self.broker.begin(self.acknowledgement(*said))

    def acknowledge(self, *said: Said) -> int:
        """The error code of the partition."""
        response = self.begin_acknowledge(*said).answer()
        assert response.error_code == 0
        code: int = response.responses[0].partitions[0].error_code
        return code


def acquired(result: k78.PartitionResult | None) -> list[tuple[int, int, int]]:
    if result is None:
        return []
    assert (result.error_code, result.acknowledge_error_code) == (0, 0)
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in result.acquired_records]


def batches(schema: Any, said: Sequence[Said]) -> list[Any]:
    return [schema.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types)) for first, last, types in said]
