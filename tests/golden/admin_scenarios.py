"""Administration requests, sent to Apache Kafka by `captures/admin.py` and to minibroker by tests/handlers: the answers must be equal.

One scenario for each API, in order; each begins on a broker with the topics `one` (1 partition, retention.ms=5000) and `two` (2 partitions).
"""
# ruff: noqa: E501  a table of requests reads best one a line

from __future__ import annotations

from typing import Any
from uuid import UUID

from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k20_delete_topics as k20
from minibroker.schemas import k21_delete_records as k21
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k32_describe_configs as k32
from minibroker.schemas import k33_alter_configs as k33
from minibroker.schemas import k35_describe_log_dirs as k35
from minibroker.schemas import k37_create_partitions as k37
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.schemas import k60_describe_cluster as k60
from minibroker.schemas import k75_describe_topic_partitions as k75
from minibroker.wire.schema import NIL_UUID

UNKNOWN_ID = UUID("12345678-1234-1234-1234-123456789abc")
LONG_NAME = "x" * 249
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def create(name: str, count: int = 1, factor: int = 1, *, brokers: Any = (), configs: Any = (), validate_only: bool = True) -> k19.Request:
    assignments = [k19.Assignment(partition_index=index, broker_ids=list(ids)) for index, ids in brokers]
    settings = [k19.Config(name=key, value=value) for key, value in configs]
    topic = k19.Topic(name=name, num_partitions=count, replication_factor=factor, assignments=assignments, configs=settings)
    return k19.Request(topics=[topic], timeout_ms=1000, validate_only=validate_only)


def create_two(*names: str) -> k19.Request:
    topics = [k19.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names]
    return k19.Request(topics=topics, timeout_ms=1000, validate_only=True)


def delete(*topics: tuple[str | None, UUID]) -> k20.Request:
    return k20.Request(topics=[k20.Topic(name=name, topic_id=topic_id) for name, topic_id in topics], timeout_ms=1000)


def records_of(*topics: tuple[str, list[tuple[int, int]]]) -> k21.Request:
    requested_partitions = [
        (name, [k21.Partition(partition_index=index, offset=offset) for index, offset in parts]) for name, parts in topics
    ]
    return k21.Request(topics=[k21.Topic(name=name, partitions=partitions) for name, partitions in requested_partitions], timeout_ms=1000)


def producer(transactional_id: str | None = None, producer_id: int = -1, epoch: int = -1) -> k22.Request:
    return k22.Request(transactional_id=transactional_id, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch)


def describe(kind: int, name: str, *keys: str, synonyms: bool = True) -> k32.Request:
    resource = k32.Resource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return k32.Request(resources=[resource], include_synonyms=synonyms, include_documentation=False)


def replace(kind: int, name: str, *configs: tuple[str, str | None], times: int = 1) -> k33.Request:
    settings = [k33.Config(name=key, value=value) for key, value in configs]
    return k33.Request(resources=[k33.Resource(resource_type=kind, resource_name=name, configs=settings)] * times, validate_only=True)


def alter(kind: int, name: str, *configs: tuple[str, int, str | None], times: int = 1, validate_only: bool = True) -> k44.Request:
    settings = [k44.Config(name=key, config_operation=operation, value=value) for key, operation, value in configs]
    return k44.Request(
        resources=[k44.Resource(resource_type=kind, resource_name=name, configs=settings)] * times, validate_only=validate_only
    )


def log_dirs(topics: dict[str, list[int]] | None) -> k35.Request:
    if topics is None:
        return k35.Request(topics=None)
    return k35.Request(topics=[k35.Topic(topic=name, partitions=partitions) for name, partitions in topics.items()])


def grow(name: str, count: int, *, brokers: Any = None, times: int = 1, validate_only: bool = True) -> k37.Request:
    assignments = None if brokers is None else [k37.Assignment(broker_ids=ids) for ids in brokers]
    topic = k37.Topic(name=name, count=count, assignments=assignments)
    return k37.Request(topics=[topic] * times, timeout_ms=1000, validate_only=validate_only)


