"""Capture the answers to a waiting Fetch whose partition changes its leader, loses a replica, or is deleted.

Starts a cluster of three Kafkas and writes `waiting_fetch_kafka_4.3.1.json` in tests/golden;
tests/dispatch/test_waiting_fetch.py asks minibroker
the same. A row says whether the answer came at once or after max_wait_ms, and its content. The last rows are the error codes of a
broker that is not, or no longer, the leader, by the client's leader epoch.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k19_create_topics,
    k20_delete_topics,
    k23_offset_for_leader_epoch,
    k43_elect_leaders,
    k45_alter_partition_reassignments,
)
from minibroker.wire.api import api_of
from minibroker.wire.codec import decode
from minibroker.wire.header import decode_response_header, response_header_version
from tests.support.broker_in_memory import frame_of, records
from tests.support.java import KAFKA_VERSION

ANSWERS = Path(__file__).parents[1] / "waiting_fetch_kafka_4.3.1.json"
WAIT_MS = 12_000  #: of each Fetch
AT_ONCE_MS = 4_000  #: behind what happens; no Fetch's time is up then
_TIMEOUT_S = 60.0

#: topic -> replicas of its partition; "still" has nothing happen to it
REPLICAS = {"moved": [1, 2], "shrunk": [1, 2, 3], "deleted": [1, 2], "still": [1, 2]}


class Waiting(Protocol):
    """A request that was sent."""

    @property
    def is_done(self) -> bool:
        """Whether the answer is there."""

    def answer(self) -> Any:
        """The answer; Apache Kafka's is waited for."""


class Brokers(Protocol):
    """Three of them, by their ids."""

    def ask(self, node: int, request: Any, version: int | None = None) -> Any:
        """An answer."""

    def begin(self, node: int, request: Any, version: int | None = None) -> Waiting:
        """A request that may wait."""

    def let_pass(self, ms: int) -> None:
        """Let time go by."""


class Fetching(NamedTuple):
    """One Fetch of a topic's end."""

    node: int
    version: int = 18
    epoch: int = 0  #: in which the client believes; -1: it says none
    isolation: int = 0
    min_bytes: int = 1
    beside: str | None = None  #: another topic that it asks for
    in_session: bool = False  #: it names nothing: a session knows


#: topic -> what is waited for there, in words
FETCHES: Mapping[str, Mapping[str, Fetching]] = {
    "moved": {
        "the leader": Fetching(1),
        "the leader, without an epoch": Fetching(1, epoch=-1),
        "the leader, 10": Fetching(1, version=10),
        "the leader, 10, without an epoch": Fetching(1, version=10, epoch=-1),
        "the leader, 4": Fetching(1, version=4),
        "the leader, 4, read_committed": Fetching(1, version=4, isolation=1),
        "the leader, read_committed": Fetching(1, isolation=1),
        "the leader, for more bytes": Fetching(1, min_bytes=1000),
        "the leader, 10, without an epoch, for more bytes": Fetching(1, version=10, epoch=-1, min_bytes=1000),
        "the leader, beside another": Fetching(1, beside="still"),
        "the leader, 10, without an epoch, beside another": Fetching(1, version=10, epoch=-1, beside="still"),
        "the leader, in a session": Fetching(1, in_session=True),
        "the leader, 10, without an epoch, in a session": Fetching(1, version=10, epoch=-1, in_session=True),
        "the next leader": Fetching(2),
        "the next leader, without an epoch": Fetching(2, epoch=-1),
    },
    "shrunk": {
        "the leader that stays": Fetching(1),
        "the leader that stays, without an epoch": Fetching(1, epoch=-1),
        "the leader that stays, 4": Fetching(1, version=4),
        "the follower that stays": Fetching(2),
        "the follower that stays, without an epoch": Fetching(2, epoch=-1),
        "the replica that goes": Fetching(3),
        "the replica that goes, without an epoch": Fetching(3, epoch=-1),
    },
    "deleted": {
        "by name": Fetching(1, version=12),
        "by name, 4": Fetching(1, version=4),
        "by id": Fetching(1),
        "in a session": Fetching(1, in_session=True),
        "a follower": Fetching(2),
    },
}


