"""A step of a streams group: the records of one request or time-out, and the image of the group with them.

A step starts with the image of the group and changes a copy. The image changes when the records are
stored.

    a member joins, leaves or changes; a topic or a setting of the       the group has a new epoch
      assignment changed
    the epoch of the target assignment is older, and it may be made      there is a new target assignment, for that epoch
    a member's epoch is older                                            its next heartbeat reconciles it (reconciliation.py)

Source: GroupMetadataManager, TargetAssignmentBuilder of Apache Kafka 4.3.1; KIP-1071, KIP-1263.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from minibroker.coordinator.group.modern import NEVER, ModernStep
from minibroker.coordinator.group.streams import records
from minibroker.coordinator.group.streams.assignor import MemberSpec, assign_sticky
from minibroker.coordinator.group.streams.internal_topics import ConfiguredTopology
from minibroker.coordinator.group.streams.members import NOT_VALIDATED, StreamsGroupImage, StreamsMember
from minibroker.coordinator.group.streams.reconciliation import Goal, Owners, reconcile
from minibroker.coordinator.group.streams.tasks import NO_TASKS, Tasks
from minibroker.coordinator.group.streams.topology import Topology
from minibroker.errors import InvalidRequest

NUM_STANDBY_REPLICAS: Final = "num.standby.replicas"  #: a setting of the assignment


class StreamsGroupStep(ModernStep[StreamsGroupImage]):
    """The records of one step, and the image with them."""

    # Members and topology

    def update(self, member: StreamsMember) -> bool:
        """Record a member that is new or changed. Return whether it was."""
        before = self.image.members.get(member.member_id)
        if before is not None and before == member.with_progress_of(before):
            return False
        self._write(records.member_record(self._group_id, member))
        return True

    def initialize(self, requested: Topology | None) -> Topology:
        """Return the topology of the group: that of its first member. Raise InvalidRequest for a different one."""
        known = self.image.topology
        if known is None:
            if requested is None:
                raise InvalidRequest("The group has no topology yet.")
            self._write(records.topology_record(self._group_id, requested))
            return requested
        if requested is not None and requested.epoch >= known.epoch and not known.is_same(requested):
            raise InvalidRequest("Topology updates are not supported yet.")
        return known

    def remove(self, member_id: str) -> None:
        """Remove a member, and start a new epoch."""
        self._write(*records.member_tombstones(self._group_id, member_id))
        image = self.image
        self._write_epoch(image.metadata_hash, image.validated_topology_epoch, image.assignment_configs)

    # Epochs and assignments

    def follow(self, metadata_hash: int, configured: ConfiguredTopology, standby_count: int, *, has_changed: bool) -> None:
        """Start a new epoch if members, topics, settings or the readiness of the topology changed."""
        image = self.image
        configs = {NUM_STANDBY_REPLICAS: str(standby_count)}
        validated = image.topology.epoch if image.topology is not None and configured.is_ready else NOT_VALIDATED
        before = (image.metadata_hash, image.validated_topology_epoch, image.assignment_configs)
        if has_changed or before != (metadata_hash, validated, configs):
            self._write_epoch(metadata_hash, validated, configs)

    def _write_epoch(self, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]) -> None:
        epoch = self.image.epoch + 1
        self._write(records.epoch_record(self._group_id, epoch, metadata_hash, validated_topology_epoch, configs))

    def assign(self, configured: ConfiguredTopology, standby_count: int, interval_ms: int) -> bool:
        """Make the target assignment of this epoch, unless there is one. Return False if the last one is younger than the interval."""
        image = self.image
        if image.assignment_epoch >= image.epoch:
            return True
        if image.assignment_timestamp_ms != NEVER and 0 <= self._now_ms - image.assignment_timestamp_ms < interval_ms:
            return False
        specs = {
            member_id: MemberSpec(member.process_id, image.targets.get(member_id, NO_TASKS)) for member_id, member in image.members.items()
        }
        subtopologies = configured.subtopologies if configured.is_ready else {}
        for member_id, target in assign_sticky(specs, subtopologies, standby_count).items():
            if image.targets.get(member_id) != target:
                self._write(records.target_record(self._group_id, member_id, target))
        self._write(records.target_epoch_record(self._group_id, image.epoch, self._now_ms))
        return True

    def reconcile(self, member_id: str, owned: Tasks | None, *, is_delayed: bool) -> StreamsMember:
        """Reconcile a member with its target as far as possible; with no tasks while the first assignment is delayed."""
        image = self.image
        member = image.members[member_id]
        if member.is_reconciled(image.assignment_epoch):
            return member  # the usual case: owners of tasks are not needed
        target = NO_TASKS if is_delayed else image.targets.get(member_id, NO_TASKS)
        moved = reconcile(member, Goal(image.assignment_epoch, target, Owners(image.members.values())), owned)
        if moved != member:
            self._write(records.current_record(self._group_id, moved))
        return moved
