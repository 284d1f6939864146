"""A log start that passes many segments at one time."""

from __future__ import annotations

from minibroker.log.retention import SEGMENTS_A_TURN
from tests.support.broker_in_memory import BrokerInMemory, records


def test_many_segments_are_deleted_in_several_steps() -> None:
    broker = BrokerInMemory()
    broker.cluster.create_topic("rolling", partition_count=1, configs={"segment.bytes": "1000"})
    log = broker.cluster.partition("rolling", 0).log
    while len(log.segments) <= 2 * SEGMENTS_A_TURN + 5:
        broker.append("rolling", 0, records(30))
    log.advance_log_start_offset(log.log_end_offset)
    assert log.log_start_offset == log.log_end_offset  # for readers at once
    assert len(log.segments) == SEGMENTS_A_TURN + 6
    assert len(list((broker.folder / "rolling-0").glob("*.log"))) == SEGMENTS_A_TURN + 6
    broker.clock.advance(0)
    assert len(log.segments) == 1
    assert len(list((broker.folder / "rolling-0").glob("*.log"))) == 1
    again = broker.restart()
    assert again.cluster.partition("rolling", 0).log.log_start_offset == log.log_end_offset


def test_topic_may_be_deleted_meanwhile() -> None:
    broker = BrokerInMemory()
    broker.cluster.create_topic("rolling", partition_count=1, configs={"segment.bytes": "1000"})
    log = broker.cluster.partition("rolling", 0).log
    while len(log.segments) <= SEGMENTS_A_TURN + 5:
        broker.append("rolling", 0, records(30))
    log.advance_log_start_offset(log.log_end_offset)
    broker.cluster.delete_topic("rolling")
    broker.clock.advance(60_000)
    assert not list(broker.folder.glob("rolling*"))
