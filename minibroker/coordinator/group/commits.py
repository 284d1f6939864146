"""A commit of offsets: what a client asks for, and what it is told. Not in coordinator.py, because handlers are imported at every start."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from minibroker.errors import KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.wire.schema import NIL_UUID


class NewOffset(NamedTuple):
    """What is to be committed for one partition."""

    partition: tuple[str, int]  #: topic and index
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: UUID = NIL_UUID


class Membership(NamedTuple):
    """Who commits: a member of a generation, or with -1 a client that is no member."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Commit(NamedTuple):
    """What became of it: an error or None for each offset, in their order, and the log that must be synced before anybody is told."""

    errors: list[KafkaError | None]
    log: PartitionLog | None
