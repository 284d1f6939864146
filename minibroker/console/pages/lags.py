"""Committed offsets of groups, and how far each is from the end of its partition.

Two lags: `lag` is what every tool shows, the high watermark minus the offset. It never becomes 0 after a
transaction, because the marker at the end has an offset. `is_at_end` says whether a consumer has read everything that it can read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, Topic
from minibroker.console.pace import paced
from minibroker.console.page import Visit
from minibroker.console.values import visible
from minibroker.coordinator.group.offsets import CommittedOffset
from minibroker.errors import KafkaError
from minibroker.security.acl import Operation, ResourceType

_GROUPS_SHOWN: Final = 50  #: that read one topic
_MARKERS_MAX: Final = 100  #: offsets between a committed one and the end that are looked at for markers


def stored_groups(visit: Visit) -> Iterator[tuple[str, Mapping[tuple[str, int], CommittedOffset]]]:
    """Yield all groups with their committed offsets. Logs that are being read are left out."""
    if CONSUMER_OFFSETS_TOPIC not in visit.host.cluster.topics:
        return
    store = visit.services.coordinators.groups.live.store
    for index in range(store.partition_count):
        try:
            shard = store.shard(index).shard
        except KafkaError:
            continue
        for group_id in list(shard.groups):
            yield group_id, shard.offsets.of_group(group_id)


def offsets_of(visit: Visit, group_id: str) -> Mapping[tuple[str, int], CommittedOffset]:
    """Return the committed offsets of a group; none while its log is being read."""
    if CONSUMER_OFFSETS_TOPIC not in visit.host.cluster.topics:
        return {}
    try:
        return visit.services.coordinators.groups.live.shard_of(group_id).shard.offsets.of_group(group_id)
    except KafkaError:
        return {}


async def groups_reading(visit: Visit, topic: Topic) -> list[dict[str, Any]]:
    """Return the groups with offsets of a topic, and how much each has left to read."""
    found: list[dict[str, Any]] = []
    async for group_id, offsets in paced(stored_groups(visit)):
        mine = [(each, offsets[topic.name, each.index]) for each in topic.partitions if (topic.name, each.index) in offsets]
        if not mine or not visit.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            continue
        lags = [lag for each, committed in mine if (lag := lag_of(each, committed.offset)) is not None]
        found.append(
            {
                "group": group_id,
                "shown": visible(group_id),
                "lag": sum(lags),
                "partitions": [{"partition": each.index, "offset": committed.offset} for each, committed in mine[:_GROUPS_SHOWN]],
                "is_at_end": all(is_at_end(each, committed.offset) for each, committed in mine),
            }
        )
        if len(found) >= _GROUPS_SHOWN:
            break
    return sorted(found, key=lambda each: each["group"])


def lag_of(partition: Partition | None, offset: int) -> int | None:
    """Return the high watermark minus an offset; None if the partition is offline or gone."""
    if partition is None:
        return None
    log = partition.online_log
    if log is None:
        return max(-offset, 0) if partition.is_unopened else None
    return max(log.high_watermark - offset, 0)


def is_at_end(partition: Partition | None, offset: int) -> bool:
    """Return whether only markers, if anything, are between an offset and the high watermark."""
    log = None if partition is None else partition.online_log
    if log is None:
        return partition is not None and partition.is_unopened
    if offset >= log.high_watermark:
        return True
    if log.high_watermark - offset > _MARKERS_MAX or offset < log.log_start_offset:
        return False
    segment = log.segments.floor(offset)
    headers = list(segment.transactional_from(offset))
    markers = sum(each.is_control for each in headers if each.base_offset >= offset)
    return markers == log.high_watermark - offset
