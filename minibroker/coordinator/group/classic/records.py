"""Records of `__consumer_offsets` for classic groups: one record has the whole generation.

Source: GroupCoordinatorRecordHelpers.newGroupMetadataRecord, GroupMetadataManager.replay of Apache
Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Final

from minibroker.coordinator.group.classic.members import ClassicMember, MemberTable
from minibroker.coordinator.group.classic.requests import Join, Protocol
from minibroker.schemas.internal.offset_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from minibroker.storage.record_frame import CoordinatorRecord

GROUP_VERSION: Final = 3
_TOMBSTONE: Final = -1
SIMPLE_TYPE: Final = ""  #: the protocol type of a group that has offsets and no members ever


def group_record(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    """Return the record of a generation."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, GROUP_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None, _TOMBSTONE)


def value_of_members(members: MemberTable, generation_id: int, protocol_name: str | None, state_timestamp_ms: int) -> GroupMetadataValue:
    """Return the value of a generation: members with their metadata for its protocol, and their assignments."""
    return GroupMetadataValue(
        protocol_type=members.protocol_type or SIMPLE_TYPE,
        generation=generation_id,
        protocol=protocol_name,
        leader=members.leader_id,
        current_state_timestamp=state_timestamp_ms,
        members=[_stored(member, protocol_name) for member in members],
    )


def _stored(member: ClassicMember, protocol_name: str | None) -> MemberMetadata:
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


def members_of(value: GroupMetadataValue) -> MemberTable:
    """Return the members of a generation. A record has the metadata of its protocol only, so they support no other one."""
    members = MemberTable(value.protocol_type or None)
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
        member = ClassicMember(stored.member_id, join)
        member.is_new = False
        member.assignment = bytes(stored.assignment)
        members.add(member, value.protocol_type)
    if value.leader is not None and value.leader in members:
        members.leader_id = value.leader
    return members