def cluster(endpoint_type: int, *, operations: bool) -> k60.Request:
    return k60.Request(include_cluster_authorized_operations=operations, endpoint_type=endpoint_type, include_fenced_brokers=False)


def page(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> k75.Request:
    start = None if cursor is None else k75.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return k75.Request(topics=[k75.Topic(name=name) for name in names], response_partition_limit=limit, cursor=start)


BAD_ASSIGNMENTS: list[list[tuple[int, list[int]]]] = [
    [(0, [1]), (2, [1])], [(1, [1])], [(0, [1]), (0, [1])], [(0, [5])], [(0, [1, 1])], [(0, [])], [(-1, [1])], [(0, [1]), (1, [1, 2])],
]  # fmt: skip
NEW_REPLICAS: list[list[list[int]]] = [[[1]], [[1], [1]], [[5]], [], [[]], [[1, 1]], [[1, 2]]]

SCENARIOS: dict[str, list[Any]] = {
    "k19_create_topics": [
        *(create(name) for name in ("", ".", "..", "a/b", LONG_NAME, LONG_NAME + "x", "ünicode", "a b", "a\x00b", "__cluster_metadata", "one")),
        create("made.here", 2, 1, configs=[("retention.ms", "77")], validate_only=False),
        create("made.here"),
        create("made_here"),
        create("new", -1, -1),
        *(create("new", count, 1) for count in (0, -2, 10_001, 2**31 - 1)),
        *(create("new", 1, factor) for factor in (0, -2, 2)),
        create("new", -1, -1, brokers=[(0, [1]), (1, [1])]),
        create("new", 2, -1, brokers=[(0, [1])]),
        create("new", -1, 1, brokers=[(0, [1])]),
        *(create("new", -1, -1, brokers=brokers) for brokers in BAD_ASSIGNMENTS),
        *(create("new", configs=configs) for configs in (
            [("foo", "1")], [("retention.ms", None)], [("retention.ms", "x")], [("retention.ms", "1"), ("retention.ms", "2")],
            [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")], [("remote.storage.enable", "true")],
            [("cleanup.policy", "compact,delete"), ("min.insync.replicas", "2")],
        )),
        create_two("twice", "twice"),
        create_two("fine", "not/fine"),
    ],
    "k20_delete_topics": [
        delete(("nope", NIL_UUID)),
        delete((None, UNKNOWN_ID)),
        delete(("nope", UNKNOWN_ID)),
        delete((None, NIL_UUID)),
        delete(("two", NIL_UUID), ("two", NIL_UUID)),
        delete((None, UNKNOWN_ID), (None, UNKNOWN_ID)),
        delete(("", NIL_UUID)),
        delete(("a/b", NIL_UUID)),
        delete(("two", NIL_UUID)),
        delete(("two", NIL_UUID)),
    ],
    "k21_delete_records": [
        records_of(("two", [(0, 0), (1, -1), (7, 0)]), ("nope", [(0, 0)])),
        records_of(("two", [(0, 1)])),
        records_of(("two", [(0, -2)])),
    ],
    "k22_init_producer_id": [producer(producer_id=5), producer(epoch=5), producer(""), producer(), producer(producer_id=5, epoch=3)],
    "k32_describe_configs": [
        describe(TOPIC, "one", "retention.ms", "segment.bytes", "flush.ms", "nope"),
        describe(TOPIC, "one", "retention.ms", synonyms=False),
        *(describe(TOPIC, name) for name in ("nope", "a/b", "")),
        describe(BROKER, "1", "log.retention.hours", "log.retention.ms", "message.max.bytes", "auto.create.topics.enable", "log.segment.bytes"),
        *(describe(BROKER, name) for name in ("", "2", "abc")),
    ],
    "k33_alter_configs": [
        *(replace(TOPIC, name, ("retention.ms", "9")) for name in ("one", "nope")),
        replace(TOPIC, "one", ("foo", "9")),
        replace(TOPIC, "one", ("retention.ms", None)),
        replace(TOPIC, "one", ("retention.ms", "9"), ("retention.ms", "8")),
        replace(TOPIC, "one"),
        replace(BROKER, "1", ("node.id", "3")),
        replace(BROKER, "1", ("message.max.bytes", "30")),
        replace(BROKER, "2", ("message.max.bytes", "30")),
        replace(99, "1", ("root", "DEBUG")),
    ],
    "k35_describe_log_dirs": [log_dirs({"two": [0, 7], "nope": [0]}), log_dirs({}), log_dirs(None)],
    "k37_create_partitions": [
        *(grow("two", count) for count in (1, 2, 0, -1, 3)),
        grow("nope", 3),
        *(grow("two", 3, brokers=brokers) for brokers in NEW_REPLICAS),
        grow("two", 3, times=2),
        grow("two", 4, validate_only=False),
        grow("two", 4),
    ],
    "k44_incremental_alter_configs": [
        *(alter(TOPIC, name, ("retention.ms", SET, "1")) for name in ("one", "nope", "", "a/b")),
        *(alter(TOPIC, "one", change) for change in (
            ("foo", SET, "1"), ("foo", DELETE, None), ("retention.ms", SET, None), ("retention.ms", SET, "x"), ("retention.ms", APPEND, "1"),
            ("cleanup.policy", APPEND, "compact"), ("cleanup.policy", SUBTRACT, "delete"), ("cleanup.policy", SUBTRACT, "nothere"),
        )),
        alter(TOPIC, "one", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        alter(TOPIC, "one"),
        alter(TOPIC, "one", times=2),
        *(alter(BROKER, "1", change) for change in (
            ("node.id", SET, "2"), ("log.dirs", SET, "/x"), ("message.max.bytes", SET, "x"), ("message.max.bytes", SET, "-1"),
            ("num.partitions", SET, "3"), ("message.max.bytes", SET, None), ("log.retention.ms", SET, "100000"),
            ("log.cleanup.policy", APPEND, "compact"),
        )),
        alter(BROKER, "2", ("message.max.bytes", SET, "1")),
        alter(BROKER, "abc", ("message.max.bytes", SET, "1")),
        alter(BROKER, "", ("advertised.listeners", SET, "PLAINTEXT://x:1")),
        alter(BROKER, "", ("log.cleaner.threads", SET, "2"), ("max.connections", SET, "2000")),
        alter(99, "x", ("a", SET, "b")),
        alter(TOPIC, "one", ("cleanup.policy", APPEND, "compact"), ("retention.ms", DELETE, None), validate_only=False),
        describe(TOPIC, "one", "cleanup.policy", "retention.ms"),
        alter(TOPIC, "one", ("cleanup.policy", SUBTRACT, "delete"), validate_only=False),
        describe(TOPIC, "one", "cleanup.policy"),
        alter(BROKER, "", ("log.segment.delete.delay.ms", SET, "5000"), validate_only=False),
        alter(BROKER, "1", ("log.segment.delete.delay.ms", SET, "4000"), validate_only=False),
        describe(TOPIC, "one", "file.delete.delay.ms"),
        describe(BROKER, "", "log.segment.delete.delay.ms"),
        alter(BROKER, "1", ("log.segment.delete.delay.ms", DELETE, None), validate_only=False),
        describe(BROKER, "1", "log.segment.delete.delay.ms"),
        alter(BROKER, "", ("log.segment.delete.delay.ms", DELETE, None), validate_only=False),
        describe(TOPIC, "one", "file.delete.delay.ms"),
    ],
    "k60_describe_cluster": [cluster(1, operations=True), cluster(1, operations=False), cluster(2, operations=False), cluster(3, operations=False)],
    "k75_describe_topic_partitions": [
        page("two", "one", "nope"),
        page(),
        page("one", "one"),
        *(page("two", "one", limit=limit) for limit in (2, 1, 0, -1)),
        page("two", "one", cursor=("two", 1)),
        page("two", "one", limit=1, cursor=("one", 0)),
        page("two", "one", cursor=("two", 77)),
        page("two", "one", cursor=("two", -1)),
        page("two", "one", cursor=("other", 0)),
    ],
}  # fmt: skip