def fetch_of(each: Fetching, topics: Sequence[str], ids: Mapping[str, UUID], offset: int, **more: Any) -> k01_fetch.Request:
    """The request."""
    partitions = [
        k01_fetch.Topic(
            topic=name if each.version < 13 else "",
            topic_id=ids[name] if each.version >= 13 else UUID(int=0),
            partitions=[
                k01_fetch.Partition(partition=0, fetch_offset=offset, current_leader_epoch=each.epoch, partition_max_bytes=1 << 20)
            ],
        )
        for name in topics
    ]
    fields = {"max_wait_ms": WAIT_MS, "session_epoch": -1} | more
    return k01_fetch.Request(min_bytes=each.min_bytes, isolation_level=each.isolation, topics=partitions, **fields)


def begin(brokers: Brokers, each: Fetching, topic: str, ids: Mapping[str, UUID]) -> Waiting:
    """A Fetch that waits: of the end of a log of one record."""
    topics = [topic] if each.beside is None else [topic, each.beside]
    if not each.in_session:
        return brokers.begin(each.node, fetch_of(each, topics, ids, 1), each.version)
    opened = brokers.ask(each.node, fetch_of(each, topics, ids, 1, session_epoch=0, max_wait_ms=0), each.version)
    assert opened.session_id, opened
    within = {"session_id": opened.session_id, "session_epoch": 1}
    return brokers.begin(each.node, fetch_of(each, [], ids, 1, **within), each.version)


def row(answer: Any, topic_of: Mapping[object, str]) -> list[Any]:
    """Return the error, the result of each partition, and the brokers in the answer."""
    results = [
        [
            topic_of[topic.topic or topic.topic_id],
            result.error_code,
            result.high_watermark,
            len(result.records or b""),
            result.aborted_transactions is None,
            [result.current_leader.leader_id, result.current_leader.leader_epoch],
        ]
        for topic in answer.responses
        for result in topic.partitions
    ]
    return [answer.error_code, results, sorted(each.node_id for each in answer.node_endpoints)]


def create(brokers: Brokers) -> dict[str, UUID]:
    """The topics, each with a record that all replicas show; their ids."""
    topics = [
        k19_create_topics.Topic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[k19_create_topics.Assignment(partition_index=0, broker_ids=replicas)],
            configs=[],
        )
        for name, replicas in REPLICAS.items()
    ]
    made = brokers.ask(1, k19_create_topics.Request(topics=topics, timeout_ms=10_000))
    ids = {each.name: each.topic_id for each in made.topics}
    data = [k00_produce.Partition(index=0, records=records(1))]
    for name, replicas in REPLICAS.items():
        topic = k00_produce.Topic(topic_id=ids[name], partition_data=data)
        request = k00_produce.Request(acks=-1, timeout_ms=10_000, topic_data=[topic])
        _until(partial(_is_written, brokers, request))
        for node in replicas:
            _until(partial(_is_shown, brokers, node, fetch_of(Fetching(node), [name], ids, 0, max_wait_ms=0)))
    return ids


def _is_written(brokers: Brokers, request: k00_produce.Request) -> bool:
    return not brokers.ask(1, request).responses[0].partition_responses[0].error_code


def _is_shown(brokers: Brokers, node: int, look: k01_fetch.Request) -> bool:
    shown: int = brokers.ask(node, look).responses[0].partitions[0].high_watermark
    return shown == 1


def _until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + _TIMEOUT_S
    while not is_so():
        assert time.monotonic() < end_s, "that does not come"
        time.sleep(0.1)


def reassign(brokers: Brokers, topic: str, replicas: list[int]) -> None:
    """Other replicas, and done when this returns."""
    partition = k45_alter_partition_reassignments.Partition(partition_index=0, replicas=replicas)
    requested_topic = k45_alter_partition_reassignments.Topic(name=topic, partitions=[partition])
    answer = brokers.ask(1, k45_alter_partition_reassignments.Request(timeout_ms=10_000, topics=[requested_topic]))
    assert answer.responses[0].partitions[0].error_code == 0, answer
    look = k03_metadata.Request(topics=[k03_metadata.Topic(name=topic)])
    _until(lambda: list(brokers.ask(1, look).topics[0].partitions[0].replica_nodes) == replicas)


def move(brokers: Brokers, topic: str, replicas: list[int]) -> None:
    """The first of these replicas leads."""
    reassign(brokers, topic, replicas)
    topics = [k43_elect_leaders.Topic(topic=topic, partitions=[0])]
    answer = brokers.ask(1, k43_elect_leaders.Request(election_type=0, topic_partitions=topics, timeout_ms=10_000))
    assert answer.error_code == 0, answer


def delete(brokers: Brokers, topic: str) -> None:
    """The topic goes."""
    named = [k20_delete_topics.Topic(name=topic, topic_id=UUID(int=0))]
    answer = brokers.ask(1, k20_delete_topics.Request(topics=named, timeout_ms=10_000))
    assert answer.responses[0].error_code == 0, answer


