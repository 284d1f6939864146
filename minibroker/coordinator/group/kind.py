"""The protocols that every kind of group implements. Start here.

    kind        its records in `__consumer_offsets`, besides offsets     folder
    classic     GroupMetadata                                            classic/
    consumer    ConsumerGroup... (KIP-848)                               consumer/
    share       ShareGroup... (KIP-932)                                  share/
    streams     StreamsGroup... (KIP-1071)                               streams/

Each folder has the same files:

    service.py     a GroupKind: takes the requests of members, finds or creates their group, and answers when the log is synced
    group.py       a LiveGroup: the state machine of one group, with its table
    members.py     members, their records, and the image that the records replay into
    requests.py    requests and answers, and the checks that do not depend on the group (share groups: in group.py)

`coordinator.py` has the table of kinds, `live_groups.py` has the state machines. `store.py` reads,
replays and appends the records of `__consumer_offsets`. To serve another kind, add its folder, and
its name to `GroupType`, to `coordinator.py` and to `store.py`.

A group of a newer kind exists from its first record until the tombstone of the record that has its
epoch. Its image is the state that its records describe, and only replay changes it. A classic group
has no image: its last record is its state.

Source: Group, GroupMetadataManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from minibroker.errors import KafkaError
from minibroker.schemas.internal.offset_records import GroupMetadataValue
from minibroker.storage.record_frame import CoordinatorRecord


class GroupType(Enum):
    """The kind of a group, as ListGroups spells it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


Persist = Callable[[Sequence[CoordinatorRecord]], None]  #: appends one batch and replays it into the image; KafkaError: nothing happened
CheckCommit = Callable[[UUID, int], KafkaError | None]  #: why the offset of a partition may not be committed; None: it may


def may_commit_all(_topic_id: UUID, _partition: int) -> KafkaError | None:
    """Allow the commit of every partition."""
    return None


class Membership(NamedTuple):
    """The client that commits offsets: a member of a generation, or, with generation -1, a client that is not a member."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class StoredGroup(NamedTuple):
    """The state of one group in the log."""

    stored: GroupMetadataValue | None = None  #: the last generation of a classic group; None if it is not in the log
    group_type: GroupType = GroupType.CLASSIC
    image: Any = None  #: the replayed records of a newer kind
    was_downgraded: bool = False  #: a classic group that was a consumer group, and has had no generation since then

    @property
    def is_classic(self) -> bool:
        """Whether it is a classic group, or a simple one."""
        return self.group_type is GroupType.CLASSIC


#: a group that has offsets and no other records; Apache Kafka would store this generation
SIMPLE_GROUP: Final = StoredGroup(
    GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=-1, members=[])
)


class LiveGroup(Protocol):
    """The state machine of one group."""

    @property
    def group_type(self) -> GroupType:
        """The kind of the group."""

    @property
    def protocol_type(self) -> str:
        """The protocol type, as ListGroups spells it."""

    @property
    def state(self) -> Enum:
        """The state; its value is as ListGroups spells it."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @property
    def do_offsets_expire(self) -> bool:
        """Whether offsets of topics without subscribers expire though the group has members."""

    def check_offset_commit(self, membership: Membership, *, is_transactional: bool, has_member_epoch: bool = True) -> CheckCommit:
        """Check whether a client may commit, and return the check of each partition; KafkaError.

        `has_member_epoch`: the version of the request has member epochs (KIP-848).
        """

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError if a client may not fetch offsets."""

    def check_offset_delete(self) -> None:
        """Raise KafkaError if offsets may not be deleted now."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic, so that its offsets must stay."""

    def check_delete(self) -> None:
        """Raise KafkaError if the group may not be deleted.

        Otherwise delete its state outside of `__consumer_offsets`.
        """

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones of its records, without those of its offsets.

        The group must have no members.
        """

    def resume(self) -> None:
        """Start the session time-outs of all members, after the log was read."""

    def unload(self, error: type[KafkaError] = ..., /) -> None:
        """Cancel all timers, and answer waiting requests with `error`: NotCoordinator unless another group takes its place."""


class GroupKind(Protocol):
    """The service of one kind of group."""

    def new_image(self) -> Any:
        """Return the empty image of a group; None for classic groups, which have no image."""

    def make(self, group_id: str, known: StoredGroup, persist: Persist) -> LiveGroup:
        """Create the state machine of a group from its state in the log.

        `persist` appends records and replays them into `known.image`.
        """
