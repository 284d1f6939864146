"""Frames of real clients that are members of classic groups: the answers are Apache Kafka's to the byte.

The group is put into the log in the state in which Kafka's was when it answered; members draw the ids that they drew there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from minibroker.coordinator.group.classic import group as classic_group
from minibroker.coordinator.group.classic.members import group_record
from minibroker.coordinator.stored_topic import batch_of
from minibroker.schemas.internal.offset_records import GroupMetadataValue, MemberMetadata
from minibroker.storage.record_frame import CONSUMER_OFFSETS
from tests.golden import Golden, all_golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import TOPIC, groups_of
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve

UUID_SIZE = 36


def frames(stem: str, is_fit: Callable[[Any, Any], bool]) -> list[Any]:
    """Requests of a classic group whose answer is one that `is_fit` for this."""
    found = sorted((name, each) for name, each in all_golden().items() if each.stem == stem and each.direction == "request")
    return [pytest.param(each, id=name) for name, each in found if is_fit(each.decode(), answer_of(each))]


def broker_that_knows(**groups: GroupMetadataValue) -> BrokerInMemory:
    broker = kafka_like(config={"offsets.topic.num.partitions": "1"})
    groups_of(broker)
    log = broker.cluster.partition(TOPIC, 0)
    for group_id, value in groups.items():
        log.append_own(batch_of(CONSUMER_OFFSETS, [group_record(group_id, value)], broker.clock.now_ms()))
    return broker


def generation(
    number: int, *members: MemberMetadata, protocol: str | None = "range", protocol_type: str = "consumer"
) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=protocol_type,
        generation=number,
        protocol=protocol if members else None,
        leader=members[0].member_id if members else None,
        current_state_timestamp=0,
        members=list(members),
    )


def member(member_id: str, instance: str | None = None, **known: Any) -> MemberMetadata:
    fields = {"client_id": "", "client_host": "", "subscription": b"", "assignment": b""} | known
    return MemberMetadata(member_id=member_id, group_instance_id=instance, session_timeout=30_000, rebalance_timeout=30_000, **fields)


def is_drawn(member_id: str) -> bool:
    """A member of KIP-848 draws its own id."""
    return member_id == "" or member_id[-UUID_SIZE - 1 : -UUID_SIZE] == "-"


@pytest.mark.parametrize(
    "request_",
    frames("k11_join_group", lambda asked, told: not asked.member_id and told.error_code in {79, 23} and is_drawn(told.member_id)),
)
def test_join_group_of_a_new_member(request_: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    told = answer_of(request_)
    known = {}
    if told.error_code == 23:
        known[request_.decode().group_id] = generation(1, member("somebody"))
    else:
        drawn = UUID(told.member_id[-UUID_SIZE:])
        monkeypatch.setattr(classic_group, "uuid4", lambda: drawn)
    assert serve(broker_that_knows(**known), request_) == kafka_answer(request_)


@pytest.mark.parametrize("request_", frames("k12_heartbeat", lambda _, told: told.error_code in {0, 25}))
def test_heartbeat(request_: Golden) -> None:
    requested, told = request_.decode(), answer_of(request_)
    known = {}
    if told.error_code == 0:
        known[requested.group_id] = generation(requested.generation_id, member(requested.member_id, requested.group_instance_id))
    assert serve(broker_that_knows(**known), request_) == kafka_answer(request_)


@pytest.mark.parametrize(
    "request_",
    frames(
        "k14_sync_group", lambda asked, told: told.error_code == 25 or (told.error_code == 0 and asked.protocol_name == told.protocol_name)
    ),
)
def test_sync_group(request_: Golden) -> None:
    asked, told = request_.decode(), answer_of(request_)
    known = {}
    if told.error_code == 0:
        owner = member(asked.member_id, asked.group_instance_id, assignment=bytes(told.assignment))
        known[asked.group_id] = generation(asked.generation_id, owner, protocol=told.protocol_name or "range")
    assert serve(broker_that_knows(**known), request_) == kafka_answer(request_)


def is_described(asked: Any, told: Any) -> bool:
    return asked.groups == [group.group_id for group in told.groups] and all(
        group.group_state in {"Stable", "Empty", "Dead"} and "classic group" not in (group.error_message or "") for group in told.groups
    )


@pytest.mark.parametrize("request_", frames("k15_describe_groups", is_described))
def test_describe_groups(request_: Golden) -> None:
    known = {}
    for group in answer_of(request_).groups:
        if group.group_state != "Dead":
            members = [
                member(
                    each.member_id,
                    each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    subscription=bytes(each.member_metadata),
                    assignment=bytes(each.member_assignment),
                )
                for each in group.members
            ]
            known[group.group_id] = generation(1, *members, protocol=group.protocol_data, protocol_type=group.protocol_type)
    assert serve(broker_that_knows(**known), request_) == kafka_answer(request_)


def is_listed(asked: Any, told: Any) -> bool:
    """Groups that can be written to the log: answers of older versions lack some of their properties."""
    return all(not asked.states_filter or group.group_state in asked.states_filter for group in told.groups) and all(
        group.group_state in {"Stable", "Empty"} and group.group_type in {"classic", ""} for group in told.groups
    )


@pytest.mark.parametrize("request_", frames("k16_list_groups", is_listed))
def test_list_groups(request_: Golden) -> None:
    known = {
        group.group_id: generation(1, *([member("m")] if group.group_state == "Stable" else []), protocol_type=group.protocol_type)
        for group in answer_of(request_).groups
    }
    assert serve(broker_that_knows(**known), request_) == kafka_answer(request_)


def is_left(asked: Any, told: Any) -> bool:
    """Of frames that are alike in name and size the answer to another one may have been kept."""
    codes = {each.error_code for each in told.members} or {told.error_code}
    return codes <= {0, 25} and [each.member_id for each in asked.members] == [each.member_id for each in told.members]


@pytest.mark.parametrize("request_", frames("k13_leave_group", is_left))
def test_leave_group(request_: Golden) -> None:
    requested, result = request_.decode(), answer_of(request_)
    codes = [each.error_code for each in result.members] if request_.version >= 3 else [result.error_code]
    leaving = requested.members if request_.version >= 3 else [requested]
    members = [
        member(each.member_id or "its-id", getattr(each, "group_instance_id", None))
        for each, code in zip(leaving, codes, strict=True)
        if code == 0
    ]
    assert serve(broker_that_knows(**{requested.group_id: generation(1, *members)}), request_) == kafka_answer(request_)


@pytest.mark.parametrize(
    "request_", frames("k42_delete_groups", lambda asked, told: asked.groups_names == [each.group_id for each in told.results])
)
def test_delete_groups(request_: Golden) -> None:
    known = {
        each.group_id: generation(1, *([member("m")] if each.error_code == 68 else []))
        for each in answer_of(request_).results
        if each.error_code != 69
    }
    assert serve(broker_that_knows(**known), request_) == kafka_answer(request_)
