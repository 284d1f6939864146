"""A broker that rejects some partitions: it serves the others, sessions keep them, and answers name leaders as Kafka's do."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import pytest

from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.middleware import wrapped
from minibroker.dispatch.partition_split import Place
from minibroker.dispatch.registry import Handler, load
from minibroker.errors import CorruptMessage, FencedLeaderEpoch, KafkaError, KafkaStorageError, NotLeaderOrFollower
from minibroker.schemas import k00_produce, k01_fetch, k02_list_offsets, k78_share_fetch
from minibroker.testing.simulation.partition_refusal import places_of, serve
from tests.support.broker_in_memory import BrokerInMemory, records

NOT_LEADER = NotLeaderOrFollower.code
NOW = -1  #: session epoch of a request without a session


class Refusing(BrokerInMemory):
    """A broker with topics of three partitions, `refused` of which fail."""

    def __init__(self) -> None:
        super().__init__(topics={"a": 3, "b": 3})
        self.refused: dict[tuple[str, int | None], KafkaError] = {}
        self.asked: list[Place] = []
        self.services.registry = wrapped(load(), lambda handler: handler.around(partial(self._serve, handler)))
        self.dispatcher = Dispatcher(self.services)

    def _serve(self, handler: Handler, ctx: Any, request: Any) -> Any:
        self.asked = list(places_of(ctx, request))
        return serve(handler, ctx, request, self._error_of)

    def _error_of(self, name: str, topic_id: UUID, index: int | None) -> KafkaError | None:
        assert self.cluster.topics[name].topic_id == topic_id
        return self.refused.get((name, index))

    def id_of(self, topic: str) -> UUID:
        return self.cluster.topics[topic].topic_id

    def fetch(
        self, asked: dict[str, list[int]], session: tuple[int, int] = (0, NOW), *, offset: int = 0, version: int = 17, max_wait_ms: int = 0
    ) -> k01_fetch.Request:
        topics = [
            k01_fetch.Topic(
                topic="" if version >= 13 else name,
                topic_id=self.id_of(name) if version >= 13 else UUID(int=0),
                partitions=[k01_fetch.Partition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20) for index in indexes],
            )
            for name, indexes in asked.items()
        ]
        return k01_fetch.Request(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics, session_id=session[0], session_epoch=session[1])

    def told(self, response: k01_fetch.Response) -> dict[tuple[str, int], int]:
        """Error code of each partition that is answered; -1000 - n for n bytes of records."""
        names = {topic.topic_id: name for name, topic in self.cluster.topics.items()}
        return {
            (topic.topic or names[topic.topic_id], each.partition_index): each.error_code or -len(each.records or b"")
            for topic in response.responses
            for each in topic.partitions
        }


@pytest.fixture
def broker() -> Refusing:
    return Refusing()


def produce(broker: Refusing, *, version: int, acks: int = -1) -> k00_produce.Request:
    topics = [
        k00_produce.Topic(
            name=name if version < 13 else "",
            topic_id=broker.id_of(name) if version >= 13 else UUID(int=0),
            partition_data=[k00_produce.Partition(index=index, records=records(2)) for index in range(3)],
        )
        for name in "ab"
    ]
    return k00_produce.Request(acks=acks, timeout_ms=100, topic_data=topics)


@pytest.mark.parametrize("version", [3, 9, 10, 13])
def test_the_rest_of_a_produce_is_appended(broker: Refusing, version: int) -> None:
    broker.refused = {("a", 1): NotLeaderOrFollower(), ("b", 0): CorruptMessage()}
    response = broker.ask(produce(broker, version=version), version)
    codes = [{each.index: each.error_code for each in topic.partition_responses} for topic in response.responses]
    assert codes == [{0: 0, 1: NOT_LEADER, 2: 0}, {0: CorruptMessage.code, 1: 0, 2: 0}]
    ends = {name: [each.log.log_end_offset for each in broker.cluster.topics[name].partitions] for name in "ab"}
    assert ends == {"a": [2, 0, 2], "b": [0, 2, 2]}
    if version >= 10:
        refused = response.responses[0].partition_responses[-1]
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (1, 0)
        assert response.responses[1].partition_responses[-1].current_leader.leader_id == -1, "that error says nothing of leaders"
        assert [(each.node_id, each.host, each.port) for each in response.node_endpoints] == [(1, "localhost", 9092)]


def test_nothing_left_is_not_served(broker: Refusing) -> None:
    broker.refused = {(name, index): NotLeaderOrFollower() for name in "ab" for index in range(3)}
    response = broker.ask(produce(broker, version=9), 9)
    assert [len(topic.partition_responses) for topic in response.responses] == [3, 3]
    assert all(each.log.log_end_offset == 0 for each in broker.cluster.topics["a"].partitions)


def test_delayed_answer_is_merged_with_refused_partitions() -> None:
    broker = Refusing()
    broker.cluster.create_topic("s", partition_count=2, configs={"flush.messages": "1"})
    broker.refused = {("s", 0): KafkaStorageError()}
    topic = k00_produce.Topic(name="s", partition_data=[k00_produce.Partition(index=index, records=records(1)) for index in range(2)])
    waiting = broker.begin(k00_produce.Request(acks=-1, timeout_ms=100, topic_data=[topic]), 9)
    broker.clock.advance(10)
    found = {each.index: each.error_code for each in waiting.answer().responses[0].partition_responses}
    assert found == {0: KafkaStorageError.code, 1: 0}


def test_without_refusals_the_answer_is_the_handlers(broker: Refusing) -> None:
    plain = BrokerInMemory(topics={"a": 3})
    request = k02_list_offsets.Request(
        replica_id=-1,
        topics=[k02_list_offsets.Topic(name="a", partitions=[k02_list_offsets.Partition(partition_index=0, timestamp=-1)])],
    )
    assert broker.ask(request) == plain.ask(request)


@pytest.mark.parametrize("version", [4, 12, 17])
def test_a_fetch_without_a_session(broker: Refusing, version: int) -> None:
    for index in range(3):
        broker.append("a", index, records(1))
    broker.refused = {("a", 1): NotLeaderOrFollower()}
    response = broker.ask(broker.fetch({"a": [0, 1, 2]}, version=version), version)
    result = broker.told(response)
    assert result["a", 1] == NOT_LEADER
    assert result["a", 0] == result["a", 2] < -50
    leader = next(each for each in response.responses[0].partitions if each.partition_index == 1).current_leader
    assert leader.leader_id == (1 if version >= 16 else -1)
    assert len(response.node_endpoints) == (1 if version >= 16 else 0)


@pytest.mark.parametrize("version", [12, 17])
def test_partitions_of_a_session_count_whether_they_are_named_or_not(broker: Refusing, version: int) -> None:
    opened = broker.ask(broker.fetch({"a": [0, 1], "b": [0]}, (0, 0), version=version), version)
    session = opened.session_id
    assert broker.told(opened) == {("a", 0): 0, ("a", 1): 0, ("b", 0): 0}
    broker.refused = {("a", 1): FencedLeaderEpoch()}
    waiting = broker.begin(broker.fetch({}, (session, 1), version=version, max_wait_ms=10_000), version)
    assert broker.told(waiting.answer()) == {("a", 1): FencedLeaderEpoch.code}, "told at once, though nothing of it was asked"
    assert len(broker.asked) == 3
    broker.append("a", 1, records(1))
    broker.append("b", 0, records(1))
    result = broker.told(broker.ask(broker.fetch({}, (session, 2), version=version), version))
    assert result["a", 1] == FencedLeaderEpoch.code
    assert result["b", 0] < -50
    broker.refused = {}
    result = broker.told(broker.ask(broker.fetch({}, (session, 3), version=version), version))
    assert result["a", 1] < -50, "served as soon as it is refused no more"


def test_refused_partition_is_reported_again_without_new_records(broker: Refusing) -> None:
    session = broker.ask(broker.fetch({"a": [0]}, (0, 0)), 17).session_id
    broker.refused = {("a", 0): NotLeaderOrFollower()}
    assert broker.told(broker.ask(broker.fetch({}, (session, 1)), 17)) == {("a", 0): NOT_LEADER}
    broker.refused = {}
    assert broker.told(broker.ask(broker.fetch({}, (session, 2)), 17)) == {("a", 0): 0}, "the error is over"
    assert broker.told(broker.ask(broker.fetch({}, (session, 3)), 17)) == {}


def test_a_partition_that_the_session_forgets_is_not_refused(broker: Refusing) -> None:
    session = broker.ask(broker.fetch({"a": [0, 1]}, (0, 0)), 17).session_id
    broker.refused = {("a", 1): NotLeaderOrFollower()}
    request = broker.fetch({}, (session, 1))
    request.forgotten_topics_data.append(k01_fetch.ForgottenTopic(topic_id=broker.id_of("a"), partitions=[1]))
    assert broker.told(broker.ask(request, 17)) == {}


def test_a_session_that_opens_with_a_refused_partition_has_it(broker: Refusing) -> None:
    broker.append("a", 0, records(1))
    broker.refused = {("a", 0): NotLeaderOrFollower()}
    opened = broker.ask(broker.fetch({"a": [0, 1]}, (0, 0)), 17)
    assert broker.told(opened) == {("a", 0): NOT_LEADER, ("a", 1): 0}
    broker.refused = {}
    assert broker.told(broker.ask(broker.fetch({}, (opened.session_id, 1)), 17))["a", 0] < -50


def test_a_share_fetch_acquires_nothing_of_a_refused_partition(broker: Refusing) -> None:
    broker.refused = {("a", 0): NotLeaderOrFollower()}
    topic_id = broker.id_of("a")
    for index in range(2):
        broker.append("a", index, records(1))

    def request(epoch: int, *indexes: int) -> k78_share_fetch.Request:
        partitions = [k78_share_fetch.Partition(partition_index=index, acknowledgement_batches=[]) for index in indexes]
        return k78_share_fetch.Request(
            group_id="g",
            member_id="AAAAAAAAAAAAAAAAAAAAAA",
            share_session_epoch=epoch,
            max_wait_ms=0,
            min_bytes=1,
            max_records=100,
            batch_size=100,
            topics=[k78_share_fetch.Topic(topic_id=topic_id, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[],
        )

    response = broker.ask(request(0, 0))
    assert broker.asked == [Place("", topic_id, 0)]
    check_refused(response)
    check_refused(broker.ask(request(1)))
    assert broker.asked == [Place("", topic_id, 0)], "its session knows of it"


def check_refused(response: k78_share_fetch.Response) -> None:
    result = response.responses[0].partitions[0]
    assert (result.error_code, result.acknowledge_error_code, result.acquired_records) == (NOT_LEADER, 0, [])
    assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (1, 0)
    assert [each.node_id for each in response.node_endpoints] == [1]
