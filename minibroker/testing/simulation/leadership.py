"""The controller of simulated brokers: which of them run, and the replicas and the leader of each partition.

One broker has all data, and nothing is replicated. This is what clients see, by the rules of Apache
Kafka's controller (ReplicationControlManager, PartitionChangeBuilder of 4.3.1). partition_state.py
has the rules for a single partition:

    a broker stops     It leaves the in-sync sets. Its partitions are led by the first replica that is alive and in sync or eligible, else
                       by any that is alive (unclean.leader.election.enable), else they have no leader.
    it starts          It is in sync again at once where there is a leader. It leads partitions without a leader, if it may. Other
                       leaders stay until an election (ElectLeaders).
    another leader     raises the leader epoch in the metadata log and in the partition's log. So does the loss of a leader.

Invariant: a leader is alive and in sync. While there is a leader, all replicas that are alive are
in sync. Invariant: a set of partitions changes together. The metadata log is written once, before
any client sees the change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.metadata.features import ELIGIBLE_LEADERS_FEATURE
from minibroker.cluster.metadata.metadata_image import IN_SYNC_MIN
from minibroker.cluster.nodes import (
    NO_LEADER,
    EligibleLeaders,
    LeadershipChanges,
    Node,
    PartitionNodes,
    Reassignment,
    recorded_reassignment,
)
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, INTERNAL_TOPICS, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC, Topic
from minibroker.errors import (
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
)
from minibroker.storage.files import Files
from minibroker.testing.simulation.partition_state import (
    ElectionContext,
    PartitionState,
    after_start_of,
    after_stop_of,
    first_state,
    may_lead,
    with_elected_leader,
    with_leader,
    with_preferred_leader,
    with_replicas,
    with_running_reassignment,
    with_unclean_leader,
    without_leader,
)
from minibroker.testing.simulation.replica_placement import ReplicaAssignments, spread

_UNCLEAN: Final = "unclean.leader.election.enable"
_FACTORS: Final = {
    CONSUMER_OFFSETS_TOPIC: "offsets_topic_replication_factor",
    TRANSACTION_STATE_TOPIC: "transaction_state_log_replication_factor",
    SHARE_GROUP_STATE_TOPIC: "share_coordinator_state_topic_replication_factor",
}


Change = Callable[[PartitionState, ElectionContext], PartitionState]


class SimulatedLeadership:
    """The leaders of all partitions of a cluster (`Leadership`)."""

    def __init__(self, cluster: Cluster, nodes: Sequence[Node], files: Files) -> None:
        """Present a cluster as these brokers from now on; its own node is one of them.

        `files` has its log directories.
        """
        self.nodes: Mapping[int, Node] = {node.node_id: node for node in nodes}  #: all brokers by id
        self.changes = LeadershipChanges()
        self.alive: set[int] = set(self.nodes)  #: ids of the brokers that run; written here
        self._cluster = cluster
        self._assignments = ReplicaAssignments(files, cluster.config.log_dirs[0])
        self._racks = {node.node_id: node.rack for node in nodes}
        self._states: dict[UUID, list[PartitionState]] = {}  #: of the partitions of a topic, from their first use
        self.reassignments: Reassignments | None = None  #: None: they are finished at once
        self.log_ends: ReplicaLogEnds | None = None  #: None: an unclean election loses no records
        if cluster.config.minibroker_like_kafka:
            self.reassignments = Reassignments(self, cluster.clock)
            self.log_ends = ReplicaLogEnds(cluster.logs.truncate)
        cluster.simulate(self, [node for node in nodes if node is not cluster.node])

    @property
    def node_ids(self) -> Collection[int]:
        """All brokers."""
        return self.nodes.keys()

    @property
    def alive_ids(self) -> Collection[int]:
        """Brokers that run."""
        return self.alive

    def close(self) -> None:
        """Finish no reassignment any more."""
        if self.reassignments is not None:
            self.reassignments.stop()

    # Look-ups

    def state(self, partition: Partition) -> PartitionState:
        """Return replicas, in-sync replicas and leader of a partition."""
        found = self._states.get(partition.topic_id)
        if found is None:
            found = self._states[partition.topic_id] = self._first_states(partition)
        if partition.index >= len(found):
            found += self._grown(partition, found)
        return found[partition.index]

    def of(self, partition: Partition) -> PartitionNodes:
        """Return what clients see of a partition."""
        state = self.state(partition)
        replicas = state.replicas
        if not partition.is_online:
            return PartitionNodes(NO_LEADER, replicas, [], replicas)
        return PartitionNodes(state.leader_id, replicas, state.in_sync, [each for each in replicas if each not in self.alive])

    def eligible(self, partition: Partition) -> EligibleLeaders:
        """Return the eligible replicas, and the last leader while there is none."""
        state = self.state(partition)
        is_known = state.last_leader_id != NO_LEADER and not (state.is_taken_away and state.in_sync)
        return EligibleLeaders(list(state.eligible), [state.last_leader_id] if is_known else [])

    def default_replication_factor(self, name: str) -> int:
        """Return the replication factor of a topic whose creator names none; at most the number of brokers."""
        factor: int = getattr(self._cluster.config, _FACTORS.get(name, "default_replication_factor"))
        return min(factor, len(self.nodes))

    def replication_factor(self, topic: Topic) -> int:
        """Return the number of replicas of a topic's first partition."""
        return len(self.state(topic.partitions[0]).replicas)

    def replicas(self, partition: Partition) -> list[int]:
        """Return the replicas that a partition has now."""
        return self.state(partition).replicas

    # New and deleted topics and partitions

    def place(self, topic: Topic, assignment: Sequence[Sequence[int]] | None, replication_factor: int) -> None:
        """Place the replicas of a new topic; without an assignment they are spread over the brokers that run."""
        usual = self.default_replication_factor(topic.name)
        count = usual if replication_factor == -1 else replication_factor
        if assignment is None and (count != usual or not self._all_are_alive):
            assignment = spread(topic.name, range(len(topic.partitions)), count, self._racks, self.alive)
        if assignment is not None:
            self._assignments.put(topic.topic_id, assignment)
        self._settle(topic.partitions)

    def grow(self, topic: Topic, first: int, assignment: Sequence[Sequence[int]] | None) -> None:
        """Place the replicas of new partitions, which start at index `first`."""
        self._settle(topic.partitions)  # as many replicas as the first
        if assignment is None and not self._all_are_alive:
            count = len(self.state(topic.partitions[0]).replicas)
            assignment = spread(topic.name, range(first, len(topic.partitions)), count, self._racks, self.alive)
        if assignment is None:
            return
        self._states[topic.topic_id][first:] = [first_state(list(replicas), self.alive) for replicas in assignment]
        self._write_down(topic)

    def forget(self, topics: Sequence[Topic]) -> None:
        """Forget deleted topics."""
        for topic in topics:
            self._states.pop(topic.topic_id, None)
            if self.reassignments is not None:
                self.reassignments.forget(topic.topic_id)
            if self.log_ends is not None:
                self.log_ends.forget(topic.topic_id)
        self._assignments.remove([topic.topic_id for topic in topics])

    @property
    def _all_are_alive(self) -> bool:
        return len(self.alive) == len(self.nodes)

    def _settle(self, partitions: Iterable[Partition]) -> None:
        """Place partitions by the brokers that run now."""
        for partition in partitions:
            self.state(partition)

    def _first_states(self, partition: Partition) -> list[PartitionState]:
        topic = self._cluster.topics[partition.topic]
        assignment = self._assignments.get(topic.topic_id)
        if assignment is None or not all(set(replicas) <= set(self.nodes) for replicas in assignment):
            count = len(topic.partitions)
            assignment = spread(topic.name, range(count), self.default_replication_factor(topic.name), self._racks)
        return [first_state(replicas, self.alive) for replicas in assignment]

    def _grown(self, partition: Partition, found: list[PartitionState]) -> list[PartitionState]:
        topic = self._cluster.topics[partition.topic]
        new = range(len(found), len(topic.partitions))
        replication_factor = len(found[0].replicas) if found else self.default_replication_factor(topic.name)
        return [first_state(replicas, self.alive) for replicas in spread(topic.name, new, replication_factor, self._racks)]

    def _write_down(self, topic: Topic) -> None:
        self._assignments.put(topic.topic_id, [self.state(partition).replicas for partition in topic.partitions])

    # Brokers stop and start

    def stop(self, node_id: int) -> None:
        """Stop a broker; does nothing if it is stopped. After KafkaStorageError it still runs."""
        if node_id in self.alive:
            self._settle(self._all())
            self._change_alive(self.alive - {node_id}, lambda before, context: after_stop_of(before, node_id, context))

    def start(self, node_id: int) -> None:
        """Start a broker, which is in sync at once; does nothing if it runs.

        After KafkaStorageError it is still stopped.
        """
        if node_id not in self.alive:
            self._change_alive(self.alive | {node_id}, lambda before, context: after_start_of(before, node_id, context))

    def _change_alive(self, alive: set[int], change: Change) -> None:
        before, self.alive = self.alive, alive
        try:
            self._change(self._all(), change)
        except KafkaError:
            self.alive = before
            raise

    def _context(self, topic: Topic) -> ElectionContext:
        config = self._cluster.config
        unclean, in_sync_min = topic.config.get(_UNCLEAN), topic.config.get(IN_SYNC_MIN)
        return ElectionContext(
            self.alive,
            config.min_insync_replicas if in_sync_min is None else int(in_sync_min),
            config.unclean_leader_election_enable if unclean is None else unclean == "true",
            self._cluster.feature_level(ELIGIBLE_LEADERS_FEATURE) > 0,
        )

    # Elections, moves

    def elect_preferred(self, partition: Partition) -> None:
        """Make the first replica the leader; raises ElectionNotNeeded, PreferredLeaderNotAvailable."""
        if not partition.is_online:
            raise PreferredLeaderNotAvailable
        self._change([partition], with_preferred_leader)

    def elect_unclean(self, partition: Partition) -> None:
        """Make any replica the leader; raises ElectionNotNeeded, EligibleLeadersNotAvailable."""
        if not partition.is_online:
            raise EligibleLeadersNotAvailable
        self._change([partition], with_unclean_leader)

    def move(self, partition: Partition, node_id: int) -> None:
        """Make a broker the leader. If it has no replica, it replaces the former leader.

        Raises:
            InvalidReplicaAssignment: the broker does not run.
        """
        if node_id not in self.alive:
            known = ", ".join(map(str, sorted(self.alive)))
            raise InvalidReplicaAssignment(f"broker {node_id} cannot lead {_name(partition)}: it is not running (running: {known})")
        self._change([partition], lambda before, context: with_leader(before, node_id, context))

    def take_away(self, partition: Partition) -> None:
        """Take the leader away until `give_back`; does nothing if it was taken away."""
        self._change([partition], lambda before, _: without_leader(before))

    def give_back(self, partition: Partition) -> None:
        """Elect a leader again, the preferred one if possible; does nothing if the leader was not taken away."""
        if self.state(partition).is_taken_away:
            self._change([partition], lambda before, context: with_elected_leader(before._replace(is_taken_away=False), context))

    def bump_epoch(self, partition: Partition) -> int:
        """Elect the same leader again, and return the new leader epoch."""
        self._cluster.logs.raise_leader_epochs([partition])
        partition.wake()
        return partition.leader_epoch

    def check_replica_count(self, partition: Partition, count: int) -> None:
        """Check that a reassignment keeps the replication factor; replicas that a running one adds do not count."""
        state = self.state(partition)
        before = len(state.replicas) - len(state.adding)
        if count != before:
            raise InvalidReplicationFactor(f"The replication factor is changed from {before} to {count}")

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Change the replicas, which the caller has checked; the leader stays if it may.

        The reassignment is finished when this returns, unless new replicas take a while
        (`Reassignments`).
        """
        if self.reassignments is not None and self.reassignments.begin(partition, replicas):
            return
        self.finish_reassignment(partition, replicas)

    def cancel_reassignment(self, partition: Partition) -> None:
        """Restore the replicas from before a reassignment; raises NoReassignmentInProgress."""
        if self.reassignments is None:
            raise NoReassignmentInProgress
        self.reassignments.cancel(partition)

    def reassignment(self, partition: Partition) -> Reassignment | None:
        """Return the reassignment that is running, or that an Apache Kafka left."""
        running = None if self.reassignments is None else self.reassignments.of(partition)
        return running or recorded_reassignment(self._cluster.image.partition_record(partition))

    def show_reassignment(self, partition: Partition, replicas: Sequence[int], adding: Sequence[int]) -> None:
        """Change the replicas for as long as a reassignment runs."""
        self._change([partition], lambda before, _: with_running_reassignment(before, replicas, adding))

    def finish_reassignment(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Change the replicas, which have all records."""
        is_shrunk = not set(self.state(partition).replicas) <= set(replicas)
        epoch = partition.leader_epoch
        self._change([partition], lambda before, context: with_replicas(before, replicas, context))
        if is_shrunk and partition.leader_epoch == epoch:
            self.bump_epoch(partition)  # fences former replicas
        self._write_down(self._cluster.topics[partition.topic])

    def _all(self) -> list[Partition]:
        return [partition for topic in self._cluster.topics.values() for partition in topic.partitions]

    def _change(self, partitions: Iterable[Partition], change: Change) -> None:
        """Change partitions, and raise the epochs of those with another leader.

        After KafkaStorageError none was changed.
        """
        changed: list[tuple[Partition, PartitionState, PartitionState]] = []
        with_new_leader: list[Partition] = []
        for partition in partitions:
            before = self.state(partition)
            after = change(before, self._context(self._cluster.topics[partition.topic]))
            if after != before:
                changed.append((partition, before, after))
                if after.leader_id != before.leader_id:
                    with_new_leader.append(partition)
        self._cluster.logs.raise_leader_epochs(with_new_leader)
        for partition, before, after in changed:
            self._states[partition.topic_id][partition.index] = after
            self._count(before, after)
            if self.log_ends is not None:
                self.log_ends.follow(partition, before, after)
        for partition in with_new_leader:
            partition.wake()

    def _count(self, before: PartitionState, after: PartitionState) -> None:
        changes, gone, added = self.changes, set(before.in_sync) - set(after.in_sync), set(after.in_sync) - set(before.in_sync)
        changes.in_sync_shrinks += bool(gone)
        changes.in_sync_expansions += bool(added)
        changes.unclean_elections += is_unclean(before, after)


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.index}"


