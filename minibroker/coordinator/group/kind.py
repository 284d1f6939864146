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
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.errors import KafkaError

if TYPE_CHECKING:
    from minibroker.coordinator.group.live_groups import LiveGroups
    from minibroker.coordinator.group.offsets import Membership


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


def load_kind(group_type: GroupType) -> Kind:
    """How groups of a newer kind are made."""
    if group_type is GroupType.CONSUMER:
        from minibroker.coordinator.group.consumer.service import KIND  # noqa: PLC0415  many brokers have no group of it

        return KIND
    if group_type is GroupType.SHARE:
        from minibroker.coordinator.group.share.service import KIND  # noqa: PLC0415  likewise

        return KIND
    from minibroker.coordinator.group.streams.service import KIND  # noqa: PLC0415  likewise

    return KIND
