"""Committed offsets of a broker in memory, through its handlers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from minibroker.coordinator.group.coordinator import GroupCoordinator
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k28_txn_offset_commit as k28
from minibroker.wire.schema import NIL_UUID
from tests.support.broker_in_memory import BrokerInMemory

TOPIC = "__consumer_offsets"
GROUP = "readers"

Codes = list[tuple[str | UUID, list[tuple[int, int]]]]  #: topic -> (partition, error code)
Found = dict[tuple[str | UUID, int], Any]  #: offset, or (offset, leader epoch, metadata), or the name of an error


def broker_with_groups(topics: Mapping[str, int] | None = None, config: Mapping[str, str] | None = None, **options: Any) -> BrokerInMemory:
    """A broker whose `__consumer_offsets` is there, with one partition unless `config` says otherwise."""
    broker = BrokerInMemory(topics, {"offsets.topic.num.partitions": "1"} | dict(config or {}), **options)
    groups_of(broker)
    return broker


def groups_of(broker: BrokerInMemory) -> GroupCoordinator:
    """The broker's coordinator, ready to be asked."""
    groups = broker.services.coordinators.groups
    groups.ensure_topic()
    return groups


def _by_topic(offsets: Iterable[tuple[tuple[Any, int], Any]]) -> dict[str | UUID, list[tuple[int, Any]]]:
    topics: dict[str | UUID, list[tuple[int, Any]]] = {}
    for (topic, index), offset in offsets:
        topics.setdefault(topic, []).append((index, offset))
    return topics


def _name(topic: str | UUID) -> dict[str, Any]:
    return {"topic_id": topic} if isinstance(topic, UUID) else {"name": topic}


def _codes(answer: Any) -> Codes:
    return [
        (topic.name or getattr(topic, "topic_id", NIL_UUID), [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in answer.topics
    ]


def commit_request(
    offsets: Mapping[tuple[Any, int], Any],
    *,
    group: str = GROUP,
    generation_id: int = -1,
    member_id: str = "",
    metadata: str | None = "",
    leader_epoch: int = -1,
    retention_ms: int = -1,
) -> k08.Request:
    return k08.Request(
        group_id=group,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        retention_time_ms=retention_ms,
        topics=[
            k08.Topic(
                **_name(topic),
                partitions=[
                    k08.Partition(
                        partition_index=index, committed_offset=offset, committed_leader_epoch=leader_epoch, committed_metadata=metadata
                    )
                    for index, offset in partitions
                ],
            )
            for topic, partitions in _by_topic(offsets.items()).items()
        ],
    )


def commit(broker: BrokerInMemory, offsets: Mapping[tuple[Any, int], Any], *, version: int = 9, **options: Any) -> Codes:
    """What OffsetCommit answers."""
    return _codes(broker.ask(commit_request(offsets, **options), version))


def commit_in_transaction(
    broker: BrokerInMemory,
    ids: ProducerIdAndEpoch,
    offsets: Mapping[tuple[Any, int], int],
    *,
    group: str = GROUP,
    transactional_id: str = "payments",
    generation_id: int = -1,
    member_id: str = "",
    metadata: str | None = "",
    version: int = 5,
) -> Codes:
    """What TxnOffsetCommit answers."""
    request = k28.Request(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=ids.producer_id,
        producer_epoch=ids.producer_epoch,
        generation_id=generation_id,
        member_id=member_id,
        topics=[
            k28.Topic(
                name=str(topic),
                partitions=[
                    k28.Partition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
                    for index, offset in partitions
                ],
            )
            for topic, partitions in _by_topic(offsets.items()).items()
        ],
    )
    return _codes(broker.ask(request, version))


def fetch(
    broker: BrokerInMemory,
    partitions: Iterable[tuple[Any, int]] | None = None,
    *,
    group: str = GROUP,
    version: int = 9,
    require_stable: bool = False,
) -> Found:
    """The offsets that OffsetFetch answers, of all partitions unless some are named; an error code as {"error": code}."""
    topics = None
    if partitions is not None:
        topics = _by_topic((each, None) for each in partitions)
    if version < 8:
        old = (
            None
            if topics is None
            else [k09.Topic(name=str(topic), partition_indexes=[i for i, _ in each]) for topic, each in topics.items()]
        )
        answer = broker.ask(k09.Request(group_id=group, topics=old, require_stable=require_stable), version)
        if answer.error_code:
            return {("error", answer.error_code): None}
        return _found(answer.topics)
    new = (
        None
        if topics is None
        else [k09.GroupTopic(**_name(topic), partition_indexes=[i for i, _ in each]) for topic, each in topics.items()]
    )
    answer = broker.ask(k09.Request(groups=[k09.Group(group_id=group, topics=new)], require_stable=require_stable), version)
    (found,) = answer.groups
    assert found.group_id == group
    if found.error_code:
        return {("error", found.error_code): None}
    return _found(found.topics)


def _found(topics: Iterable[Any]) -> Found:
    return {
        (topic.name or topic.topic_id, each.partition_index): f"error {each.error_code}" if each.error_code else each.committed_offset
        for topic in topics
        for each in topic.partitions
    }
