"""The log of requests: what each was about, what came of it, and how it reads."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from minibroker.client.client import Client
from minibroker.client.transport import Deadline
from minibroker.errors import BY_CODE
from minibroker.schemas import k00_produce, k01_fetch, k03_metadata, k09_offset_fetch, k11_join_group, k12_heartbeat
from minibroker.testing import BrokerThread, LoggedRequest, RequestLog
from minibroker.testing.recording import RecordingDispatcher
from minibroker.testing.request_log import from_json, to_json
from tests.support.broker_in_memory import BrokerInMemory, records


@pytest.fixture(scope="module")
def shared() -> Iterator[BrokerThread]:
    with BrokerThread(topics={"orders": 2, "prices": 1}) as broker:
        yield broker


@pytest.fixture
def broker(shared: BrokerThread) -> BrokerThread:
    shared.reset()
    return shared


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[Client]:
    with Client(broker.bootstrap_servers) as client:
        client.metadata(None)
        yield client


def produce(client: Client, topic: str, index: int, *, acks: int = -1) -> None:
    data = k00_produce.Partition(index=index, records=records(1))
    request = k00_produce.Request(acks=acks, timeout_ms=1000, topic_data=[k00_produce.Topic(name=topic, partition_data=[data])])
    connection = client.to_any(Deadline(10_000))
    connection.send(k00_produce, request, Deadline(10_000), most=12, answered=acks != 0)
    if acks:
        connection.receive(Deadline(10_000))


def fetch(client: Client, *topics: str, max_wait_ms: int = 0) -> k01_fetch.Request:
    partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    requested_topics = [k01_fetch.Topic(topic_id=each.topic_id, partitions=[partition]) for each in client.metadata(list(topics)).topics]
    return k01_fetch.Request(max_wait_ms=max_wait_ms, min_bytes=1, topics=requested_topics)


def test_topics_groups_and_errors_are_logged(broker: BrokerThread, client: Client) -> None:
    produce(client, "orders", 0)
    produce(client, "orders", 7)
    client.ask(k01_fetch, fetch(client, "orders", "prices"))
    client.ask(k09_offset_fetch, k09_offset_fetch.Request(groups=[k09_offset_fetch.Group(group_id="readers", topics=None)]))
    log = broker.request_log
    first, wrong = log.of("Produce")
    assert (first.topics, first.errors, first.outcome) == (("orders",), (), "answered")
    assert first.duration_ms is not None
    assert first.client_id == "minibroker-cli"
    assert first.client_host == "127.0.0.1"
    assert wrong.errors == ("UNKNOWN_TOPIC_OR_PARTITION",)
    (fetched,) = log.of("Fetch", topic="prices")
    assert fetched.topics == ("orders", "prices")
    assert [each.api for each in log.of(error="UNKNOWN_TOPIC_OR_PARTITION")] == ["Produce"]
    assert len(log.of("Produce", topic="prices")) == 0
    assert (log[-1].api, log[-1].group) == ("OffsetFetch", "readers")
    assert [each.api for each in log][:2] == ["ApiVersions", "Metadata"]
    assert log[0].time_ms <= log[-1].time_ms


def test_unanswered_requests_are_logged(broker: BrokerThread, client: Client) -> None:
    produce(client, "orders", 0, acks=0)
    client.metadata([])
    assert broker.request_log.of("Produce")[0].outcome == "not answered"
    connection = client.to_any(Deadline(10_000))
    connection.send(k01_fetch, fetch(client, "prices", max_wait_ms=60_000), Deadline(10_000))
    with Client(broker.bootstrap_servers) as other:
        other.metadata([])
        (waiting,) = broker.request_log.of("Fetch")
        assert (waiting.outcome, waiting.duration_ms) == ("waiting", None)
        assert str(waiting).endswith("prices  -> waiting")
        client.close()
        while waiting.outcome == "waiting":
            other.metadata([])
        assert waiting.outcome == "not answered"
    assert broker._hosted._dispatcher is not None
    assert broker._hosted._dispatcher._pending == {}


def test_parked_request_is_logged_as_answered(broker: BrokerThread, client: Client) -> None:
    connection = client.to_any(Deadline(10_000))
    connection.send(k01_fetch, fetch(client, "prices", max_wait_ms=60_000), Deadline(10_000))
    broker.produce("prices", "1.20")
    connection.receive(Deadline(10_000))
    (fetched,) = broker.request_log.of("Fetch")
    assert fetched.outcome == "answered"
    assert fetched.duration_ms is not None
    assert broker._hosted._dispatcher is not None
    assert broker._hosted._dispatcher._pending == {}


def test_a_request_that_fails_as_a_whole(broker: BrokerThread, client: Client) -> None:
    request = k11_join_group.Request(
        group_id="", session_timeout_ms=1, rebalance_timeout_ms=1, member_id="", protocol_type="x", protocols=[]
    )
    answer = client.to_any(Deadline(10_000)).ask(k11_join_group, request, Deadline(10_000))
    (joined,) = broker.request_log.of("JoinGroup")
    assert joined.errors == (BY_CODE[answer.error_code].name,)


def test_requests_of_several_clients_are_kept_apart(broker: BrokerThread) -> None:
    def ask() -> None:
        with Client(broker.bootstrap_servers) as client:
            for _ in range(50):
                client.ask(k03_metadata, k03_metadata.Request(topics=[], allow_auto_topic_creation=False))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = broker.request_log.of("Metadata")
    assert len(found) == 4 * 50
    assert {each.outcome for each in found} == {"answered"}
    broker.reset()
    assert len(broker.request_log) == 0


def test_how_it_reads() -> None:
    alike = [LoggedRequest(1000 + n, "till", "127.0.0.1", "Fetch", 13, ("orders",), outcome="answered", duration_ms=0.25) for n in range(3)]
    many = tuple(f"topic-{number}" for number in range(6))
    other = LoggedRequest(
        5000, None, "127.0.0.1", "AddPartitionsToTxn", 3, many, transactional_id="t", errors=("A", "B"), outcome="answered"
    )
    log = RequestLog([*alike, other])
    first, last = str(log).splitlines()
    assert first.endswith("till  Fetch v13  orders  0.2 ms  (and 2 more like this)")
    assert last.endswith("-  AddPartitionsToTxn v3  topic-0 topic-1 topic-2 topic-3 and 2 more  transactional_id=t  -> A, B")
    assert log.lines(1) == ["... 1 lines before", last]
    assert repr(log[1:]) == "<RequestLog of 3 requests>"
    again = from_json(json.loads(json.dumps(to_json(log))))
    assert list(again) == list(log)


def test_what_is_kept_of_a_request_is_bounded() -> None:
    broker = BrokerInMemory()
    broker.dispatcher = recorder = RecordingDispatcher(broker.services)
    topics = [k03_metadata.Topic(name=f"topic-{number}") for number in range(1_000)]
    broker.ask(k03_metadata.Request(topics=topics, allow_auto_topic_creation=False), client_id="c" * 5_000)
    broker.ask(k12_heartbeat.Request(group_id="g" * 5_000, generation_id=1, member_id="m"))
    long = [k03_metadata.Topic(name=f"{number}" + "t" * 6_000) for number in range(10)]
    broker.ask(k03_metadata.Request(topics=long, allow_auto_topic_creation=False))
    kept, beat, few = recorder.request_log
    assert few.topics == tuple(f"{number}" + "t" * 999 for number in range(2))
    assert kept.topics == tuple(f"topic-{number}" for number in range(200))
    assert kept.client_id == "c" * 1_000
    assert beat.group == "g" * 1_000
