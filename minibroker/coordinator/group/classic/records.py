"""A generation of a classic group as a record of `__consumer_offsets`, and back.

Source: GroupCoordinatorRecordHelpers.newGroupMetadataRecord, GroupMetadataManager.replay of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.coordinator.group.classic.members import Member, Members
from minibroker.coordinator.group.classic.requests import Join, Protocol
from minibroker.schemas.internal.offset_records import GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from minibroker.coordinator.group.classic.rebalance import Rebalance

SIMPLE_TYPE: Final = ""  #: protocol type of a group that has offsets and nothing else


def value_of(group: Rebalance) -> GroupMetadataValue:
    """What is stored of a group now."""
    return value_of_members(group.members, group.generation_id, group.protocol_name, group.state_timestamp_ms)


def value_of_members(members: Members, generation_id: int, protocol_name: str | None, state_timestamp_ms: int) -> GroupMetadataValue:
    """Members with what they sent for the protocol of their generation, and what they shall read."""
    return GroupMetadataValue(
        protocol_type=members.protocol_type or SIMPLE_TYPE,
        generation=generation_id,
        protocol=protocol_name,
        leader=members.leader_id,
        current_state_timestamp=state_timestamp_ms,
        members=[_stored(member, protocol_name) for member in members],
    )


def _stored(member: Member, protocol_name: str | None) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=member.assignment,
    )


def never_stored() -> GroupMetadataValue:
    """What a simple group would have been stored as."""
    return GroupMetadataValue(protocol_type=SIMPLE_TYPE, generation=0, protocol=None, leader=None, current_state_timestamp=-1, members=[])


def members_of(value: GroupMetadataValue) -> Members:
    """The members that a record tells of. Of each only the protocol is known that its generation has chosen."""
    members = Members(value.protocol_type or None)
    for stored in value.members:
        join = Join(
            client_id=stored.client_id,
            client_host=stored.client_host,
            protocol_type=value.protocol_type,
            protocols=(Protocol(value.protocol or "", bytes(stored.subscription)),),
            session_timeout_ms=stored.session_timeout,
            rebalance_timeout_ms=stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout,
            group_instance_id=stored.group_instance_id,
        )
        member = Member(stored.member_id, join)
        member.is_new = False
        member.assignment = bytes(stored.assignment)
        members.add(member, value.protocol_type)
    if value.leader is not None and value.leader in members:
        members.leader_id = value.leader
    return members
