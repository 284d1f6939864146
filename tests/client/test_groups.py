"""Groups at their coordinators: several brokers, old brokers, and brokers that are not ready."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.client.client import Client
from minibroker.client.errors import UnsupportedByBroker
from minibroker.client.group_offsets import CommittedOffset, commit_offsets, committed_offsets, delete_offsets
from minibroker.client.groups import DescribedGroup, assigned_partitions, delete_groups, describe_groups, list_groups, subscribed_topics
from minibroker.errors import GroupIdNotFound, GroupSubscribedToTopic, NonEmptyGroup, UnknownTopicOrPartition, UnstableOffsetCommit
from minibroker.schemas import (
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k15_describe_groups,
    k16_list_groups,
    k42_delete_groups,
    k47_offset_delete,
    k69_consumer_group_describe,
    k77_share_group_describe,
    k89_streams_group_describe,
)
from minibroker.schemas.internal.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from minibroker.wire.codec import encode
from tests.client.fake_broker import FakeBroker

UNKNOWN_TOPIC, LOADING, NOT_COORDINATOR, UNSUPPORTED_VERSION, NON_EMPTY, NO_SUCH_GROUP, SUBSCRIBED = 3, 14, 16, 35, 68, 69, 86
UNSTABLE = 88
ASSIGNMENT = b"\x00\x03" + encode(
    ConsumerProtocolAssignment(assigned_partitions=[TopicPartitions(topic="orders", partitions=[1, 0])], user_data=b"own"),
    3,
    flexible=False,
)


def subscription(version: int) -> bytes:
    value = ConsumerProtocolSubscription(topics=["payments", "orders"], user_data=b"own")
    return version.to_bytes(2, "big") + encode(value, version, flexible=False)


@pytest.fixture
def broker() -> FakeBroker:
    """Two nodes: the first coordinates every group that starts with a, the second all other groups."""
    broker = FakeBroker(topics={"orders": 2})
    broker.nodes = 2
    broker.on(k10_find_coordinator, find_coordinator)
    return broker


def client_of(broker: FakeBroker) -> Client:
    return Client("fake:1", timeout_ms=60_000, connect=broker.connect)


def find_coordinator(request: k10_find_coordinator.Request, _: int) -> k10_find_coordinator.Response:
    assert request.key_type == k10_find_coordinator.GROUP
    found = []
    for key in request.coordinator_keys:
        node_id = 1 if key.startswith("a") else 2
        found.append(k10_find_coordinator.Coordinator(key=key, node_id=node_id, host="fake", port=node_id, error_code=0, error_message=""))
    return k10_find_coordinator.Response(coordinators=found)


def classic(group_id: str, error_code: int = 0, **facts: Any) -> k15_describe_groups.Group:
    common = {"group_state": "Stable", "protocol_type": "consumer", "protocol_data": "range", "members": []}
    return k15_describe_groups.Group(error_code=error_code, group_id=group_id, **(common | facts))


def consumer(group_id: str, error_code: int = 0) -> k69_consumer_group_describe.Group:
    return k69_consumer_group_describe.Group(
        error_code=error_code, group_id=group_id, group_state="Empty", group_epoch=2, assignment_epoch=1, assignor_name="range", members=[]
    )


def share(group_id: str, error_code: int = 0) -> k77_share_group_describe.Group:
    return k77_share_group_describe.Group(
        error_code=error_code, group_id=group_id, group_state="Empty", group_epoch=3, assignment_epoch=1, assignor_name="simple", members=[]
    )


def no_streams(request: k89_streams_group_describe.Request, error_code: int) -> k89_streams_group_describe.Response:
    groups = [
        k89_streams_group_describe.Group(
            error_code=error_code, group_id=group_id, group_state="", group_epoch=0, assignment_epoch=0, topology=None, members=[]
        )
        for group_id in request.group_ids
    ]
    return k89_streams_group_describe.Response(groups=groups)


def test_list_queries_every_broker(broker: FakeBroker) -> None:
    def script(names: list[str]) -> Any:
        groups = [
            k16_list_groups.Group(group_id=name, protocol_type="consumer", group_state="Empty", group_type="classic") for name in names
        ]
        return lambda _request, _version: k16_list_groups.Response(error_code=0, groups=groups)

    broker.in_turn(k16_list_groups, lambda *_: k16_list_groups.Response(error_code=LOADING, groups=[]), script(["c", "b"]), script(["a"]))
    found = list_groups(client_of(broker), states=["Empty"], types=["classic"])
    assert [(each.group, each.coordinator, each.state, each.type) for each in found] == [
        ("a", 2, "Empty", "classic"),
        ("b", 1, "Empty", "classic"),
        ("c", 1, "Empty", "classic"),
    ]
    assert {(*request.states_filter, *request.types_filter) for request in broker.requests_for(k16_list_groups)} == {("Empty", "classic")}


def test_list_of_an_old_broker(broker: FakeBroker) -> None:
    broker.versions[16] = (0, 3)
    broker.nodes = 1
    groups = [k16_list_groups.Group(group_id="a", protocol_type="consumer")]
    broker.on(k16_list_groups, lambda *_: k16_list_groups.Response(error_code=0, groups=groups))
    (found,) = list_groups(client_of(broker))
    assert (found.state, found.type) == (None, None)
    with pytest.raises(UnsupportedByBroker, match="ListGroups below version 4"):
        list_groups(client_of(broker), states=["Empty"])
    broker.versions[16] = (0, 4)
    with pytest.raises(UnsupportedByBroker, match="ListGroups below version 5"):
        list_groups(client_of(broker), types=["classic"])


@pytest.mark.parametrize("code", [NO_SUCH_GROUP, UNSUPPORTED_VERSION])
def test_describe_queries_both_group_types(broker: FakeBroker, code: int) -> None:
    def new(request: k69_consumer_group_describe.Request, _: int) -> k69_consumer_group_describe.Response:
        return k69_consumer_group_describe.Response(groups=[consumer(key, 0 if key == "new" else code) for key in request.group_ids])

    def old(request: k15_describe_groups.Request, _: int) -> k15_describe_groups.Response:
        return k15_describe_groups.Response(
            groups=[classic(key, NO_SUCH_GROUP if key in {"none", "shared"} else 0) for key in request.groups]
        )

    def shared(request: k77_share_group_describe.Request, _: int) -> k77_share_group_describe.Response:
        return k77_share_group_describe.Response(groups=[share(key, 0 if key == "shared" else code) for key in request.group_ids])

    broker.on(k69_consumer_group_describe, new)
    broker.on(k15_describe_groups, old)
    broker.on(k77_share_group_describe, shared)
    broker.on(k89_streams_group_describe, lambda request, _: no_streams(request, code))
    found = describe_groups(client_of(broker), ["new", "a", "none", "shared"])
    assert isinstance(found["none"], GroupIdNotFound)
    assert isinstance(found["shared"], DescribedGroup)
    assert (found["shared"].type, found["shared"].assignor, found["shared"].group_epoch) == ("share", "simple", 3)
    assert sorted(key for request in broker.requests_for(k77_share_group_describe) for key in request.group_ids) == ["none", "shared"]
    shown = [found[name] for name in ("new", "a")]
    assert [(each.type, each.state, each.coordinator, each.group_epoch) for each in shown if isinstance(each, DescribedGroup)] == [
        ("consumer", "Empty", 2, 2),
        ("classic", "Stable", 1, None),
    ]
    assert sorted(key for request in broker.requests_for(k15_describe_groups) for key in request.groups) == ["a", "none", "shared"]


def test_describe_without_the_new_kind(broker: FakeBroker) -> None:
    del broker.versions[69], broker.versions[77], broker.versions[89]
    broker.versions[15] = (0, 5)
    member = k15_describe_groups.Member(
        member_id="m", client_id="c", client_host="/::1", member_metadata=subscription(3), member_assignment=ASSIGNMENT
    )
    answers = [classic("b", members=[member]), classic("dead", group_state="Dead"), classic("x", protocol_type="connect", members=[member])]
    broker.in_turn(
        k15_describe_groups,
        lambda *_: k15_describe_groups.Response(groups=[classic(each.group_id, NOT_COORDINATOR) for each in answers]),
        lambda *_: k15_describe_groups.Response(groups=answers),
    )
    found = describe_groups(client_of(broker), ["b", "dead", "x"])
    assert isinstance(found["dead"], GroupIdNotFound)
    members = [group.members[0] for group in (found["b"], found["x"]) if isinstance(group, DescribedGroup)]
    assert [(each.host, each.topics, each.assignment) for each in members] == [
        ("::1", ("orders", "payments"), (("orders", 0), ("orders", 1))),
        ("::1", (), ()),
    ]


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_of_all_versions(version: int) -> None:
    assert subscribed_topics(subscription(version)) == ("orders", "payments")


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00", b"\x00\x00\x00\x00\x00\x09", b"\x00\x00\xff\xff\xff\xf0", ASSIGNMENT[:9]])
def test_invalid_bytes_are_empty(data: bytes) -> None:
    assert assigned_partitions(data) == ()
    assert subscribed_topics(data) == ()


def test_delete(broker: FakeBroker) -> None:
    codes = {"a": 0, "b": NON_EMPTY, "c": LOADING}

    def answer(request: k42_delete_groups.Request, _: int) -> k42_delete_groups.Response:
        results = [k42_delete_groups.Result(group_id=key, error_code=codes[key]) for key in request.groups_names]
        codes["c"] = 0 if "c" in request.groups_names else LOADING
        return k42_delete_groups.Response(results=results)

    broker.on(k42_delete_groups, answer)
    found = delete_groups(client_of(broker), ["a", "b", "c"])
    assert (found["a"], found["c"]) == (None, None)
    assert isinstance(found["b"], NonEmptyGroup)
    assert [request.groups_names for request in broker.requests_for(k42_delete_groups)] == [["a"], ["b", "c"], ["c"]]


def test_committed_offsets(broker: FakeBroker) -> None:
    def partition(index: int, offset: int, code: int = 0) -> k09_offset_fetch.GroupPartitionResult:
        return k09_offset_fetch.GroupPartitionResult(partition_index=index, committed_offset=offset, metadata=None, error_code=code)

    topic = k09_offset_fetch.GroupTopicResult(name="t", partitions=[partition(2, 5), partition(0, -1), partition(1, -1, UNKNOWN_TOPIC)])
    group = k09_offset_fetch.GroupResult(group_id="a", topics=[topic])
    broker.on(k09_offset_fetch, lambda *_: k09_offset_fetch.Response(groups=[group]))
    (found,) = committed_offsets(client_of(broker), ["a"]).values()
    assert isinstance(found, dict)
    assert list(found) == [("t", 1), ("t", 2)]
    assert found["t", 2] == CommittedOffset(5, None, "")
    assert isinstance(found["t", 1], UnknownTopicOrPartition)
    assert {version for key, version, _ in broker.requests if key == 9} == {9}


def test_committed_offsets_of_an_old_broker(broker: FakeBroker) -> None:
    broker.versions[9] = (1, 7)
    partition = k09_offset_fetch.PartitionResult(
        partition_index=0, committed_offset=5, committed_leader_epoch=3, metadata="m", error_code=0
    )
    topic = k09_offset_fetch.TopicResult(name="t", partitions=[partition])

    def answer(request: k09_offset_fetch.Request, _: int) -> k09_offset_fetch.Response:
        assert request.topics is None
        return k09_offset_fetch.Response(topics=[topic] if request.group_id == "a" else [], error_code=0)

    broker.on(k09_offset_fetch, answer)
    assert committed_offsets(client_of(broker), ["a", "b", "c"]) == {"a": {("t", 0): CommittedOffset(5, 3, "m")}, "b": {}, "c": {}}


def test_client_waits_for_offsets_of_an_open_transaction(broker: FakeBroker) -> None:
    def answer(code: int) -> Any:
        partitions = [
            k09_offset_fetch.GroupPartitionResult(partition_index=0, committed_offset=5, metadata="m", error_code=code),
            k09_offset_fetch.GroupPartitionResult(partition_index=1, committed_offset=-1, metadata="", error_code=UNSTABLE),
        ]
        topic = k09_offset_fetch.GroupTopicResult(name="t", partitions=partitions)
        return lambda *_: k09_offset_fetch.Response(groups=[k09_offset_fetch.GroupResult(group_id="a", topics=[topic])])

    broker.in_turn(k09_offset_fetch, answer(UNSTABLE), answer(UNSTABLE), answer(0))
    (found,) = committed_offsets(client_of(broker), ["a"], stable=[("t", 0)]).values()
    assert isinstance(found, dict)
    assert found["t", 0] == CommittedOffset(5, None, "m")
    assert isinstance(found["t", 1], UnstableOffsetCommit)  # the caller does not need it
    assert [request.require_stable for request in broker.requests_for(k09_offset_fetch)] == [True, True, True]


def test_commit_again_while_the_coordinator_is_not_ready(broker: FakeBroker) -> None:
    def answer(*codes: int) -> Any:
        partitions = [k08_offset_commit.PartitionResult(partition_index=index, error_code=code) for index, code in enumerate(codes)]
        return lambda *_: k08_offset_commit.Response(topics=[k08_offset_commit.TopicResult(name="t", partitions=partitions)])

    broker.in_turn(k08_offset_commit, answer(LOADING, LOADING), answer(NOT_COORDINATOR, NOT_COORDINATOR), answer(0, UNKNOWN_TOPIC))
    found = commit_offsets(client_of(broker), "a", {("t", 0): 1, ("t", 1): 2})
    assert found["t", 0] is None
    assert isinstance(found["t", 1], UnknownTopicOrPartition)
    assert len(broker.requests_for(k08_offset_commit)) == 3
    (topic,) = broker.requests_for(k08_offset_commit)[-1].topics
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 1), (1, 2)]


def test_delete_offsets(broker: FakeBroker) -> None:
    partitions = [k47_offset_delete.PartitionResult(partition_index=index, error_code=code) for index, code in enumerate((0, SUBSCRIBED))]
    broker.in_turn(
        k47_offset_delete,
        lambda *_: k47_offset_delete.Response(error_code=LOADING, topics=[]),
        lambda *_: k47_offset_delete.Response(error_code=0, topics=[k47_offset_delete.TopicResult(name="t", partitions=partitions)]),
        lambda *_: k47_offset_delete.Response(error_code=NO_SUCH_GROUP, topics=[]),
    )
    found = delete_offsets(client_of(broker), "a", [("t", 0), ("t", 1)])
    assert found["t", 0] is None
    assert isinstance(found["t", 1], GroupSubscribedToTopic)
    with pytest.raises(GroupIdNotFound):
        delete_offsets(client_of(broker), "a", [("t", 0)])
