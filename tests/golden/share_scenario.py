"""Requests about share groups, to Apache Kafka by `captures/share_groups.py` and minibroker by tests/handlers: answers must be equal.

Where a member needs several heartbeats to get its partitions (there, states of partitions are made behind the request) it is asked until it
has some; which partitions those are, ids, epochs of groups and members are masked, and lists are sorted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k11_join_group as k11
from minibroker.schemas import k12_heartbeat as k12
from minibroker.schemas import k13_leave_group as k13
from minibroker.schemas import k14_sync_group as k14
from minibroker.schemas import k15_describe_groups as k15
from minibroker.schemas import k16_list_groups as k16
from minibroker.schemas import k42_delete_groups as k42
from minibroker.schemas import k47_offset_delete as k47
from minibroker.schemas import k68_consumer_group_heartbeat as k68
from minibroker.schemas import k69_consumer_group_describe as k69
from minibroker.schemas import k76_share_group_heartbeat as k76
from minibroker.schemas import k77_share_group_describe as k77
from minibroker.schemas import k90_describe_share_group_offsets as k90
from minibroker.schemas import k91_alter_share_group_offsets as k91
from minibroker.schemas import k92_delete_share_group_offsets as k92
from minibroker.wire.schema import NIL_UUID, fields_of

TOPICS = {"t": 4, "u": 1}
MAX_SIZE = 2  #: group.share.max.size
A, B = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"

Ask = Callable[[Any], Any]
Step = tuple[str, Any]


def beat(member_id: str, epoch: int, *topics: str, group: str = "s", rack: str | None = None) -> k76.Request:
    names = list(topics) or None
    return k76.Request(group_id=group, member_id=member_id, member_epoch=epoch, rack_id=rack, subscribed_topic_names=names)


def describe(*groups: str, operations: bool = False) -> k77.Request:
    return k77.Request(group_ids=list(groups), include_authorized_operations=operations)


def offsets(group: str, topics: dict[str, list[int]] | None = None) -> k90.Request:
    topic = None if topics is None else [k90.Topic(topic_name=name, partitions=each) for name, each in topics.items()]
    return k90.Request(groups=[k90.Group(group_id=group, topics=topic)])


def alter(group: str, topics: dict[str, dict[int, int]]) -> k91.Request:
    partition = {
        name: [k91.Partition(partition_index=index, start_offset=each) for index, each in starts.items()] for name, starts in topics.items()
    }
    return k91.Request(group_id=group, topics=[k91.Topic(topic_name=name, partitions=each) for name, each in partition.items()])


def forget(group: str, *topics: str) -> k92.Request:
    return k92.Request(group_id=group, topics=[k92.Topic(topic_name=name) for name in topics])


def delete(*groups: str) -> k42.Request:
    return k42.Request(groups_names=list(groups))


def listed(*types: str) -> k16.Request:
    return k16.Request(states_filter=[], types_filter=list(types))


def commit(group: str, topic_id: UUID) -> k08.Request:
    partition = k08.Partition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [k08.Topic(name="t", topic_id=topic_id, partitions=[partition])]
    return k08.Request(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)


def find(key: str) -> k10.Request:
    return k10.Request(key_type=2, coordinator_keys=[key])


BAD_REQUESTS = [
    beat("", 0, "t"),
    beat("x" * 37, 0, "t"),
    beat(A, 0, "t", group=""),
    beat(A, 0, "t", rack=""),
    beat(A, 0),
    beat(A, -2),
    beat(A, 5),
    beat(A, -1),
    describe("s", "", "absent"),
    offsets("absent"),
    offsets("absent", {"t": [0], "nope": [0, 1]}),
    forget("absent", "t"),
    alter("", {"t": {0: 1}}),
    forget("", "t"),
    alter("absent", {"nope": {0: 1}}),
    listed(),
    find("s"),
    find("s:AAAAAAAAAAAAAAAAAAAAAQ:x"),
    find("s:AAAA:0"),
    find(":AAAAAAAAAAAAAAAAAAAAAQ:0"),
    find("s:AAAAAAAAAAAAAAAAAAAAAQ:0"),
    find("a:b:AAAAAAAAAAAAAAAAAAAAAQ:77"),
]
LIVE_GROUP = [
    describe("s", operations=True),
    beat(A, 99),
    beat("zz", 1),
    beat("zz", -1),
    beat("zz", 0, "t"),
    offsets("s"),
    offsets("s", {"u": [0], "nope": [1]}),
    alter("s", {"t": {0: 1}}),
    forget("s", "t"),
    delete("s"),
    listed("share"),
    k09.Request(groups=[k09.Group(group_id="s", topics=None)], require_stable=False),
    k47.Request(group_id="s", topics=[k47.Topic(name="t", partitions=[k47.Partition(partition_index=0)])]),
    k15.Request(groups=["s"], include_authorized_operations=False),
    k11.Request(
        group_id="s",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[k11.Protocol(name="range", metadata=b"")],
    ),
    k68.Request(group_id="s", member_id=A, member_epoch=0, rebalance_timeout_ms=10_000, subscribed_topic_names=["t"], topic_partitions=[]),
]
OTHER_APIS = [
    k12.Request(group_id="s", generation_id=1, member_id=A),
    k13.Request(group_id="s", members=[k13.Member(member_id=A)]),
    k14.Request(group_id="s", generation_id=1, member_id=A, protocol_type="consumer", protocol_name="range", assignments=[]),
    k69.Request(group_ids=["s"], include_authorized_operations=False),
    k09.Request(groups=[k09.Group(group_id="s", member_id=A, member_epoch=2, topics=None)], require_stable=False),
    beat(A, 0, "t", "t", "absent", rack="r"),
    beat(A, 0, "absent"),
    describe("s"),
]
OF_OTHER_KINDS = [
    k68.Request(
        group_id="next", member_id=A, member_epoch=0, rebalance_timeout_ms=10_000, subscribed_topic_names=["u"], topic_partitions=[]
    ),
    beat(A, 0, "t", group="next"),
    beat(A, 1, group="next"),
    beat(A, -1, group="next"),
    describe("next"),
    alter("next", {"t": {0: 1}}),
    forget("next", "t"),
    offsets("next"),
    offsets("next", {"t": [0]}),
    listed("share"),
]
EMPTY_GROUP = [
    beat(A, -1),
    beat(A, -1),
    beat(B, -1),
    beat(B, 3),
    describe("s"),
    k15.Request(groups=["s"], include_authorized_operations=False),
    alter("s", {"nope": {0: 1, 5: 1}, "t": {0: 2, 99: 1, 1: 0}}),
    offsets("s"),
    offsets("s", {"t": [0, 1, 2]}),
    forget("s", "t", "nope", "u"),
    forget("s", "t"),
    offsets("s"),
    alter("made", {"u": {0: 3}}),
    describe("made"),
    listed("share"),
    offsets("made"),
    beat(A, 0, "t", group="simple"),
    beat(A, 1, group="simple"),
    beat(A, -1, group="simple"),
    describe("simple"),
    alter("simple", {"t": {0: 1}}),
    forget("simple", "t"),
    offsets("simple"),
    delete("s", "made", "absent"),
    describe("s", "made"),
    offsets("s"),
    offsets("made", {"u": [0]}),
    listed(),
]  # fmt: skip


def scenario(ask: Ask, settle: Callable[[str, int], k76.Response]) -> list[Step]:
    """Name and answer of each step. `settle(member id, partition count)` sends heartbeats until the member has so many partitions."""
    results = [(_name(request), plain(ask(request))) for request in BAD_REQUESTS]
    results.append(("the first member", plain(settle(A, 4))))
    settle(B, 2)
    results.append(("two members", plain(settle(A, 2))))
    results += [(_name(request), plain(ask(request))) for request in LIVE_GROUP]
    results += [(_name(request), plain(ask(request))) for request in OTHER_APIS]
    settle(A, 2)
    topic_id = ask(k03.Request(topics=[k03.Topic(name="t")])).topics[0].topic_id
    for group in ("s", "simple"):
        results.append((f"a commit to {group}", plain(ask(commit(group, topic_id)))))
    results += [(_name(request), plain(ask(request))) for request in EMPTY_GROUP + OF_OTHER_KINDS]
    return results


def _name(request: Any) -> str:
    api = type(request).__module__.rpartition(".")[2]
    fields = {field.name: getattr(request, field.name) for field in fields_of(type(request))}
    return f"{api} {next(iter(fields.values()))}"


_EPOCHS = {"member_epoch", "group_epoch", "assignment_epoch"}
_DROPPED = {"throttle_time_ms", "host", "port", "client_id"}


def plain(value: Any) -> Any:
    """Dicts, sorted lists, texts and numbers."""
    if isinstance(value, UUID):
        return None if value == NIL_UUID else "*"
    if isinstance(value, list | tuple):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, str):
        return re.sub(r"\(\d+\)", "(*)", value)
    if isinstance(value, int) or value is None:
        return value
    answer: dict[str, Any] = {}
    for field in fields_of(type(value)):
        content = getattr(value, field.name)
        if field.name in _EPOCHS and content > 0:
            answer[field.name] = "*"
        elif field.name == "partitions" and content and isinstance(content[0], int):
            answer[field.name] = len(content)
        elif field.name not in _DROPPED:
            answer[field.name] = plain(content)
    return answer
