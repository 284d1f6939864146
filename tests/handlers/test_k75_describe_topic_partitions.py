"""DescribeTopicPartitions: golden frames of real clients; pages, cursors and codes as Apache Kafka 4.3.1 gave them to the same requests
(raw frames, one KRaft node, 2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.schemas import k75_describe_topic_partitions as schema
from tests.golden import all_golden, golden
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve, topic_ids

STEM = "k75_describe_topic_partitions"
REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == STEM and frame.direction == "request")
TOPICS = {"m1": 3, "m2": 2, "z-9": 2, "a_1": 1, "Z": 1, "m10": 1}
LONGEST_NAME = "x" * 249

Page = list[tuple[str, int, list[int]]]  #: topic, error code, partitions
Cursor = tuple[str, int] | None


def ask(broker: BrokerInMemory, names: list[str], limit: int = 2000, cursor: Cursor = None) -> schema.Response:
    start = None if cursor is None else schema.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [schema.Topic(name=name) for name in names]
    answer: schema.Response = broker.ask(schema.Request(topics=topics, response_partition_limit=limit, cursor=start))
    return answer


def page(answer: schema.Response) -> Page:
    return [(topic.name or "", topic.error_code, [partition.partition_index for partition in topic.partitions]) for topic in answer.topics]


def next_of(answer: schema.Response) -> Cursor:
    return None if answer.next_cursor is None else (answer.next_cursor.topic_name, answer.next_cursor.partition_index)


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = golden(name)
    expected = answer_of(request)
    known = [topic for topic in expected.topics if topic.error_code == 0]
    is_cut = expected.next_cursor is not None
    broker = kafka_like()
    topic_ids(monkeypatch, [topic.topic_id for topic in known])
    for topic in known:
        broker.cluster.create_topic(topic.name, partition_count=len(topic.partitions) + (is_cut and topic is known[-1]))

    assert serve(broker, request) == kafka_answer(request)


def test_sorted_unique_topic_names() -> None:
    names = ["z-9", "m10", "Z", "m1", "m2", "a_1", "m1"]
    expected = [("Z", 0, [0]), ("a_1", 0, [0]), ("m1", 0, [0, 1, 2]), ("m10", 0, [0]), ("m2", 0, [0, 1]), ("z-9", 0, [0, 1])]
    broker = BrokerInMemory(topics=TOPICS)
    for requested in (names, []):
        answer = ask(broker, requested)
        assert page(answer) == expected
        assert next_of(answer) is None


def test_described_fields_of_a_topic() -> None:
    broker = kafka_like(topics={"m1": 1, "__consumer_offsets": 1})
    internal, plain = ask(broker, []).topics
    assert (internal.is_internal, plain.is_internal) == (True, False)
    assert plain.topic_id == broker.cluster.topic("m1").topic_id
    assert plain.topic_authorized_operations == 3576
    assert plain.partitions == [
        schema.PartitionResult(
            error_code=0,
            partition_index=0,
            leader_id=1,
            leader_epoch=0,
            replica_nodes=[1],
            isr_nodes=[1],
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=[],
        )
    ]


def test_offline_partition_has_no_leader() -> None:
    broker = kafka_like(topics={"m1": 2})
    broker.cluster.partition("m1", 1).online_log = None
    online, offline = ask(broker, ["m1"]).topics[0].partitions
    assert (online.error_code, online.leader_id) == (0, 1)
    assert (offline.error_code, offline.leader_id, offline.isr_nodes, offline.offline_replicas) == (0, -1, [], [1])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["nope", "m1", "zzz", "aaa"], [("aaa", 3, []), ("m1", 0, [0, 1, 2]), ("nope", 3, []), ("zzz", 3, [])]),
        (["a/b", "m1"], [("a/b", 17, []), ("m1", 0, [0, 1, 2])]),
        ([".", ".."], [(".", 17, []), ("..", 17, [])]),
        (["x" * 250], [("x" * 250, 17, [])]),
        ([LONGEST_NAME], [(LONGEST_NAME, 3, [])]),
        (["__cluster_metadata"], [("__cluster_metadata", 3, [])]),
        (["zz zz", "zz zz"], [("zz zz", 17, [])]),
        ([""], [("", 17, [])]),  # not Kafka's: it fails the whole request with UNKNOWN_SERVER_ERROR
    ],
)  # fmt: skip
def test_unknown_topics(names: list[str], expected: Page) -> None:
    broker = BrokerInMemory(topics=TOPICS)
    answer = ask(broker, names)
    assert page(answer) == expected
    assert {topic.topic_authorized_operations for topic in answer.topics} == {3576}
    assert set(broker.cluster.topics) == set(TOPICS)  # asking creates nothing


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "expected", "next_cursor"),
    [
        (["m1", "m2"], 2, None, [("m1", 0, [0, 1])], ("m1", 2)),
        (["m1", "m2"], 3, None, [("m1", 0, [0, 1, 2])], ("m2", 0)),
        (["m1", "m2"], 4, None, [("m1", 0, [0, 1, 2]), ("m2", 0, [0])], ("m2", 1)),
        (["m1", "m2"], 5, None, [("m1", 0, [0, 1, 2]), ("m2", 0, [0, 1])], None),
        (["m1", "m2"], 0, None, [("m1", 0, [0])], ("m1", 1)),
        (["m1", "m2"], -5, None, [("m1", 0, [0])], ("m1", 1)),
        (["m1", "m2"], 1, ("m1", 1), [("m1", 0, [1])], ("m1", 2)),
        (["m1", "m2"], 1, ("m1", 2), [("m1", 0, [2])], ("m2", 0)),
        (["m1", "m2"], 2000, ("m1", 1), [("m1", 0, [1, 2]), ("m2", 0, [0, 1])], None),
        (["m1", "m2"], 2000, ("m1", 3), [("m1", 0, []), ("m2", 0, [0, 1])], None),
        (["m1", "m2"], 2000, ("m1", 9), [("m1", 0, []), ("m2", 0, [0, 1])], None),
        (["m1", "m2"], 2000, ("m2", 0), [("m2", 0, [0, 1])], None),
        ([], 4, None, [("Z", 0, [0]), ("a_1", 0, [0]), ("m1", 0, [0, 1])], ("m1", 2)),
        ([], 2000, ("m2", 1), [("m2", 0, [1]), ("z-9", 0, [0, 1])], None),
        ([], 2000, ("m11", 1), [("m2", 0, [0, 1]), ("z-9", 0, [0, 1])], None),
        (["a", "m1", "m1a", "m2"], 3, None, [("a", 3, []), ("m1", 0, [0, 1, 2])], ("m1a", 0)),
        (["aaa", "m1"], 1, None, [("aaa", 3, []), ("m1", 0, [0])], ("m1", 1)),
        (["m1", "zz zz"], 3, None, [("m1", 0, [0, 1, 2])], ("zz zz", 0)),
        (["m1", "zz zz"], 4, None, [("m1", 0, [0, 1, 2]), ("zz zz", 17, [])], None),
        (["nope", "z-9"], 2000, ("nope", 0), [("nope", 3, []), ("z-9", 0, [0, 1])], None),
    ],
)  # fmt: skip
def test_pages(names: list[str], limit: int, cursor: Cursor, expected: Page, next_cursor: Cursor) -> None:
    answer = ask(BrokerInMemory(topics=TOPICS), names, limit, cursor)
    assert page(answer) == expected
    assert next_of(answer) == next_cursor


@pytest.mark.parametrize("cursor", [("m1", -1), ("m1", -5), ("m10", 0), ("m11", 1), ("zzz", 1), ("a", 0), ("", 0)])
def test_invalid_cursors(cursor: Cursor) -> None:
    answer = ask(BrokerInMemory(topics=TOPICS), ["m1", "m2"], cursor=cursor)
    assert page(answer) == [("m1", 42, []), ("m2", 42, [])]
    assert next_of(answer) is None


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 2000])
def test_pages_hold_every_partition_once(limit: int) -> None:
    broker = BrokerInMemory(topics=TOPICS)
    seen: list[tuple[str, int]] = []
    cursor: Cursor = None
    while True:
        answer = ask(broker, [], limit, cursor)
        found = [(name, index) for name, _, indexes in page(answer) for index in indexes]
        assert 0 < len(found) <= limit
        seen += found
        cursor = next_of(answer)
        if cursor is None:
            break
    assert seen == [(name, index) for name, count in sorted(TOPICS.items()) for index in range(count)]


def test_broker_limits_the_page_size() -> None:
    broker = BrokerInMemory(topics={"a": 2, "b": 3}, config={"max.request.partition.size.limit": "3"})
    answer = ask(broker, [], limit=2000)
    assert (page(answer), next_of(answer)) == ([("a", 0, [0, 1]), ("b", 0, [0])], ("b", 1))


def test_scenario_matches_apache_kafka() -> None:
    assert differences("k75_describe_topic_partitions") == []
