"""Members of consumer groups (KIP-848) of a broker in memory, through its handlers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import pytest

from minibroker.schemas import k68_consumer_group_heartbeat as k68
from minibroker.schemas import k69_consumer_group_describe as k69
from tests.golden import golden
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.committed_offsets import broker_with_groups, groups_of
from tests.support.golden_exchange import kafka_like, topic_ids

GROUP = "readers"
REBALANCE_MS = 60_000
Partitions = dict[str, list[int]]


def broker_with_consumers(
    topics: Mapping[str, int] | None = None, config: Mapping[str, str] | None = None, **options: Any
) -> BrokerInMemory:
    """A broker with a topic `t` of four partitions, unless told otherwise."""
    return broker_with_groups(topics or {"t": 4}, config, **options)


def begin_beat(
    broker: BrokerInMemory,
    member_id: str,
    member_epoch: int,
    owned: Mapping[str, Iterable[int]] | None = None,
    *,
    group: str = GROUP,
    version: int = 1,
    client_id: str | None = "client",
    **said: Any,
) -> Pending:
    """A ConsumerGroupHeartbeat on its way."""
    topics = broker.cluster.topics
    partitions = None
    if owned is not None:
        partitions = [k68.TopicPartitions(topic_id=topics[name].topic_id, partitions=list(each)) for name, each in owned.items()]
    request = k68.Request(group_id=group, member_id=member_id, member_epoch=member_epoch, topic_partitions=partitions, **said)
    return broker.begin(request, version, client_id=client_id)


def beat(broker: BrokerInMemory, member_id: str, member_epoch: int, owned: Mapping[str, Iterable[int]] | None = None, **said: Any) -> Any:
    """The answer to a ConsumerGroupHeartbeat."""
    return begin_beat(broker, member_id, member_epoch, owned, **said).answer()


def begin_join(broker: BrokerInMemory, member_id: str, *topics: str, **said: Any) -> Pending:
    """The first heartbeat of a member on its way."""
    known: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": list(topics or ("t",)), "owned": {}}
    return begin_beat(broker, member_id, 0, **(known | said))


def join(broker: BrokerInMemory, member_id: str, *topics: str, **said: Any) -> Any:
    """The answer to the first heartbeat of a member."""
    return begin_join(broker, member_id, *topics, **said).answer()


def told(broker: BrokerInMemory, answer: Any) -> tuple[int, Partitions | None]:
    """The epoch, and the assignment if there is one."""
    assert answer.error_code == 0, answer
    return answer.member_epoch, None if answer.assignment is None else by_name(broker, answer.assignment)


def by_name(broker: BrokerInMemory, assignment: Any) -> Partitions:
    """Partitions by the name of their topic."""
    known = broker.cluster.image.topics_by_id
    return {known[each.topic_id].name: list(each.partitions) for each in assignment.topic_partitions}


def leave(broker: BrokerInMemory, member_id: str, **said: Any) -> Any:
    """The answer to the last heartbeat of a member."""
    return beat(broker, member_id, -1, **said)


def describe(broker: BrokerInMemory, group: str = GROUP, *, version: int = 1, **options: Any) -> Any:
    """What ConsumerGroupDescribe says of one group."""
    fields = {"include_authorized_operations": False} | options
    (found,) = broker.ask(k69.Request(group_ids=[group], **fields), version).groups
    return found


def two_members(broker: BrokerInMemory, *, group: str = GROUP) -> None:
    """`a` has partitions 0 and 1 of `t`, `b` 2 and 3, both at epoch 3."""
    everything = {"t": [0, 1, 2, 3]}
    assert told(broker, join(broker, "a", group=group)) == (2, everything)
    assert told(broker, join(broker, "b", group=group)) == (3, {})
    assert told(broker, beat(broker, "a", 2, everything, group=group)) == (2, {"t": [0, 1]})
    assert told(broker, beat(broker, "a", 2, {"t": [0, 1]}, group=group)) == (3, None)
    assert told(broker, beat(broker, "b", 3, {}, group=group)) == (3, {"t": [2, 3]})


def as_in_the_golden_exchange(monkeypatch: pytest.MonkeyPatch, version: int) -> BrokerInMemory:
    """The group that franz-go's golden frames of this version are about: one member, at epoch 2, by the assignor `range`."""
    member_id = "golden-member" if version else golden("k68_consumer_group_heartbeat_v0_request_franz_go_1.22.2_groups").decode().member_id
    topic_ids(monkeypatch, [UUID(int=1), UUID("d98123a7-5d65-48b5-a9d2-682c9f24051c")])
    broker = kafka_like(config={"offsets.topic.num.partitions": "1"})
    groups_of(broker)
    broker.cluster.create_topic("golden-grouped", partition_count=2)
    subscription = {"subscribed_topic_names": None, "subscribed_topic_regex": "golden-gr.*"} if version else {}
    said = subscription | {"rack_id": "rack", "server_assignor": "range", "client_id": "franz-go", "group": f"golden-next-{version}"}
    answer = join(broker, member_id, "golden-grouped", **said)
    assert told(broker, answer) == (2, {"golden-grouped": [0, 1]})
    return broker
