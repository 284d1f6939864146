"""OffsetForLeaderEpoch: the answers that Kafka 4.3.1 gave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minibroker.errors import FencedLeaderEpoch, UnknownLeaderEpoch, UnknownTopicOrPartition
from minibroker.schemas import k23_offset_for_leader_epoch as schema
from tests.support.broker_in_memory import BrokerInMemory, records


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    """orders-0: epoch 0 has offsets 0 and 1, epoch 3 has 2."""
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(2))
    partition = broker.cluster.partition("orders", 0)
    partition.leader_epoch = 3
    partition.log.assign_leader_epoch(3)
    broker.append("orders", 0, records(1))
    yield broker
    broker.cluster.close()


def ask(
    broker: BrokerInMemory, epoch: int, *, current: int = -1, topic: str = "orders", index: int = 0, version: int = 4
) -> schema.PartitionResult:
    partition = schema.Partition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    request = schema.Request(replica_id=-1, topics=[schema.Topic(topic=topic, partitions=[partition])])
    response: schema.Response = broker.ask(request, version)
    ((result,),) = [each.partitions for each in response.topics]
    return result


@pytest.mark.parametrize("version", range(schema.VERSIONS[0], schema.VERSIONS[1] + 1))
@pytest.mark.parametrize(("epoch", "answer"), [(0, (0, 2)), (1, (0, 2)), (2, (0, 2)), (3, (3, 3)), (4, (-1, -1)), (-1, (-1, -1))])
def test_end_offset_of_an_epoch(broker: BrokerInMemory, version: int, epoch: int, answer: tuple[int, int]) -> None:
    result = ask(broker, epoch, version=version)
    assert (result.error_code, result.leader_epoch, result.end_offset) == (0, *answer)


def test_errors(broker: BrokerInMemory) -> None:
    assert ask(broker, 0, topic="nope").error_code == UnknownTopicOrPartition.code
    assert ask(broker, 0, index=7).error_code == UnknownTopicOrPartition.code
    assert ask(broker, 0, current=9).error_code == UnknownLeaderEpoch.code
    fenced = ask(broker, 0, current=1)
    assert (fenced.error_code, fenced.leader_epoch, fenced.end_offset) == (FencedLeaderEpoch.code, -1, -1)
    assert ask(broker, 0, current=3).error_code == 0
