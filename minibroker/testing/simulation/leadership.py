"""Who leads each partition where several brokers are shown: replicas, in-sync sets, brokers that are alive.

All data are one broker's, and nothing is replicated: this is what clients are told, by the rules of Apache Kafka's controller
(ReplicationControlManager, PartitionChangeBuilder of 4.3.1), which standing.py has for a single partition:

    a broker stops     it leaves the in-sync sets; what it led goes to the first replica that is alive and in sync or eligible, else to
                       any that is alive (unclean.leader.election.enable), else to nobody
    it starts          it is in sync again at once where there is a leader; it leads what nobody leads, if it may. Other leaders stay,
                       until an election (ElectLeaders)
    another leader     is a new leader epoch, durably: the data say it, too. So is "no leader"

Invariant: a leader is alive and in sync, and where there is one, so are all replicas that are alive.
Invariant: changes are of whole sets of partitions; the metadata log is written once, before anybody is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.metadata.features import ELIGIBLE_LEADERS_FEATURE
from minibroker.cluster.metadata.metadata_image import IN_SYNC_MIN
from minibroker.cluster.nodes.node import Node
from minibroker.cluster.nodes.nodes import NO_LEADER, EligibleLeaders, PartitionNodes, Reassignment
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, INTERNAL_TOPICS, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC, Topic
from minibroker.errors import (
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    KafkaError,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
)
from minibroker.storage.files import Files
from minibroker.testing.simulation.partition_state import (
    Given,
    Standing,
    elected,
    first_standing,
    joined_by,
    led_by,
    led_by_anybody,
    led_by_preferred,
    left_by,
    may_lead,
    reassigned,
    reassigning,
    taken,
)
from minibroker.testing.simulation.reassignments import Reassignments
from minibroker.testing.simulation.replica_placement import ReplicaAssignments, spread

_UNCLEAN: Final = "unclean.leader.election.enable"
_FACTORS: Final = {
    CONSUMER_OFFSETS_TOPIC: "offsets_topic_replication_factor",
    TRANSACTION_STATE_TOPIC: "transaction_state_log_replication_factor",
    SHARE_GROUP_STATE_TOPIC: "share_coordinator_state_topic_replication_factor",
}


Change = Callable[[Standing, Given], Standing]


class SimulatedLeadership:
    """Of all partitions of a cluster."""

    def __init__(self, cluster: Cluster, nodes: Sequence[Node], files: Files) -> None:
        """Let clients see these brokers from now on, the cluster's own node among them."""
        self.nodes: Mapping[int, Node] = {node.node_id: node for node in nodes}  #: all, by id
        self.alive: set[int] = set(self.nodes)  #: written here
        self._cluster = cluster
        self._assignments = ReplicaAssignments(files, cluster.config.log_dirs[0])
        self._racks = {node.node_id: node.rack for node in nodes}
        self._standings: dict[UUID, list[Standing]] = {}  #: of a topic's partitions, once somebody asked
        self.reassignments: Reassignments | None = None  #: those that run; None: they are done at once
        self.lost_ends: LostEnds | None = None  #: what replicas that are not in sync lack; None: nothing
        if cluster.config.minibroker_like_kafka:
            self.reassignments = Reassignments(self, cluster.clock)
            self.lost_ends = LostEnds(cluster.logs.truncate)
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

    def standing(self, partition: Partition) -> Standing:
        """Replicas, in-sync set and leader; of one that nobody asked for before, as it was placed."""
        found = self._standings.get(partition.topic_id)
        if found is None:
            found = self._standings[partition.topic_id] = self._first_standings(partition)
        if partition.index >= len(found):
            found += self._grown(partition, found)
        return found[partition.index]

    def of(self, partition: Partition) -> PartitionNodes:
        """What clients are told."""
        standing = self.standing(partition)
        replicas = standing.replicas
        if not partition.is_online:
            return PartitionNodes(NO_LEADER, replicas, [], replicas)
        return PartitionNodes(standing.leader_id, replicas, standing.in_sync, [each for each in replicas if each not in self.alive])

    def eligible(self, partition: Partition) -> EligibleLeaders:
        """Who may lead besides, and who led last, where nobody is in sync."""
        standing = self.standing(partition)
        is_known = standing.last_leader_id != NO_LEADER and not (standing.is_taken and standing.in_sync)
        return EligibleLeaders(list(standing.eligible), [standing.last_leader_id] if is_known else [])

    def default_replication_factor(self, name: str) -> int:
        """Replicas of a topic whose creator does not say how many; never more than there are brokers."""
        wanted: int = getattr(self._cluster.config, _FACTORS.get(name, "default_replication_factor"))
        return min(wanted, len(self.nodes))

    def replication_factor(self, topic: Topic) -> int:
        """Return the number of replicas of a topic's first partition."""
        return len(self.standing(topic.partitions[0]).replicas)

    def replicas(self, partition: Partition) -> list[int]:
        """Return the replicas that a partition has now."""
        return self.standing(partition).replicas

    def partition_replication_factor(self, partition: Partition) -> int:
        """Return the number of replicas, without those that a running reassignment adds."""
        standing = self.standing(partition)
        return len(standing.replicas) - len(standing.adding)

    # Topics are created, get partitions, are deleted

    def place(self, topic: Topic, assignment: Sequence[Sequence[int]] | None, replication_factor: int) -> None:
        """A new topic: its replicas as they were asked for; by default they are spread over the brokers that are alive."""
        usual = self.default_replication_factor(topic.name)
        count = usual if replication_factor == -1 else replication_factor
        if assignment is None and (count != usual or not self._all_are_alive):
            assignment = spread(topic.name, range(len(topic.partitions)), count, self._racks, self.alive)
        if assignment is not None:
            self._assignments.put(topic.topic_id, assignment)
        self._settle(topic.partitions)

    def grow(self, topic: Topic, first: int, assignment: Sequence[Sequence[int]] | None) -> None:
        """A topic has more partitions from index `first` on."""
        self._settle(topic.partitions)  # as many replicas as the first
        if assignment is None and not self._all_are_alive:
            count = len(self.standing(topic.partitions[0]).replicas)
            assignment = spread(topic.name, range(first, len(topic.partitions)), count, self._racks, self.alive)
        if assignment is None:
            return
        self._standings[topic.topic_id][first:] = [first_standing(list(replicas), self.alive) for replicas in assignment]
        self._write_down(topic)

    def forget(self, topics: Sequence[Topic]) -> None:
        """They are deleted."""
        for topic in topics:
            self._standings.pop(topic.topic_id, None)
            if self.reassignments is not None:
                self.reassignments.forget(topic.topic_id)
            if self.lost_ends is not None:
                self.lost_ends.forget(topic.topic_id)
        self._assignments.remove([topic.topic_id for topic in topics])

    @property
    def _all_are_alive(self) -> bool:
        return len(self.alive) == len(self.nodes)

    def _settle(self, partitions: Iterable[Partition]) -> None:
        """Place them by the brokers that are alive now."""
        for partition in partitions:
            self.standing(partition)

    def _first_standings(self, partition: Partition) -> list[Standing]:
        topic = self._cluster.topics[partition.topic]
        assignment = self._assignments.get(topic.topic_id)
        if assignment is None or not all(set(replicas) <= set(self.nodes) for replicas in assignment):
            count = len(topic.partitions)
            assignment = spread(topic.name, range(count), self.default_replication_factor(topic.name), self._racks)
        return [first_standing(replicas, self.alive) for replicas in assignment]

    def _grown(self, partition: Partition, found: list[Standing]) -> list[Standing]:
        topic = self._cluster.topics[partition.topic]
        new = range(len(found), len(topic.partitions))
        replication_factor = len(found[0].replicas) if found else self.default_replication_factor(topic.name)
        return [first_standing(replicas, self.alive) for replicas in spread(topic.name, new, replication_factor, self._racks)]

    def _write_down(self, topic: Topic) -> None:
        self._assignments.put(topic.topic_id, [self.standing(partition).replicas for partition in topic.partitions])

    # Brokers stop and start

    def stop(self, node_id: int) -> None:
        """A broker is gone; harmless when it is already. KafkaStorageError: it is not."""
        if node_id in self.alive:
            self._settle(self._all())
            self._go_on_with(self.alive - {node_id}, lambda before, given: left_by(before, node_id, given))

    def start(self, node_id: int) -> None:
        """A broker is back, and has caught up at once; harmless when it is there. KafkaStorageError: it is not."""
        if node_id not in self.alive:
            self._go_on_with(self.alive | {node_id}, lambda before, given: joined_by(before, node_id, given))

    def _go_on_with(self, alive: set[int], change: Change) -> None:
        before, self.alive = self.alive, alive
        try:
            self._change(self._all(), change)
        except KafkaError:
            self.alive = before
            raise

    def _given(self, topic: Topic) -> Given:
        config = self._cluster.config
        unclean, in_sync_min = topic.config.get(_UNCLEAN), topic.config.get(IN_SYNC_MIN)
        return Given(
            self.alive,
            config.min_insync_replicas if in_sync_min is None else int(in_sync_min),
            config.unclean_leader_election_enable if unclean is None else unclean == "true",
            self._cluster.feature_level(ELIGIBLE_LEADERS_FEATURE) > 0,
        )

    # Elections, moves

    def elect_preferred(self, partition: Partition) -> None:
        """Let the first replica lead; ElectionNotNeeded, PreferredLeaderNotAvailable."""
        if not partition.is_online:
            raise PreferredLeaderNotAvailable
        self._change([partition], led_by_preferred)

    def elect_unclean(self, partition: Partition) -> None:
        """Let anybody lead what nobody leads; ElectionNotNeeded, EligibleLeadersNotAvailable."""
        if not partition.is_online:
            raise EligibleLeadersNotAvailable
        self._change([partition], led_by_anybody)

    def move(self, partition: Partition, node_id: int) -> None:
        """Another leader, whoever is preferred; one that has no replica gets that of the leader before.

        InvalidReplicaAssignment: that broker is not alive.
        """
        if node_id not in self.alive:
            known = ", ".join(map(str, sorted(self.alive)))
            raise InvalidReplicaAssignment(f"broker {node_id} cannot lead {_name(partition)}: it is not one of those that run, {known}")
        self._change([partition], lambda before, given: led_by(before, node_id, given))

    def take_away(self, partition: Partition) -> None:
        """Nobody leads it until `give_back`; harmless when it was taken already."""
        self._change([partition], lambda before, _: taken(before))

    def give_back(self, partition: Partition) -> None:
        """Let it have a leader again: the preferred one if it can; harmless when nothing was taken."""
        if self.standing(partition).is_taken:
            self._change([partition], lambda before, given: elected(before._replace(is_taken=False), given))

    def bump_epoch(self, partition: Partition) -> int:
        """The same leader was elected anew; the new leader epoch."""
        self._cluster.logs.raise_leader_epochs([partition])
        partition.wake()
        return partition.leader_epoch

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Other replicas; the leader stays if it may. What is asked for was checked (cluster/topic_rules.py).

        It is done when this returns, unless reassignments with new replicas are to run for a while (reassignments.py).
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
        """Return the reassignment that is running, if any."""
        return None if self.reassignments is None else self.reassignments.of(partition)

    def show_reassignment(self, partition: Partition, replicas: Sequence[int], adding: Sequence[int]) -> None:
        """A reassignment begins, or is cancelled."""
        self._change([partition], lambda before, _: reassigning(before, replicas, adding))

    def finish_reassignment(self, partition: Partition, replicas: Sequence[int]) -> None:
        """The replicas are these from now on, and all of them have everything."""
        is_shrunk = not set(self.standing(partition).replicas) <= set(replicas)
        epoch = partition.leader_epoch
        self._change([partition], lambda before, given: reassigned(before, replicas, given))
        if is_shrunk and partition.leader_epoch == epoch:
            self.bump_epoch(partition)  # so that those who are no replicas any more are not believed
        self._write_down(self._cluster.topics[partition.topic])

    # Inside

    def _all(self) -> list[Partition]:
        return [partition for topic in self._cluster.topics.values() for partition in topic.partitions]

    def _change(self, partitions: Iterable[Partition], change: Change) -> None:
        """Change what is to be changed, and raise the epochs of those that have another leader; KafkaStorageError: nothing was changed."""
        changed: list[tuple[Partition, Standing, Standing]] = []
        led_anew: list[Partition] = []
        for partition in partitions:
            before = self.standing(partition)
            after = change(before, self._given(self._cluster.topics[partition.topic]))
            if after != before:
                changed.append((partition, before, after))
                if after.leader_id != before.leader_id:
                    led_anew.append(partition)
        self._cluster.logs.raise_leader_epochs(led_anew)
        for partition, before, after in changed:
            self._standings[partition.topic_id][partition.index] = after
            if self.lost_ends is not None:
                self.lost_ends.follow(partition, before, after)
        for partition in led_anew:
            partition.wake()


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.index}"


