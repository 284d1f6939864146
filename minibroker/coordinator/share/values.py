"""What is said about a share partition, which is a partition of a topic as one share group reads it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Final, NamedTuple, Self
from uuid import UUID

from minibroker.coordinator.share.state_batches import NO_OFFSET, StateBatch
from minibroker.schemas.internal.share_state_records import ShareSnapshotKey, ShareUpdateKey

NO_EPOCH: Final = -1  #: asks for no check
NO_COUNT: Final = -1  #: not known
_MAX_ID_LENGTH: Final = 24  #: of a topic id as text


class StateKey(NamedTuple):
    """Which share partition."""

    group_id: str
    topic_id: UUID
    partition: int

    @classmethod
    def of(cls, key: ShareSnapshotKey | ShareUpdateKey) -> Self:
        """The key of a record."""
        return cls(key.group_id, key.topic_id, key.partition)

    @classmethod
    def parse(cls, coordinator_key: str) -> Self:
        """The other way; ValueError. A group id may have colons."""
        group_id, topic_id, partition = coordinator_key.rsplit(":", 2)
        if not group_id.strip() or len(topic_id) > _MAX_ID_LENGTH:
            raise ValueError(f"no share partition: {coordinator_key}")
        return cls(group_id, UUID(bytes=urlsafe_b64decode(topic_id + "=" * (-len(topic_id) % 4))), int(partition))

    @property
    def coordinator_key(self) -> str:
        """What says where its state lives, and what FindCoordinator is asked for."""
        return f"{self.group_id}:{urlsafe_b64encode(self.topic_id.bytes).rstrip(b'=').decode()}:{self.partition}"


class ShareState(NamedTuple):
    """All that the log says of a share partition."""

    snapshot_epoch: int  #: how many snapshots there were before
    state_epoch: int  #: of the group when it was initialized
    leader_epoch: int  #: of the partition, when it was read last
    start_offset: int  #: NO_OFFSET: where share.auto.offset.reset says
    delivery_complete_count: int  #: offsets from start_offset on that nobody gets any more
    batches: Sequence[StateBatch]  #: in order, without overlaps
    create_timestamp_ms: int
    write_timestamp_ms: int  #: differs from create_timestamp_ms when the snapshot only repeats an older one


class InitialState(NamedTuple):
    """A share partition that begins, or begins anew elsewhere."""

    topic_id: UUID
    partition: int
    state_epoch: int
    start_offset: int  #: NO_OFFSET: where share.auto.offset.reset says, when it is fetched for the first time


class StateUpdate(NamedTuple):
    """What became of records of a share partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int  #: NO_OFFSET: as before
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class StateSummary(NamedTuple):
    """How far a group is in a partition; by default, what is told of one that is not known."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = NO_COUNT
