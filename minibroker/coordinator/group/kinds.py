"""Kinds of groups: what the records of each are, and what the coordinator asks of a group whatever its kind.

    kind        its records, besides offsets       its room
    classic     GroupMetadata                      classic/
    consumer    ConsumerGroup... (KIP-848)         consumer/
    share       ShareGroup... (KIP-932)            share/
    streams     StreamsGroup... (KIP-1071)         streams/

A group of a newer kind is there from the first of its records until the tombstone of the one that has its epoch. What its records say
is an Image; replay alone writes it (shard.py). What it does with requests and time is a LiveGroup, which the log's groups are given when
the log was read, and new ones when their first member comes (live_groups.py). A classic group has no image, but its last record.

To serve another kind: a module `kind.py` in its room that makes a Kind, and a line in `load_kind`.

Source: Group, GroupMetadataManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from uuid import UUID

from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.errors import KafkaError
from minibroker.schemas.internal.consumer_group_records import ConsumerGroupMetadataKey
from minibroker.schemas.internal.coordinator_records import OFFSET_RECORD_TYPES
from minibroker.schemas.internal.share_group_records import ShareGroupMetadataKey
from minibroker.schemas.internal.streams_group_records import StreamsGroupMetadataKey

if TYPE_CHECKING:
    from minibroker.coordinator.group.commits import Membership
    from minibroker.coordinator.group.live_groups import LiveGroups


class GroupType(Enum):
    """As ListGroups spells it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


Persist = Callable[[Sequence[CoordinatorRecord]], None]  #: appends one batch, and replays it into the image; KafkaError: nothing happened
CheckCommit = Callable[[UUID, int], KafkaError | None]  #: why the offset of that partition may not be committed; None: it may


def may_commit_all(_topic_id: UUID, _partition: int) -> KafkaError | None:
    """Nothing forbids any."""
    return None


class Image(Protocol):
    """What the records of one group say."""

    def replay(self, record: CoordinatorRecord) -> None:
        """Take one record of the group."""


class LiveGroup(Protocol):
    """A group's machine."""

    @property
    def group_type(self) -> GroupType:
        """Of what kind it is."""

    @property
    def protocol_type(self) -> str:
        """As ListGroups spells it."""

    @property
    def state(self) -> Enum:
        """Its value is as ListGroups spells it."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    def do_offsets_expire(self) -> bool:
        """Whether offsets of topics that nobody is subscribed to expire, members or not."""

    def check_offset_commit(self, membership: Membership, *, is_transactional: bool, has_member_epoch: bool = True) -> CheckCommit:
        """Who may commit, and what of it; KafkaError. `has_member_epoch`: the request is of a version that knows of KIP-848."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Who may ask for offsets; KafkaError."""

    def check_offset_delete(self) -> None:
        """Whether offsets may be deleted while it is as it is; KafkaError."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads it: then its offsets stay."""

    def check_delete(self) -> None:
        """Whether it may be deleted; KafkaError. What it keeps elsewhere is deleted then."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """Of its records, but for offsets: it is gone after them. It may have no members."""

    def resume(self) -> None:
        """The log was read: members are given time to be heard of again."""

    def unload(self) -> None:
        """Nobody asks it any more: no timer is left, and no request waits."""


class Kind(NamedTuple):
    """A newer kind."""

    new_image: Callable[[], Any]
    make: Callable[[LiveGroups, str, Any, Persist], LiveGroup]  #: the machine of a group: its id and its image


#: the record that has the epoch of a group, by kind
_OF_GROUPS: Final = {
    GroupType.CONSUMER: ConsumerGroupMetadataKey,
    GroupType.SHARE: ShareGroupMetadataKey,
    GroupType.STREAMS: StreamsGroupMetadataKey,
}
_TYPES: Final[dict[type, GroupType]] = {
    each.key: group_type
    for each in OFFSET_RECORD_TYPES
    for group_type in _OF_GROUPS
    if each.key.__name__.startswith(f"{group_type.name.capitalize()}Group")
}
_ENDS: Final = frozenset(_OF_GROUPS.values())


def type_of_key(key: object) -> GroupType | None:
    """Of which newer kind a record is; None of classic groups and offsets."""
    return _TYPES.get(type(key))


def is_of_group(key: object) -> bool:
    """Whether this is the record that has the group's epoch, whose tombstone is the end of the group."""
    return type(key) in _ENDS


def load_kind(group_type: GroupType) -> Kind:
    """How groups of a newer kind are made."""
    if group_type is GroupType.CONSUMER:
        from minibroker.coordinator.group.consumer.kind import KIND  # noqa: PLC0415  many brokers have no group of it

        return KIND
    if group_type is GroupType.SHARE:
        from minibroker.coordinator.group.share.kind import KIND  # noqa: PLC0415  likewise

        return KIND
    from minibroker.coordinator.group.streams.kind import KIND  # noqa: PLC0415  likewise

    return KIND
