"""ListOffsets of many partitions that were never used opens few of their logs in one turn of the loop."""

from __future__ import annotations

from minibroker.cluster.partition import Partition
from minibroker.handlers.k02_list_offsets import EARLIEST, PIECE_SIZE
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas import k02_list_offsets as schema
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.turns import shortest_slices, turns

PARTITIONS = 150


def test_a_turn_opens_few_logs() -> None:
    broker = BrokerInMemory(topics={"orders": PARTITIONS})
    partitions = broker.cluster.topic("orders").partitions
    broker.clock.advance(0)
    opened: list[int] = []
    logs: dict[int, PartitionLog | None] = {}

    def open_log(partition: Partition) -> None:
        opened.append(partition.index)
        partition.online_log = logs[partition.index]

    for partition in partitions:
        logs[partition.index], partition.online_log = partition.log, None
        partition.open_later(open_log)
    shortest_slices(broker)
    asked = [schema.Partition(partition_index=index, timestamp=EARLIEST) for index in range(PARTITIONS)]
    pending = broker.begin(schema.Request(replica_id=-1, topics=[schema.Topic(name="orders", partitions=asked)]), 7)
    before = 0
    for _ in turns(broker, pending):
        assert len(opened) - before <= PIECE_SIZE
        before = len(opened)
    assert opened == [*range(PARTITIONS)]
    assert [each.error_code for each in pending.answer().topics[0].partitions] == [0] * PARTITIONS
    broker.cluster.close(clean=False)
