"""Conversations that make progress: each reads the answers that it gets, so that later requests reach code that random ones rarely do.

A sequence yields (API key, fields) and is sent the decoded answer, None when the connection was closed. Fields that are
not given are drawn as for any other request, versions too; the driver mutates a step now and then, so a sequence takes any answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from random import Random
from typing import Any

from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k08_offset_commit,
    k11_join_group,
    k13_leave_group,
    k14_sync_group,
    k24_add_partitions_to_txn,
    k28_txn_offset_commit,
    k68_consumer_group_heartbeat,
    k78_share_fetch,
    k79_share_acknowledge,
    k88_streams_group_heartbeat,
)
from minibroker.wire.schema import NIL_UUID
from tests.fuzz.values import PATTERNS
from tests.fuzz.world import CLASSIC, CONSUMER, INSTANCES, SHARE, STREAMS, TOPICS, World

Step = tuple[int, dict[str, Any]]
Sequence = Generator[Step, Any, None]

_NOT_NEEDED = {
    "rack_id": None,
    "rebalance_timeout_ms": 1000,
    "user_endpoint": None,
    "client_tags": None,
    "task_offsets": None,
    "task_end_offsets": None,
    "shutdown_application": False,
    "endpoint_information_epoch": 0,
}
_SUBSCRIPTION = b"\0\1\0\0\0\1\0\5alpha\xff\xff\xff\xff\0\0\0\0"
_ASSIGNMENT = b"\0\1\0\0\0\1\0\5alpha\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"


def _committed(chance: Random) -> list[Any]:
    partition = k08_offset_commit.Partition(
        partition_index=chance.randrange(3), committed_offset=chance.randrange(50), committed_metadata="m"
    )
    return [k08_offset_commit.Topic(name=chance.choice(TOPICS), topic_id=NIL_UUID, partitions=[partition])]


def classic_member(world: World, chance: Random) -> Sequence:
    """Join, sync, heartbeat, commit, and mostly leave."""
    group, member, generation = world.group_of(CLASSIC, chance), "", -1
    instance = chance.choice((None, None, None, *INSTANCES))
    protocols = [k11_join_group.Protocol(name=name, metadata=_SUBSCRIPTION) for name in ("range", "roundrobin")]
    mine = {"group_id": group, "group_instance_id": instance}
    for _ in range(3):
        joined = yield 11, {**mine, "member_id": member, "protocol_type": "consumer", "protocols": protocols, "session_timeout_ms": 1000}
        if joined is None:
            return
        member, generation = joined.member_id, joined.generation_id
        if joined.error_code == 0:
            break
    members = [each.member_id for each in joined.members] or [member]
    assignments = [k14_sync_group.Assignment(member_id=each, assignment=_ASSIGNMENT) for each in members]
    known = {**mine, "member_id": member, "generation_id": generation}
    yield 14, {**known, "assignments": assignments, "protocol_type": "consumer", "protocol_name": "range"}
    for _ in range(chance.randrange(4)):
        yield 12, known
        yield 8, {**mine, "member_id": member, "generation_id_or_member_epoch": generation, "topics": _committed(chance)}
        yield 9, {"group_id": group}
    if chance.random() < 0.8:
        yield (
            13,
            {"group_id": group, "member_id": member, "members": [k13_leave_group.Member(member_id=member, group_instance_id=instance)]},
        )


def consumer_member(world: World, chance: Random) -> Sequence:
    """A member of the new protocol: joins, owns what it was assigned, commits, leaves."""
    group, member, epoch, owned = world.group_of(CONSUMER, chance), f"member-{chance.randrange(8)}", 0, list[Any]()
    instance = chance.choice((None, None, *INSTANCES))
    base = {"group_id": group, "instance_id": instance}
    for _ in range(chance.randint(2, 6)):
        pattern = chance.choice((None, None, *PATTERNS)) if epoch == 0 else None
        wishes = {
            "rebalance_timeout_ms": 1000 if epoch == 0 else -1,
            "server_assignor": None,
            "rack_id": None,
            "subscribed_topic_regex": pattern,
        }
        owned = owned if epoch else []
        topics = chance.choice((["alpha"], ["alpha", "beta"], list(TOPICS))) if epoch == 0 or chance.random() < 0.2 else None
        answer = yield (
            68,
            {**base, **wishes, "member_id": member, "member_epoch": epoch, "subscribed_topic_names": topics, "topic_partitions": owned},
        )
        if answer is None:
            return
        if answer.error_code == 0:
            member, epoch = answer.member_id or member, answer.member_epoch
            if answer.assignment is not None:
                owned = [
                    k68_consumer_group_heartbeat.TopicPartitions(topic_id=each.topic_id, partitions=list(each.partitions))
                    for each in answer.assignment.topic_partitions
                ]
            yield 8, {"group_id": group, "member_id": member, "generation_id_or_member_epoch": epoch, "topics": _committed(chance)}
        else:
            epoch = 0
    yield 69, {"group_ids": [group]}
    if chance.random() < 0.8:
        yield 68, {**base, "member_id": member, "member_epoch": chance.choice((-1, -1, -2)), "topic_partitions": None}


def streams_member(world: World, chance: Random) -> Sequence:
    """A member of a streams group with a topology of two subtopologies."""
    group, member, epoch = world.group_of(STREAMS, chance), f"member-{chance.randrange(4)}", 0

    def part(name: str, source: str) -> Any:
        return k88_streams_group_heartbeat.Subtopology(
            subtopology_id=name,
            source_topics=[source],
            source_topic_regex=[],
            state_changelog_topics=[],
            repartition_sink_topics=[],
            repartition_source_topics=[],
            copartition_groups=[],
        )

    topology = k88_streams_group_heartbeat.Topology(epoch=0, subtopologies=[part("0", "alpha"), part("1", "beta")])
    for _ in range(chance.randint(2, 5)):
        fields = {"group_id": group, "member_id": member, "member_epoch": epoch, "process_id": "p1", "instance_id": None, **_NOT_NEEDED}
        own: dict[str, Any] = (
            {"topology": topology, "active_tasks": [], "standby_tasks": [], "warmup_tasks": []} if epoch == 0 else {"topology": None}
        )
        answer = yield 88, {**fields, **own}
        if answer is None:
            return
        epoch = answer.member_epoch if answer.error_code == 0 else 0
    yield 89, {"group_ids": [group]}
    if chance.random() < 0.8:
        yield 88, {"group_id": group, "member_id": member, "member_epoch": -1, "topology": None}


def fetch_session(world: World, chance: Random) -> Sequence:
    """Open a fetch session, go on in it, change and close it."""
    session, epoch = 0, 0

    def topics() -> list[Any]:
        partitions = [
            k01_fetch.Partition(partition=number, fetch_offset=chance.randrange(20), partition_max_bytes=10_000) for number in range(2)
        ]
        name = chance.choice(TOPICS)
        return [k01_fetch.Topic(topic=name, topic_id=world.topic_id(chance), partitions=partitions)]

    for turn in range(chance.randint(2, 8)):
        asked = topics() if turn == 0 or chance.random() < 0.4 else []
        answer = yield 1, {"session_id": session, "session_epoch": epoch, "topics": asked, "forgotten_topics_data": [], "max_wait_ms": 0}
        if answer is None:
            return
        session, epoch = (answer.session_id or session, epoch + 1) if answer.error_code == 0 else (0, 0)
    yield 1, {"session_id": session, "session_epoch": -1, "topics": []}


_FETCH: dict[str, Any] = {
    "forgotten_topics_data": [],
    "max_wait_ms": 0,
    "max_records": 50,
    "batch_size": 10,
    "max_bytes": 100_000,
    "is_renew_ack": False,
}


def share_member(world: World, chance: Random) -> Sequence:
    """Join a share group, fetch, acknowledge in every way, close the session, mostly leave."""
    group, member = world.group_of(SHARE, chance), f"AAAAAAAAAAAAAAAAAAAA{chance.randrange(8)}w"
    epoch = 0
    for _ in range(2):
        answer = yield 76, {"group_id": group, "member_id": member, "member_epoch": epoch, "subscribed_topic_names": list(TOPICS[:3])}
        if answer is None:
            return
        epoch = answer.member_epoch if answer.error_code == 0 else 0
    who = {"group_id": group, "member_id": member}
    topics = [
        k78_share_fetch.Topic(
            topic_id=world.topic_id(chance),
            partitions=[k78_share_fetch.Partition(partition_index=number, acknowledgement_batches=[]) for number in range(2)],
        )
    ]
    answer = yield 78, {**who, "share_session_epoch": 0, "topics": topics, **_FETCH}
    for turn in range(1, chance.randint(2, 6)):
        if answer is None:
            return
        acknowledged = []
        for topic in getattr(answer, "responses", ()):
            partitions = [
                k79_share_acknowledge.Partition(
                    partition_index=each.partition_index,
                    acknowledgement_batches=[
                        k79_share_acknowledge.AcknowledgementBatch(
                            first_offset=taken.first_offset,
                            last_offset=taken.last_offset,
                            acknowledge_types=[chance.choice((1, 1, 2, 3, 0))],
                        )
                        for taken in getattr(each, "acquired_records", None) or ()
                    ],
                )
                for each in topic.partitions
            ]
            acknowledged.append(k79_share_acknowledge.Topic(topic_id=topic.topic_id, partitions=partitions))
        if acknowledged and chance.random() < 0.7:
            yield 79, {**who, "share_session_epoch": turn, "topics": acknowledged, "is_renew_ack": False}
            return
        answer = yield 78, {**who, "share_session_epoch": turn, "topics": [], **_FETCH}
    yield 79, {**who, "share_session_epoch": -1, "topics": []}
    if chance.random() < 0.7:
        yield 76, {**who, "member_epoch": -1, "subscribed_topic_names": None}


def transaction(world: World, chance: Random) -> Sequence:
    """Begin, add partitions, produce, commit offsets, end; or leave it open for its time-out."""
    transactional_id, topic = world.transactional_id(chance), chance.choice(TOPICS[:2])
    fields: dict[str, Any] = {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": chance.choice((1000, 4000)),
        "enable_2pc": False,
    }
    begun = yield 22, {**fields, "producer_id": -1, "producer_epoch": -1, "keep_prepared_txn": False}
    if begun is None or begun.error_code:
        return
    producer = {"transactional_id": transactional_id, "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    added = [k24_add_partitions_to_txn.Topic(name=topic, partitions=[0, 1])]
    yield (
        24,
        {
            "v3_and_below_transactional_id": transactional_id,
            "v3_and_below_producer_id": begun.producer_id,
            "v3_and_below_producer_epoch": begun.producer_epoch,
            "v3_and_below_topics": added,
            "transactions": [k24_add_partitions_to_txn.Transaction(**producer, verify_only=False, topics=added)],
        },
    )
    for sequence in range(chance.randrange(3)):
        yield (
            0,
            {
                "acks": -1,
                "transactional_id": transactional_id,
                "topic_data": _batch(topic, chance, begun.producer_id, begun.producer_epoch, sequence),
            },
        )
    if chance.random() < 0.5:
        group = world.group_of(CLASSIC, chance)
        yield 25, {**producer, "group_id": group}
        offsets = [
            k28_txn_offset_commit.Topic(
                name=topic, partitions=[k28_txn_offset_commit.Partition(partition_index=0, committed_offset=3, committed_metadata=None)]
            )
        ]
        yield 28, {**producer, "group_id": group, "generation_id": -1, "member_id": "", "group_instance_id": None, "topics": offsets}
    yield 61, {}
    yield 65, {"transactional_ids": [transactional_id]}
    if chance.random() < 0.8:
        yield 26, {**producer, "committed": chance.random() < 0.6}


def _batch(topic: str, chance: Random, producer_id: int, epoch: int, sequence: int, *, transactional: bool = True) -> list[Any]:
    records = [Record(0, int(time.time() * 1000), b"k%d" % chance.randrange(9), b"v")]
    batch = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=transactional)
    return [k00_produce.Topic(name=topic, topic_id=NIL_UUID, partition_data=[k00_produce.Partition(index=0, records=bytes(batch))])]


def idempotent_producer(world: World, chance: Random) -> Sequence:
    """Batches in sequence, some of them twice or out of order."""
    begun = yield 22, {"transactional_id": None, "producer_id": -1, "producer_epoch": -1, "enable_2pc": False, "keep_prepared_txn": False}
    if begun is None or begun.error_code:
        return
    for sequence in chance.choice(((0, 1, 2, 3), (0, 0, 1), (0, 2, 1), (5,))):
        data = _batch(chance.choice(TOPICS[:2]), chance, begun.producer_id, begun.producer_epoch, sequence, transactional=False)
        yield 0, {"acks": -1, "transactional_id": None, "topic_data": data}
    yield 61, {}


SEQUENCES: tuple[Callable[[World, Random], Sequence], ...] = (
    classic_member,
    classic_member,
    consumer_member,
    streams_member,
    fetch_session,
    share_member,
    transaction,
    idempotent_producer,
)
