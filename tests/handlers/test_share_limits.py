"""ShareFetch and ShareAcknowledge of too many partitions are refused before any work, and so is a share session that grows too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from minibroker.config.request_limits import SHARE_ELEMENTS_MAX, SHARE_PARTITIONS_MAX
from minibroker.coordinator.share_partition.acknowledging import Acknowledgement, Acknowledging
from minibroker.coordinator.share_partition.in_flight import InFlightBatch, InFlightRecords, Run
from minibroker.coordinator.share_partition.share_partitions import ShareSessions
from minibroker.coordinator.share_state.records import InitialState, RecordState
from minibroker.errors import InvalidRequest, ShareSessionNotFound
from minibroker.schemas import k78_share_fetch, k79_share_acknowledge
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.opcodes import least_opcodes
from tests.support.turns import shortest_slices, turns

TOPIC = UUID(int=7)
MEMBER = ("g", "m")
PARTITIONS = 6


def request(schema: Any, count: int, epoch: int) -> Any:
    topic = schema.Topic(
        topic_id=TOPIC, partitions=[schema.Partition(partition_index=index, acknowledgement_batches=[]) for index in range(count)]
    )
    limits: dict[str, Any] = (
        {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1, "max_records": 1, "batch_size": 1} if schema is k78_share_fetch else {}
    )
    if schema is k78_share_fetch:
        limits["forgotten_topics_data"] = []
    return schema.Request(group_id="g", member_id="m", share_session_epoch=epoch, topics=[topic], **limits)


@pytest.mark.parametrize("schema", [k78_share_fetch, k79_share_acknowledge])
def test_too_many_partitions_in_a_request(schema: Any) -> None:
    broker = BrokerInMemory()
    for count, code in ((SHARE_PARTITIONS_MAX - 1, ShareSessionNotFound.code), (SHARE_PARTITIONS_MAX, InvalidRequest.code)):
        pending = broker.begin(request(schema, count, 1))
        broker.clock.advance(0)
        assert pending.answer().error_code == code


def test_session_grows_too_large() -> None:
    sessions = ShareSessions()
    sessions.begin(MEMBER, [(TOPIC, 0)], limit=1)
    assert sessions.update(MEMBER, [(TOPIC, index) for index in range(SHARE_PARTITIONS_MAX)], [])
    assert not sessions.update(MEMBER, [(TOPIC, SHARE_PARTITIONS_MAX)], [])


@pytest.mark.parametrize("schema", [k78_share_fetch, k79_share_acknowledge])
@pytest.mark.parametrize(("over", "code"), [(0, ShareSessionNotFound.code), (1, InvalidRequest.code)])
def test_too_many_acknowledgements_in_a_request(schema: Any, over: int, code: int) -> None:
    broker = BrokerInMemory()
    requested = request(schema, 1, 1)
    types = [1] * (SHARE_ELEMENTS_MAX - 3 + over)  # a topic, a partition and a range are elements, too
    requested.topics[0].partitions[0].acknowledgement_batches = [
        schema.AcknowledgementBatch(first_offset=0, last_offset=len(types) - 1, acknowledge_types=types)
    ]
    pending = broker.begin(requested)
    broker.clock.advance(0)
    assert pending.answer().error_code == code


def test_acknowledging_cost_is_linear() -> None:
    """One range with a type for each offset, over batches of one record each."""

    def acknowledging(count: int) -> Callable[[], Callable[[], object]]:
        def make() -> Callable[[], object]:
            in_flight = InFlightRecords(0)
            runs = [Run(offset, offset, RecordState.ACQUIRED, 1, member_id="m") for offset in range(count)]
            in_flight.add(InFlightBatch(run) for run in runs)
            result = Acknowledgement(0, count - 1, [1 + offset % 2 for offset in range(count)])
            work = Acknowledging(in_flight, "m", delivery_count_limit=5, may_renew=False)
            return lambda: work.plan([result])

        return make

    assert least_opcodes(acknowledging(400), 1) < 5 * least_opcodes(acknowledging(100), 1)


@pytest.mark.parametrize("schema", [k78_share_fetch, k79_share_acknowledge])
def test_each_step_acknowledges_one_partition(schema: Any) -> None:
    """The answer comes when what was written in all of the turns is on the disk."""
    broker = BrokerInMemory(topics={"orders": PARTITIONS}, config={"log.flush.interval.messages": "1"})
    topic_id = broker.cluster.topic("orders").topic_id
    coordinators = broker.services.coordinators
    coordinators.share_persister.ensure_topic()
    coordinators.share_persister.initialize("g", [InitialState(topic_id, index, 1, 0) for index in range(PARTITIONS)])
    for index in range(PARTITIONS):
        broker.append("orders", index, records(2))
    opening = request(k78_share_fetch, PARTITIONS, 0)
    opening.topics[0].topic_id = topic_id
    opening.max_bytes, opening.max_records = 1 << 20, 500
    broker.clock.advance(0)
    assert len(broker.ask(opening).responses[0].partitions) == PARTITIONS
    broker.clock.advance(0)
    shares = [coordinators.share_partitions.get("g", topic_id, index) for index in range(PARTITIONS)]

    def acknowledged() -> int:
        return sum(share.records.start_offset == 2 for share in shares)

    shortest_slices(broker)
    requested = request(schema, PARTITIONS, 1)
    requested.topics[0].topic_id = topic_id
    for partition in requested.topics[0].partitions:
        partition.acknowledgement_batches = [schema.AcknowledgementBatch(first_offset=0, last_offset=1, acknowledge_types=[1])]
    pending = broker.begin(requested)
    before = acknowledged()
    assert before <= 1
    for _ in turns(broker, pending):
        assert acknowledged() - before <= 1
        before = acknowledged()
    assert before == PARTITIONS
    logs = [each.log for each in broker.cluster.topic("__share_group_state").partitions if not each.is_unopened]
    assert all(log.flusher.recovery_point == log.log_end_offset for log in logs)
    assert pending.answer().error_code == 0


def test_share_fetch_does_not_open_unused_logs() -> None:
    broker = BrokerInMemory()
    broker.cluster.create_topics([broker.cluster.new_topic("orders", partition_count=PARTITIONS)], at_first_use=True)
    topic = broker.cluster.topic("orders")
    coordinators = broker.services.coordinators
    coordinators.share_persister.ensure_topic()
    coordinators.share_persister.initialize("g", [InitialState(topic.topic_id, index, 1, -1) for index in range(PARTITIONS)])
    requested = request(k78_share_fetch, PARTITIONS, 0)
    requested.topics[0].topic_id = topic.topic_id
    requested.max_bytes, requested.max_records, requested.max_wait_ms = 1 << 20, 500, 500
    pending = broker.begin(requested)
    assert all(each.is_unopened for each in topic.partitions)
    broker.append("orders", 3, records(2))
    broker.clock.advance(500)
    results = pending.answer().responses[0].partitions
    assert [(each.partition_index, each.error_code, bool(each.records)) for each in results] == [
        (index, 0, index == 3) for index in range(PARTITIONS)
    ]
    assert sum(each.is_unopened for each in topic.partitions) == PARTITIONS - 1
