"""A partition checks its own state of a producer before it verifies with the coordinator, as Apache Kafka 4.3.1 does."""

from __future__ import annotations

import pytest

from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.errors import InvalidProducerEpoch, InvalidProducerIdMapping
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k28_txn_offset_commit as k28
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.committed_offsets import broker_with_groups
from tests.support.transactional_ids import begin, coordinator_of, init_producer

TOPIC = "orders"
NOBODY = "nobody"  #: a transactional id that is not known


@pytest.fixture
def broker() -> BrokerInMemory:
    return broker_with_groups({TOPIC: 1})


def end(broker: BrokerInMemory, ids: ProducerIdAndEpoch) -> None:
    request = k26.Request(transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=True)
    assert broker.ask(request, 5).error_code == 0


def produce(broker: BrokerInMemory, name: str, ids: ProducerIdAndEpoch, version: int) -> int:
    data = records(1, producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, base_sequence=0, is_transactional=True)
    topic_id = broker.cluster.topic(TOPIC).topic_id
    named = {"topic_id": topic_id} if version >= 13 else {"name": TOPIC}
    topic = k00.Topic(partition_data=[k00.Partition(index=0, records=data)], **named)
    request = k00.Request(transactional_id=name, acks=-1, timeout_ms=1_000, topic_data=[topic])
    return int(broker.ask(request, version).responses[0].partition_responses[0].error_code)


def commit_offset(broker: BrokerInMemory, name: str, ids: ProducerIdAndEpoch, version: int) -> int:
    partition = k28.Partition(partition_index=0, committed_offset=1, committed_metadata="")
    request = k28.Request(
        transactional_id=name,
        group_id="readers",
        producer_id=ids.producer_id,
        producer_epoch=ids.producer_epoch,
        topics=[k28.Topic(name=TOPIC, partitions=[partition])],
    )
    return int(broker.ask(request, version).topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [3, 10, 11, 12, 13])
def test_partition_refuses_an_old_epoch(broker: BrokerInMemory, version: int) -> None:
    ids = init_producer(broker)
    begin(broker, ids, (TOPIC, 0))
    end(broker, ids)
    assert produce(broker, NOBODY, ids, version) == InvalidProducerEpoch.code
    assert produce(broker, NOBODY, ids._replace(producer_epoch=1), version) == InvalidProducerIdMapping.code
    current = coordinator_of(broker).get("payments")
    assert current is not None
    assert current.partitions == frozenset()


@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_group_offsets_refuse_an_old_epoch(broker: BrokerInMemory, version: int) -> None:
    ids = init_producer(broker)
    assert commit_offset(broker, NOBODY, ids, version) == InvalidProducerIdMapping.code
    assert commit_offset(broker, "payments", ids, 5) == 0
    assert commit_offset(broker, NOBODY, ids, version) == 0  # its transaction is open there: nobody is asked
    end(broker, ids)
    for name in (NOBODY, ""):
        assert commit_offset(broker, name, ids, version) == InvalidProducerEpoch.code
    assert commit_offset(broker, NOBODY, ids._replace(producer_epoch=1), version) == InvalidProducerIdMapping.code