def is_unclean(before: PartitionState, after: PartitionState) -> bool:
    """Whether a replica became leader that may lack records."""
    return before.leader_id == NO_LEADER != after.leader_id and not before.is_taken_away and not may_lead(before, after.leader_id)


class ReplicaLogEnds:
    """What replicas that are not in sync lack, so that an unclean election loses records as in Apache Kafka (`minibroker.like.kafka`).

    A partition has one log. For each replica that left the in-sync set, this remembers where the
    log ended then. A replica that becomes leader in an unclean election cuts the log off there. A
    replica that is in sync again has all records. Internal topics lose nothing, because
    coordinators have read them.
    """

    def __init__(self, truncate: Callable[[Partition, int], None]) -> None:
        self._truncate = truncate
        self._ends: dict[tuple[UUID, int], dict[int, int]] = {}  #: log end offset by node, of those that are not in sync

    def follow(self, partition: Partition, before: PartitionState, after: PartitionState) -> None:
        """Note that the in-sync replicas or the leader of a partition change."""
        if partition.topic in INTERNAL_TOPICS:
            return
        ends = self._ends.setdefault((partition.topic_id, partition.index), {})
        if is_unclean(before, after) and after.leader_id in ends:
            self._truncate(partition, ends[after.leader_id])
        log = partition.online_log
        for node_id in set(before.in_sync) - set(after.in_sync):
            ends[node_id] = 0 if log is None else log.log_end_offset
        for node_id in after.in_sync:
            ends.pop(node_id, None)

    def forget(self, topic_id: UUID) -> None:
        """Forget a deleted topic."""
        for key in [each for each in self._ends if each[0] == topic_id]:
            del self._ends[key]


