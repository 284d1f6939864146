"""Rules of faults: what they may say, which requests they are for, and what becomes of those, on a clock that stands still."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.registry import load
from minibroker.errors import BY_CODE, NotLeaderOrFollower, UnknownServerError, WireError
from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k09_offset_fetch,
    k10_find_coordinator,
    k12_heartbeat,
    k15_describe_groups,
    k20_delete_topics,
    k22_init_producer_id,
    k24_add_partitions_to_txn,
)
from minibroker.testing.faults.effects import TornAnswerError
from minibroker.testing.faults.faults import RequestFaults
from minibroker.testing.faults.rule import rule_of
from minibroker.testing.options import BrokerError
from minibroker.testing.wire import CLIENT_ID
from minibroker.wire.codec import decode
from minibroker.wire.header import decode_response_header, response_header_version
from tests.golden import all_golden
from tests.support.broker_in_memory import BrokerInMemory, Pending, frame_of, records

NOT_LEADER = "NOT_LEADER_OR_FOLLOWER"


class Faulty(BrokerInMemory):
    """A broker with faults."""

    def __init__(self) -> None:
        super().__init__(topics={"orders": 2, "other": 1})
        self.noted: list[str] = []
        self.parked: list[Pending] = []
        self.faults = RequestFaults(self.look_up_anew, lambda _, rule: self.noted.append(str(rule)), self.answer_parked)
        self.services.registry = self.faults.make_registry()
        self.look_up_anew()

    def look_up_anew(self) -> None:
        self.dispatcher = Dispatcher(self.services)

    def answer_parked(self) -> None:
        for each in self.parked:
            each.in_flight.step_aside()

    def inject(self, kind: str, api: str, often: dict[str, Any] | None = None, **more: Any) -> int:
        return self.faults.inject({"kind": kind, "api": api, "often": often or {}} | more)

    def end(self, partition: int, topic: str = "orders") -> int:
        return self.cluster.topics[topic].partitions[partition].log.log_end_offset

    def produce(self, *partitions: int, topic: str = "orders", version: int = 9, acks: int = -1, client_id: str = "test") -> Any:
        requested_partitions = [k00_produce.Partition(index=index, records=records(1)) for index in partitions]
        request = k00_produce.Request(
            acks=acks, timeout_ms=100, topic_data=[k00_produce.Topic(name=topic, partition_data=requested_partitions)]
        )
        response = self.ask(request, version, client_id=client_id)
        return response and [BY_CODE[code].name if code else "" for code in codes_of(response)]


def codes_of(response: k00_produce.Response) -> list[int]:
    found = {each.index: each.error_code for topic in response.responses for each in topic.partition_responses}
    return [found[index] for index in sorted(found)]


def list_offsets(*partitions: int, topic: str = "orders") -> k02_list_offsets.Request:
    requested_partitions = [k02_list_offsets.Partition(partition_index=index, timestamp=-1) for index in partitions]
    return k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name=topic, partitions=requested_partitions)])


@pytest.fixture
def broker() -> Faulty:
    return Faulty()


# -- what may be said ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({}, "there is no kind None"),
        ({"kind": "eror", "api": "Produce"}, "there is no kind 'eror': did you mean error?"),
        ({"kind": "error", "api": "Prduce", "error": NOT_LEADER}, "there is no api 'Prduce': did you mean Produce?"),
        ({"kind": "error", "api": "Produce"}, "error needs 'error'"),
        ({"kind": "error", "api": "Produce", "error": "NOT_LEADER"}, f"there is no error 'NOT_LEADER': did you mean {NOT_LEADER}?"),
        ({"kind": "error", "api": "Produce", "error": NOT_LEADER, "ms": 3}, "error has no 'ms' (it has: after, api"),
        ({"kind": "error", "api": "Produce", "error": NOT_LEADER, "after": 1}, "after must be true or false, got 1"),
        ({"kind": "delay", "api": "Fetch"}, "delay needs 'ms'"),
        ({"kind": "delay", "api": "Fetch", "ms": -1}, "ms must be from 0 to 604800000, got -1"),
        ({"kind": "delay", "api": "Fetch", "ms": "1"}, "ms must be from 0 to 604800000, got '1'"),
        ({"kind": "disconnect", "api": "Fetch", "when": "during"}, "there is no when 'during': there are: before, after"),
        ({"kind": "tear", "api": "Fetch", "size": 1.5}, "size must be an integer of at least 0, got 1.5"),
        ({"kind": "silence", "api": "Fetch", "partition": 1}, "a partition needs its topic"),
        ({"kind": "silence", "api": "Heartbeat", "topic": "orders"}, "Heartbeat requests name no topics"),
        ({"kind": "silence", "api": "CreateTopics", "topic": "orders", "partition": 0}, "CreateTopics requests name no partitions"),
        ({"kind": "silence", "api": "Fetch", "topic": 5}, "topic must be a string, got 5"),
        ({"kind": "silence", "api": "Fetch", "group": "g"}, "Fetch requests name no groups: leave out group='g'"),
        ({"kind": "silence", "api": "Heartbeat", "transactional_id": "t"}, "Heartbeat requests name no transactional ids"),
        ({"kind": "silence", "api": "Fetch", "often": {"twice": 1}}, "often"),
        ({"kind": "silence", "api": "Fetch", "often": 3}, "often must be an object, got 3"),
    ],
)
def test_invalid_rules_are_one_line_errors(broker: Faulty, rule: dict[str, Any], says: str) -> None:
    with pytest.raises(BrokerError) as refused:
        broker.faults.inject(rule)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert broker.faults.list() == []


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "error", "api": "Produce", "error": NOT_LEADER, "topic": "orders", "partition": 0, "often": {"times": 1}},
        {"kind": "error", "api": "EndTxn", "error": "PRODUCER_FENCED", "after": True, "transactional_id": "t", "often": {}},
        {"kind": "delay", "api": "Fetch", "ms": 200, "when": "before", "client_id": "c", "often": {"call": 2}},
        {"kind": "throttle", "api": "Produce", "ms": 5, "node": 2, "often": {"probability": 0.5, "seed": 7}},
        {"kind": "tear", "api": "Metadata", "size": 0, "topic": "orders", "partition": 1, "often": {}},
        {"kind": "silence", "api": "JoinGroup", "when": "after", "group": "g", "often": {}},
    ],
)
def test_rule_round_trips_through_json(broker: Faulty, rule: dict[str, Any]) -> None:
    number = broker.faults.inject(json.loads(json.dumps(rule)))
    (found,) = broker.faults.list()
    assert json.loads(json.dumps(found)) == rule | {"id": number, "calls": 0, "hits": 0}
    made, often = rule_of({name: value for name, value in found.items() if name not in {"id", "calls", "hits"}})
    assert made.to_json() | {"often": often.spec} == rule


# -- handlers -----------------------------------------------------------------------------------------------------------


def test_handlers_are_unchanged_without_rules(broker: Faulty) -> None:
    def own() -> list[bool]:
        found = []
        for handler in load():
            served = broker.services.registry.get(handler.api.key)
            found.append(served is not None and served.handle is handler.handle)
        return found

    assert all(own())
    first, second = broker.inject("delay", "Produce", ms=1), broker.inject("silence", "Produce")
    assert own().count(False) == 1
    broker.faults.remove(first)
    assert own().count(False) == 1
    broker.faults.remove(second)
    assert all(own())
    broker.inject("delay", "Fetch", ms=1)
    broker.faults.clear()
    assert all(own())


# -- which requests -----------------------------------------------------------------------------------------------------


def test_how_often(broker: Faulty) -> None:
    first = broker.inject("error", "Produce", {"times": 2}, error=NOT_LEADER)
    assert [broker.produce(0) for _ in range(3)] == [[NOT_LEADER], [NOT_LEADER], [""]]
    assert broker.faults.state(first) == {"calls": 3, "hits": 2}
    broker.faults.clear()
    broker.inject("error", "Produce", {"call": 2}, error=NOT_LEADER)
    assert [broker.produce(0) for _ in range(3)] == [[""], [NOT_LEADER], [""]]
    broker.faults.clear()

    def at_random(seed: int) -> list[list[str]]:
        broker.inject("error", "Produce", {"probability": 0.5, "seed": seed}, error=NOT_LEADER)
        found = [broker.produce(0) for _ in range(20)]
        broker.faults.clear()
        return found

    assert at_random(1) == at_random(1) != at_random(2)


def test_removed_rule_is_reported(broker: Faulty) -> None:
    number = broker.inject("error", "Produce", error=NOT_LEADER)
    broker.faults.remove(number)
    broker.faults.remove(number)
    assert broker.produce(0) == [""]
    with pytest.raises(BrokerError, match=f"there is no fault {number}"):
        broker.faults.state(number)


def test_scopes(broker: Faulty) -> None:
    broker.inject("error", "Produce", error="CORRUPT_MESSAGE", client_id="one")
    broker.inject("error", "Produce", error=NOT_LEADER, node=2)
    assert broker.produce(0, client_id="one") == ["CORRUPT_MESSAGE"]
    assert broker.produce(0, client_id="two") == [""]
    assert broker.noted == ["CORRUPT_MESSAGE"]


def test_requests_of_the_test_itself_are_not_affected(broker: Faulty) -> None:
    broker.inject("error", "Produce", error=NOT_LEADER)
    assert broker.produce(0, client_id=CLIENT_ID) == [""]
    broker.inject("error", "Produce", error=NOT_LEADER, client_id=CLIENT_ID)
    assert broker.produce(0, client_id=CLIENT_ID) == [NOT_LEADER]


@pytest.mark.parametrize(
    ("api", "scope", "request_of"),
    [
        ("Heartbeat", {"group": "g"}, lambda key: k12_heartbeat.Request(group_id=key, generation_id=1, member_id="m")),
        ("DescribeGroups", {"group": "g"}, lambda key: k15_describe_groups.Request(groups=["x", key])),
        ("OffsetFetch", {"group": "g"}, lambda key: k09_offset_fetch.Request(groups=[k09_offset_fetch.Group(group_id=key, topics=None)])),
        ("FindCoordinator", {"group": "g"}, lambda key: k10_find_coordinator.Request(key_type=0, coordinator_keys=["x", key])),
        ("FindCoordinator", {"transactional_id": "g"}, lambda key: k10_find_coordinator.Request(key_type=1, coordinator_keys=[key])),
        (
            "InitProducerId",
            {"transactional_id": "g"},
            lambda key: k22_init_producer_id.Request(transactional_id=key, transaction_timeout_ms=1000),
        ),
        (
            "AddPartitionsToTxn",
            {"transactional_id": "g"},
            lambda key: k24_add_partitions_to_txn.Request(
                transactions=[k24_add_partitions_to_txn.Transaction(transactional_id=key, producer_id=1, producer_epoch=0, topics=[])]
            ),
        ),
    ],
)
def test_groups_and_transactional_ids(broker: Faulty, api: str, scope: dict[str, Any], request_of: Callable[[str], Any]) -> None:
    number = broker.inject("disconnect", api, **scope)
    with pytest.raises(WireError, match="disconnect before the work"):
        broker.begin(request_of("g"))
    broker.begin(request_of("h"))
    assert broker.faults.state(number) == {"calls": 1, "hits": 1}


# -- errors -------------------------------------------------------------------------------------------------------------


def test_only_the_partition_is_refused(broker: Faulty) -> None:
    broker.inject("error", "Produce", error=NOT_LEADER, topic="orders", partition=1)
    assert broker.produce(0, 1) == ["", NOT_LEADER]
    assert (broker.end(0), broker.end(1)) == (1, 0)
    assert broker.produce(0) == [""]
    assert broker.produce(0, topic="other") == [""]


def test_two_rules_are_for_two_partitions(broker: Faulty) -> None:
    broker.inject("error", "Produce", {"times": 1}, error=NOT_LEADER, topic="orders", partition=1)
    broker.inject("error", "Produce", {"times": 1}, error="KAFKA_STORAGE_ERROR", topic="orders", partition=0)
    assert broker.produce(0, 1) == ["KAFKA_STORAGE_ERROR", NOT_LEADER]
    assert broker.produce(0, 1) == ["", ""]


def test_the_work_may_be_done_and_the_answer_fail(broker: Faulty) -> None:
    broker.inject("error", "Produce", {"times": 1}, error="NOT_ENOUGH_REPLICAS_AFTER_APPEND", after=True, topic="orders", partition=1)
    assert broker.produce(0, 1) == ["", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"]
    broker.inject("error", "Produce", {"times": 1}, error="REQUEST_TIMED_OUT", after=True)
    assert broker.produce(0, 1) == ["REQUEST_TIMED_OUT"] * 2
    assert (broker.end(0), broker.end(1)) == (2, 2)
    assert broker.noted == ["NOT_ENOUGH_REPLICAS_AFTER_APPEND after the work", "REQUEST_TIMED_OUT after the work"]


@pytest.mark.parametrize("more", [{}, {"topic": "orders"}, {"after": True}])
def test_request_without_an_answer_is_disconnected(broker: Faulty, more: dict[str, Any]) -> None:
    broker.inject("error", "Produce", error=NOT_LEADER, **more)
    with pytest.raises(WireError):
        broker.produce(0, 1, acks=0)
    assert broker.end(0) == (1 if "after" in more else 0)
    broker.faults.clear()
    broker.inject("error", "Produce", error=NOT_LEADER, topic="orders", partition=1)
    with pytest.raises(WireError, match="refused in part"):
        broker.produce(0, 1, acks=0)
    assert broker.end(1) == (1 if "after" in more else 0)


def test_metadata_keeps_its_brokers(broker: Faulty) -> None:
    everything = k03_metadata.Request(topics=None, allow_auto_topic_creation=False)
    one = k03_metadata.Request(topics=[k03_metadata.Topic(name="orders")], allow_auto_topic_creation=False)
    other = k03_metadata.Request(topics=[k03_metadata.Topic(name="other")], allow_auto_topic_creation=False)
    number = broker.inject("error", "Metadata", error="LEADER_NOT_AVAILABLE", topic="orders")
    for request, codes in ((everything, {"orders": 5, "other": 0}), (one, {"orders": 5}), (other, {"other": 0})):
        response = broker.ask(request)
        assert {topic.name: topic.error_code for topic in response.topics} == codes
        assert len(response.brokers) == 1
    assert broker.faults.state(number) == {"calls": 2, "hits": 2}
    broker.faults.clear()
    broker.inject("error", "Metadata", error="LEADER_NOT_AVAILABLE", topic="orders", partition=1)
    (topic,) = broker.ask(one).topics
    assert [(each.error_code, each.leader_id) for each in topic.partitions] == [(0, 1), (5, -1)]
    broker.faults.clear()
    broker.inject("error", "Metadata", error="UNKNOWN_TOPIC_OR_PARTITION")
    assert [topic.error_code for topic in broker.ask(everything).topics] == [3, 3]


def test_a_fetch_has_errors_of_partitions_there_and_of_its_session_as_a_whole(broker: Faulty) -> None:
    topic_id = broker.cluster.topics["orders"].topic_id
    partitions = [k01_fetch.Partition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in range(2)]
    topics = [k01_fetch.Topic(topic_id=topic_id, partitions=partitions)]
    opening = k01_fetch.Request(max_wait_ms=0, min_bytes=1, topics=topics, session_epoch=0)
    session = broker.ask(opening).session_id
    broker.inject("error", "Fetch", {"times": 1}, error=NOT_LEADER)
    going_on = k01_fetch.Request(max_wait_ms=9999, min_bytes=1, topics=[], session_id=session, session_epoch=1)
    response = broker.ask(going_on)
    assert response.error_code == 0
    assert [each.error_code for each in response.responses[0].partitions] == [6, 6]
    broker.inject("error", "Fetch", {"times": 1}, error="FETCH_SESSION_ID_NOT_FOUND")
    response = broker.ask(k01_fetch.Request(max_wait_ms=9999, min_bytes=1, topics=[], session_id=session, session_epoch=2))
    assert (response.error_code, response.responses) == (70, [])
    number = broker.inject("error", "Fetch", error=NOT_LEADER, topic="orders", partition=1)
    request = k01_fetch.Request(max_wait_ms=9999, min_bytes=1, topics=[], session_id=session, session_epoch=2)
    assert [each.partition_index for each in broker.ask(request).responses[0].partitions if each.error_code] == [1]
    assert broker.faults.state(number) == {"calls": 1, "hits": 1}


def test_a_fetch_that_waits_already_is_answered_and_the_next_one_meets_the_fault(broker: Faulty) -> None:
    partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = k01_fetch.Request(max_wait_ms=60_000, min_bytes=1, topics=[k01_fetch.Topic(topic="orders", partitions=[partition])])
    broker.parked.append(broker.begin(request, 12))
    broker.inject("error", "Produce", error=NOT_LEADER, topic="other")
    assert not broker.parked[0].is_done, "that is not its fault"
    broker.inject("error", "Fetch", {"times": 1}, error=NOT_LEADER, topic="orders", partition=0)
    assert [each.error_code for each in broker.parked[0].answer().responses[0].partitions] == [0]
    broker.append("orders", 0, records(1))
    assert broker.ask(request, 12).responses[0].partitions[0].error_code == NotLeaderOrFollower.code
    assert broker.ask(request, 12).responses[0].partitions[0].records
    assert [(each["calls"], each["hits"]) for each in broker.faults.list()] == [(0, 0), (2, 1)]


def test_topics_that_no_partition_is_named_of(broker: Faulty) -> None:
    broker.inject("error", "DeleteTopics", error="TOPIC_DELETION_DISABLED", topic="orders")
    topics = [k20_delete_topics.Topic(name=name, topic_id=UUID(int=0)) for name in ("orders", "other")]
    response = broker.ask(k20_delete_topics.Request(topics=topics, timeout_ms=1000))
    assert {each.name: each.error_code for each in response.responses} == {"orders": 73, "other": 0}
    assert set(broker.cluster.topics) >= {"orders"}
    assert "other" not in broker.cluster.topics


def test_every_api_can_be_made_to_fail_in_every_version(broker: Faulty) -> None:
    """Requests of real clients are answered with the error wherever they ask for something."""
    failed: Counter[str] = Counter()
    for golden in all_golden().values():
        handler = load().get(golden.api_key)
        if golden.direction != "request" or handler is None or not handler.api.serves(golden.version) or golden.api_key in {0, 18}:
            continue
        broker.inject("error", handler.api.name, {"times": 1}, error="UNKNOWN_SERVER_ERROR")
        answer = broker.dispatcher.dispatch(ConnectionInfo("PLAINTEXT", "127.0.0.1"), memoryview(bytearray(golden.frame)))
        assert isinstance(answer, list), golden.name
        frame = b"".join(map(bytes, answer))[4:]
        _, position = decode_response_header(frame, response_header_version(handler.api, golden.version))
        response = decode(handler.api.Response, frame[position:], golden.version, flexible=golden.flexible)
        if golden.api_key not in {1, 78}:  # whose sessions are not there
            assert set(errors_in(response)) <= {0, UnknownServerError.code}, golden.name
        failed[handler.api.name] += UnknownServerError.code in errors_in(response)
        broker.faults.clear()
    assert {handler.api.name for handler in load()} - {name for name, count in failed.items() if count} == {"Produce", "ApiVersions"}


def errors_in(value: Any) -> list[int]:
    """Every error code of an answer, at any depth."""
    if isinstance(value, list):
        return [code for element in value for code in errors_in(element)]
    if not hasattr(value, "declared_"):
        return []
    codes = [getattr(value, name) for name in value.declared_ if name.endswith("error_code")]
    return codes + [code for name in value.declared_ for code in errors_in(getattr(value, name))]


# -- time and connections -----------------------------------------------------------------------------------------------


def test_an_answer_is_late_and_the_work_is_not(broker: Faulty) -> None:
    broker.inject("delay", "Produce", ms=200)
    request = k00_produce.Request(
        acks=-1,
        timeout_ms=100,
        topic_data=[k00_produce.Topic(name="orders", partition_data=[k00_produce.Partition(index=0, records=records(1))])],
    )
    waiting = broker.begin(request, 9)
    assert broker.end(0) == 1
    broker.clock.advance(199)
    assert not waiting.is_done
    broker.clock.advance(1)
    assert codes_of(waiting.answer()) == [0]


def test_delayed_work_delays_later_requests(broker: Faulty) -> None:
    broker.inject("delay", "Produce", ms=200, when="before")
    topic = k00_produce.Topic(name="orders", partition_data=[k00_produce.Partition(index=0, records=records(3))])
    frame = frame_of(k00_produce.Request(acks=-1, timeout_ms=100, topic_data=[topic]), 9)
    buffer = memoryview(bytearray(frame))
    answer = broker.dispatcher.dispatch(broker.connection, buffer)
    assert broker.connection.throttle_ms == 200, "the connection reads on when the work is done"
    buffer[:] = bytes(len(buffer))  # the connection's buffer is used for what comes next
    assert broker.end(0) == 0
    broker.clock.advance(200)
    assert not isinstance(answer, list)
    assert answer.is_done
    assert broker.end(0) == 3


def test_throttling_sets_the_throttle_time_and_mutes_the_client(broker: Faulty) -> None:
    broker.inject("throttle", "ListOffsets", ms=300)
    assert broker.ask(list_offsets(0)).throttle_time_ms == 300
    assert broker.connection.throttle_ms == 300


def test_disconnecting_before_and_after(broker: Faulty) -> None:
    broker.inject("disconnect", "Produce", {"times": 1})
    with pytest.raises(WireError, match="fault: Produce: disconnect before the work"):
        broker.produce(0)
    assert broker.end(0) == 0
    broker.inject("disconnect", "Produce", {"times": 1}, when="after")
    with pytest.raises(WireError, match="fault: Produce: disconnect after the work"):
        broker.produce(0)
    assert broker.end(0) == 1


@pytest.mark.parametrize(("size", "sent"), [(0, 0), (3, 3), (10, 10), (10_000, None)])
def test_a_torn_answer(broker: Faulty, size: int, sent: int | None) -> None:
    whole = broker.dispatcher.dispatch(broker.connection, frame_of(list_offsets(0)))
    assert isinstance(whole, list)
    data = b"".join(map(bytes, whole))
    broker.inject("tear", "ListOffsets", size=size)
    with pytest.raises(TornAnswerError) as torn:
        broker.ask(list_offsets(0))
    assert torn.value.data == (data[:-1] if sent is None else data[:sent])


def test_silence_lasts_until_the_fault_is_removed(broker: Faulty) -> None:
    before = broker.inject("silence", "ListOffsets", {"times": 1})
    silent = broker.begin(list_offsets(0))
    broker.clock.advance(3_600_000)
    silent.in_flight.step_aside()
    was_done = silent.is_done
    broker.faults.remove(before)
    assert (was_done, silent.is_done) == (False, True)
    assert silent.in_flight.answer is None, "the connection is closed"
    after = broker.inject("silence", "ListOffsets", when="after")
    gone = broker.begin(list_offsets(0))
    gone.in_flight.cancel()
    broker.faults.remove(after)
    assert not gone.is_done
    assert broker.ask(list_offsets(0)).topics[0].partitions[0].offset == 0


def test_a_silence_that_is_over_before_its_request_is_done_closes_the_connection(broker: Faulty) -> None:
    number = broker.inject("silence", "Fetch", when="after")
    partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = k01_fetch.Request(max_wait_ms=500, min_bytes=1, topics=[k01_fetch.Topic(topic="orders", partitions=[partition])])
    waiting = broker.begin(request, 12)
    broker.faults.remove(number)
    assert not waiting.is_done
    broker.append("orders", 0, records(1))
    broker.clock.advance(0)
    assert waiting.in_flight.answer is None


def test_faults_of_one_request_add_up(broker: Faulty) -> None:
    broker.inject("error", "ListOffsets", error=NOT_LEADER, topic="orders", partition=0)
    broker.inject("delay", "ListOffsets", ms=100)
    broker.inject("throttle", "ListOffsets", ms=50)
    waiting = broker.begin(list_offsets(0, 1))
    broker.clock.advance(100)
    response = waiting.answer()
    assert response.throttle_time_ms == 50
    assert {each.partition_index: each.error_code for each in response.topics[0].partitions} == {0: NotLeaderOrFollower.code, 1: 0}
    assert broker.noted == [NOT_LEADER, "delay of 100 ms", "throttle of 50 ms"]
