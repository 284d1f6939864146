"""ShareAcknowledge: golden frames, syncing, refusals; its effects are in the scenes of tests/golden/share_scenes.py."""

from __future__ import annotations

from uuid import UUID

import pytest

from minibroker.coordinator.share_state.records import InitialState
from minibroker.errors import KafkaStorageError, ShareSessionNotFound, UnsupportedVersion
from minibroker.schemas import k78_share_fetch as k78
from minibroker.schemas import k79_share_acknowledge as k79
from minibroker.wire.schema import replace
from tests.golden import Golden
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.golden_exchange import kafka_answers, kafka_like, serve, topic_ids
from tests.support.share_members import Member
from tests.support.share_states import persister_of, requests_of

SYNCED = {"log.flush.interval.messages": "1"}


@pytest.mark.parametrize("request_frame", requests_of("k79_share_acknowledge"))
def test_answers_match_kafka(request_frame: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a member that has acquired the first records of both partitions."""
    value = request_frame.decode()
    topic_id = value.topics[0].topic_id if value.topics else UUID(int=5)
    topic_ids(monkeypatch, [topic_id, UUID(int=1)])
    lock = {"group.share.record.lock.duration.ms": "15000", "group.share.min.record.lock.duration.ms": "15000"}
    broker = kafka_like({"golden": 2}, lock | {"share.coordinator.state.topic.num.partitions": "1"})
    member = Member(broker, "golden", value.member_id, group=value.group_id)
    persister_of(broker).initialize(value.group_id, [InitialState(topic_id, 1, 1, 0)])
    for index in (0, 1):
        broker.append("golden", index, records(5))
    request = member.request()
    partitions = [k78.Partition(partition_index=index, acknowledgement_batches=[]) for index in (0, 1)]
    request = replace(request, topics=[k78.Topic(topic_id=topic_id, partitions=partitions)])
    assert sum(len(each.acquired_records) for each in broker.ask(request, 2).responses[0].partitions) == 2
    if value.share_session_epoch > 0:
        broker.services.coordinators.share_partitions.session(1, (value.group_id, value.member_id)).epoch = value.share_session_epoch
    assert serve(broker, request_frame) in kafka_answers(request_frame)


def test_acknowledgement_is_answered_after_the_sync() -> None:
    broker = BrokerInMemory(topics={"orders": 1}, config=SYNCED)
    member = Member(broker, "orders")
    member.produce(3)
    broker.clock.advance(0)
    assert member.take() == [(0, 2, 1)]
    pending = member.begin_acknowledge((0, 2, [1]))
    assert not pending.is_done
    broker.clock.advance(0)
    answer = pending.answer()
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
    assert answer.acquisition_lock_timeout_ms == 30_000


def test_failed_sync_fails_the_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerInMemory(topics={"orders": 1}, config=SYNCED)
    member = Member(broker, "orders")
    member.produce(3)
    broker.clock.advance(0)
    member.take()
    monkeypatch.setattr(broker.services.flush_queue, "flush", lambda logs, done: done(dict.fromkeys(logs, KafkaStorageError())))
    assert member.acknowledge((0, 2, [1])) == 15


def test_version_1_cannot_renew() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    member = Member(broker, "orders")
    member.produce(1)
    member.take()
    assert broker.ask(member.acknowledgement((0, 0, [4])), 1).responses[0].partitions[0].error_code == 42


def test_disabled_share_version_is_unsupported() -> None:
    broker = BrokerInMemory()
    broker.cluster.image.features["share.version"] = 0
    request = k79.Request(group_id="g", member_id="m", share_session_epoch=1, topics=[])
    assert broker.ask(request).error_code == UnsupportedVersion.code


def test_without_a_session() -> None:
    request = k79.Request(group_id="g", member_id="m", share_session_epoch=1, topics=[])
    assert BrokerInMemory().ask(request).error_code == ShareSessionNotFound.code