class LostEnds:
    """What replicas that are not in sync lack, so that an unclean election loses records as in Apache Kafka (`minibroker.like.kafka`).

    A partition has one log. For each replica that left the in-sync set, this remembers where the log ended then. A replica that becomes
    leader in an unclean election cuts the log off there. A replica that is in sync again has all records. Internal topics lose nothing,
    because coordinators have read them.
    """

    def __init__(self, truncate: Callable[[Partition, int], None]) -> None:
        self._truncate = truncate
        self._ends: dict[tuple[UUID, int], dict[int, int]] = {}  #: log end offset by node, of those that are not in sync

    def follow(self, partition: Partition, before: Standing, after: Standing) -> None:
        """The in-sync set, or the leader, changes."""
        if partition.topic in INTERNAL_TOPICS:
            return
        ends = self._ends.setdefault((partition.topic_id, partition.index), {})
        is_unclean = before.leader_id == NO_LEADER != after.leader_id and not before.is_taken and not may_lead(before, after.leader_id)
        if is_unclean and after.leader_id in ends:
            self._truncate(partition, ends[after.leader_id])
        log = partition.online_log
        for node_id in set(before.in_sync) - set(after.in_sync):
            ends[node_id] = 0 if log is None else log.log_end_offset
        for node_id in after.in_sync:
            ends.pop(node_id, None)

    def forget(self, topic_id: UUID) -> None:
        """The topic is deleted."""
        for key in [each for each in self._ends if each[0] == topic_id]:
            del self._ends[key]
