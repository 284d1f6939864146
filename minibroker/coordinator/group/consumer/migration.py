"""Online migration (KIP-848): a classic group of consumers becomes a consumer group and back, while its members keep reading.

    upgrade      a member of a classic group joins by ConsumerGroupHeartbeat:
                   the classic members stay, with the partitions of their last generation; the generation becomes the epoch of the group
    downgrade    all remaining members use the classic protocol:
                   the epoch of the group becomes the generation; each member gets its target assignment

    group.consumer.migration.policy    upgrade    downgrade    classic members may join a consumer group
    bidirectional                      yes        yes          yes
    upgrade                            yes        no           yes
    downgrade                          no         yes          yes
    disabled                           no         no           no

If a classic group cannot be upgraded, the heartbeat gets GroupIdNotFound. Apache Kafka differs in
four cases:
  - an assignment that cannot be decoded is UNKNOWN_SERVER_ERROR
  - if a classic member replaces a static one, members that were not reconciled remain so, and some
    partitions wait for the next rebalance
  - after a rebalance that failed while it waited for the leader, Kafka has no assignments of the
    members, and an upgrade gives their partitions to others while they still read them
  - a broker that crashes after a downgrade finds a stable group when it starts, and the partitions
    of the last new member have no owner; here the group rebalances

Source: GroupMetadataManager.convertToConsumerGroup and convertToClassicGroup,
ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from minibroker.coordinator.group.classic.consumer_protocol import (
    CONSUMER,
    partitions_of,
    read_assignment,
    read_subscription,
    write_assignment,
)
from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.classic.members import ClassicMember, MemberTable
from minibroker.coordinator.group.classic.requests import Join, Protocol
from minibroker.coordinator.group.consumer.members import (
    ConsumerGroupImage,
    ConsumerMember,
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from minibroker.coordinator.group.modern import NEVER, NOTHING, Assignment
from minibroker.coordinator.group.topics import Topics, metadata_hash
from minibroker.errors import GroupIdNotFound, WireError
from minibroker.schemas.internal.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from minibroker.storage.record_frame import CoordinatorRecord

_INT_MAX: Final = 2**31 - 1
BIDIRECTIONAL: Final = "bidirectional"
UPGRADE: Final = "upgrade"
DOWNGRADE: Final = "downgrade"


class Migration(NamedTuple):
    """The configs of migration."""

    policy: str = BIDIRECTIONAL  #: group.consumer.migration.policy
    max_classic_size: int = _INT_MAX  #: group.max.size

    @property
    def may_upgrade(self) -> bool:
        """Whether classic groups may become consumer groups."""
        return self.policy in {BIDIRECTIONAL, UPGRADE}

    @property
    def may_downgrade(self) -> bool:
        """Whether consumer groups may become classic groups."""
        return self.policy in {BIDIRECTIONAL, DOWNGRADE}


class ClassicSuccessor(NamedTuple):
    """The classic group that takes the place of a consumer group."""

    members: MemberTable
    generation_id: int
    protocol_name: str
    must_rebalance: bool  #: some members do not have their target assignment


# Upgrade


def check_upgrade(group: ClassicGroup, migration: Migration, max_size: int) -> None:
    """Raise GroupIdNotFound if the group must stay classic. `max_size` is that of consumer groups."""
    reason = None
    if not migration.may_upgrade:
        reason = "online upgrade is disabled"
    elif group.members.protocol_type != CONSUMER:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason is not None:
        raise _no_upgrade(group.group_id, reason)


def upgraded(group: ClassicGroup, topics: Topics) -> list[CoordinatorRecord]:
    """Return the records that turn a classic group into a consumer group; GroupIdNotFound if its members are not consumers."""
    try:
        members = [_upgraded(member, group, topics) for member in group.members]
    except WireError:
        raise _no_upgrade(group.group_id, "the embedded consumer protocol is malformed") from None
    group_id, generation_id = group.group_id, group.generation_id
    topics_hash = metadata_hash({name for member, _ in members for name in member.topic_names}, topics)
    return [
        *group.tombstones(),
        *(member_record(group_id, member) for member, _ in members),
        epoch_record(group_id, generation_id, topics_hash),
        *(target_record(group_id, member.member_id, assignment) for member, assignment in members),
        target_epoch_record(group_id, generation_id, NEVER),
        *(current_record(group_id, member) for member, _ in members),
    ]


def _no_upgrade(group_id: str, reason: str) -> GroupIdNotFound:
    return GroupIdNotFound(f"Cannot upgrade classic group {group_id} to consumer group because {reason}.")


def _upgraded(member: ClassicMember, group: ClassicGroup, topics: Topics) -> tuple[ConsumerMember, Assignment]:
    """Return the new member and its partitions, which its leader assigned last."""
    assignment = NOTHING
    if member.assignment:
        found = read_assignment(member.assignment)
        if found.user_data:
            reason = "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before "
            raise _no_upgrade(group.group_id, reason + "re-attempting the upgrade")
        assignment = partitions_of(found.assigned_partitions, topics)
    metadata = member.metadata(group.protocol_name) if group.protocol_name is not None else member.protocols[0].metadata
    subscription = read_subscription(metadata)
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=metadata_of(member.session_timeout_ms, member.protocols),
        member_epoch=group.generation_id,
        previous_member_epoch=group.generation_id,
        assigned={topic_id: dict.fromkeys(sorted(indexes), group.generation_id) for topic_id, indexes in assignment.items()},
    ), assignment


def metadata_of(session_timeout_ms: int, protocols: Sequence[Protocol]) -> ClassicMemberMetadata:
    """Return the metadata that a consumer group stores for a classic member."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=each.name, metadata=each.metadata) for each in protocols],
    )


# Downgrade


def downgraded(members: Sequence[ConsumerMember], image: ConsumerGroupImage, topics: Topics, *, must_rebalance: bool) -> ClassicSuccessor:
    """Return a classic group of these members, with the target assignments of `image`."""
    classic_members = MemberTable(CONSUMER)
    for member in members:
        classic_members.add(_downgraded(member), CONSUMER)
    protocol_name = classic_members.select()
    for member, classic_member in zip(members, classic_members, strict=True):
        target = image.targets.get(member.member_id, NOTHING)
        classic_member.assignment = write_assignment(target, classic_member.metadata(protocol_name), member.topic_names, topics)
    return ClassicSuccessor(classic_members, image.epoch, protocol_name, must_rebalance)


def _downgraded(member: ConsumerMember) -> ClassicMember:
    known = member.classic or ClassicMemberMetadata()
    join = Join(
        client_id=member.client_id,
        client_host=member.client_host,
        protocol_type=CONSUMER,
        protocols=protocols_of(member),
        session_timeout_ms=known.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        group_instance_id=member.instance_id,
    )
    classic_member = ClassicMember(member.member_id, join)
    classic_member.is_new = False
    return classic_member


def protocols_of(member: ConsumerMember) -> tuple[Protocol, ...]:
    """Return the protocols of a classic member; an empty tuple for other members."""
    if member.classic is None:
        return ()
    return tuple(Protocol(each.name, bytes(each.metadata)) for each in member.classic.supported_protocols)