RUNNING_MS: Final = 1_000  #: long enough to be seen and cancelled

_LOG = logging.getLogger(__name__)


class Reassignments:
    """Reassignments that run for a while, as in Apache Kafka, where new replicas have to catch up: with `minibroker.like.kafka`.

        begin     The replicas are those of the target, then those to be removed. New replicas are not in sync and cannot lead.
        finish    RUNNING_MS later the replicas are those of the target, and all of them are in sync.
        cancel    The replicas are those from before.

    A reassignment that adds no replica is finished at once. A second reassignment of a partition
    replaces the first. When the broker stops it forgets running reassignments, so the replicas are
    those from before. Source: PartitionReassignmentReplicas of Apache Kafka 4.3.1.
    """

    def __init__(self, leadership: SimulatedLeadership, clock: Clock) -> None:
        self._leadership = leadership
        self._clock = clock
        self._running: dict[tuple[UUID, int], tuple[Reassignment, Timer]] = {}

    def of(self, partition: Partition) -> Reassignment | None:
        """Return the reassignment of a partition, if one is running."""
        found = self._running.get(_key(partition))
        return None if found is None else found[0]

    def begin(self, partition: Partition, target: Sequence[int]) -> bool:
        """Begin a reassignment; returns False if it adds no replica, so that the caller finishes it at once.

        Raises KafkaStorageError.
        """
        before = self.of(partition)
        original = self._leadership.replicas(partition) if before is None else before.original
        adding = [each for each in target if each not in original]
        if before is not None:
            self._forget(_key(partition))
        if not adding:
            return False
        removing = sorted(set(original) - set(target))
        reassignment = Reassignment(list(original), list(target), [*target, *removing], adding, removing)
        self._leadership.show_reassignment(partition, reassignment.replicas, adding)
        timer = self._clock.call_later_ms(RUNNING_MS, lambda: self._finish(partition))
        self._running[_key(partition)] = reassignment, timer
        return True

    def cancel(self, partition: Partition) -> None:
        """Restore the replicas from before; raises NoReassignmentInProgress."""
        found = self.of(partition)
        if found is None:
            raise NoReassignmentInProgress
        self._leadership.show_reassignment(partition, found.original, ())
        self._forget(_key(partition))

    def forget(self, topic_id: UUID) -> None:
        """Forget a deleted topic."""
        for key in [each for each in self._running if each[0] == topic_id]:
            self._forget(key)

    def stop(self) -> None:
        """Forget all: the cluster closes."""
        for key in list(self._running):
            self._forget(key)

    def _finish(self, partition: Partition) -> None:
        found = self.of(partition)
        if found is None:
            return
        self._forget(_key(partition))
        try:
            self._leadership.finish_reassignment(partition, found.target)
        except KafkaError as error:
            _LOG.warning("could not finish the reassignment of %s-%d: %s", partition.topic, partition.index, error)

    def _forget(self, key: tuple[UUID, int]) -> None:
        _, timer = self._running.pop(key)
        timer.cancel()


def _key(partition: Partition) -> tuple[UUID, int]:
    return partition.topic_id, partition.index