def converse(brokers: Brokers) -> dict[str, Any]:
    """Everything that is waited for, with what came of it."""
    ids = create(brokers)
    topic_of: dict[object, str] = {**{name: name for name in ids}, **{topic_id: name for name, topic_id in ids.items()}}
    acts: dict[str, Callable[[], None]] = {
        "moved": lambda: move(brokers, "moved", [2, 1]),
        "shrunk": lambda: reassign(brokers, "shrunk", [1, 2]),
        "deleted": lambda: delete(brokers, "deleted"),
    }
    answers: dict[str, Any] = {}
    for topic, act in acts.items():
        waiting = {what: begin(brokers, each, topic, ids) for what, each in FETCHES[topic].items()}
        act()
        brokers.let_pass(AT_ONCE_MS)
        come = {what: each.is_done for what, each in waiting.items()}
        brokers.let_pass(WAIT_MS)
        for what, each in waiting.items():
            answers[f"{topic}: {what}"] = ["at once" if come[what] else "in the end", *row(each.answer(), topic_of)]
    return answers | ask_by_epoch(brokers, ids["moved"])


def ask_by_epoch(brokers: Brokers, topic_id: UUID) -> dict[str, Any]:
    """At the leader before, and at a broker without a replica; the leader epoch is 1."""
    answers: dict[str, Any] = {}
    for where, node in (("the leader before", 1), ("a stranger", 3)):
        for epoch in (-1, 0, 1, 2):
            at = k02_list_offsets.Partition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
            listing = k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="moved", partitions=[at])])
            end = k23_offset_for_leader_epoch.Partition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
            asking = k23_offset_for_leader_epoch.Request(
                replica_id=-1, topics=[k23_offset_for_leader_epoch.Topic(topic="moved", partitions=[end])]
            )
            fetching = fetch_of(Fetching(node, 10, epoch), ["moved"], {"moved": topic_id}, 0, max_wait_ms=0)
            answers[f"{where}, asked in epoch {epoch}"] = [
                brokers.ask(node, fetching, 10).responses[0].partitions[0].error_code,
                brokers.ask(node, listing).topics[0].partitions[0].error_code,
                brokers.ask(node, asking).topics[0].partitions[0].error_code,
            ]
    return answers


class _Sent:
    """A request on a connection of its own."""

    def __init__(self, address: str, request: Any, version: int | None) -> None:
        host, _, port = address.rpartition(":")
        self._api = api_of(sys.modules[type(request).__module__])
        self._version = self._api.max_version if version is None else version
        self._connection = socket.create_connection((host, int(port)), _TIMEOUT_S)
        frame = bytes(frame_of(request, self._version))
        self._connection.sendall(struct.pack(">i", len(frame)) + frame)
        self._sent_s = time.monotonic()

    @property
    def is_done(self) -> bool:
        assert time.monotonic() - self._sent_s < WAIT_MS / 1000 - 1, "too late to tell"
        return bool(select.select([self._connection], [], [], 0)[0])

    def answer(self) -> Any:
        with self._connection, self._connection.makefile("rb") as answers:
            body = answers.read(struct.unpack(">i", answers.read(4))[0])
        _, position = decode_response_header(body, response_header_version(self._api, self._version))
        return decode(self._api.Response, body[position:], self._version, flexible=self._api.flexible(self._version))


class _Kafkas:
    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = dict(enumerate(addresses, 1))

    def ask(self, node: int, request: Any, version: int | None = None) -> Any:
        return self.begin(node, request, version).answer()

    def begin(self, node: int, request: Any, version: int | None = None) -> _Sent:
        return _Sent(self._addresses[node], request, version)

    def let_pass(self, ms: int) -> None:
        time.sleep(ms / 1000)


def capture() -> None:
    """Ask three Kafkas, and write down what they say."""
    from tests.support.kafka_cluster import KafkaCluster

    with KafkaCluster(voters=[1]) as kafka:
        result = converse(_Kafkas(kafka.addresses))
    lines = ",\n".join(f"  {json.dumps(what)}: {json.dumps(found)}" for what, found in result.items())
    provenance = f"Apache Kafka {KAFKA_VERSION}, three brokers, tests/golden/captures/waiting.py"
    ANSWERS.write_text(f'{{\n "provenance": {json.dumps(provenance)},\n "answers": {{\n{lines}\n }}\n}}\n')
