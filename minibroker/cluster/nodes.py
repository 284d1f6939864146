"""The brokers, leaders and replicas that clients see, as the broker that serves a request sees them.

Handlers use `ctx.broker.nodes`. `Nodes` is one broker that leads all its partitions. minibroker.testing.simulation derives a class from it
for several brokers, whose leaders move as `Cluster.leadership` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from minibroker.cluster.metadata.metadata_image import MetadataImage
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import Topic
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import ANY_HOSTS, Listener
from minibroker.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
)
from minibroker.schemas.internal.topic_records import PartitionRecord


class Node:
    """One broker. Ports that are 0 in the configuration are set when the server has bound them."""

    def __init__(self, config: BrokerConfig, *, number: int = 0, port_step: int = 1, rack: str | None = None) -> None:
        """Create the configured node, or with `number` a simulated one: ids count up by 1, ports by `port_step`."""
        self.node_id = config.node_id + number
        self.rack = config.broker_rack if rack is None else rack

        def moved(listeners: Iterable[Listener]) -> dict[str, Listener]:
            return {each.name: each._replace(port=each.port and each.port + number * port_step) for each in listeners}

        self._advertised = moved(config.advertised_listeners)
        self._listeners = moved(config.listeners)

    def set_bound_port(self, listener_name: str, port: int) -> None:
        """Set the port of a listener that was configured with 0."""
        self._listeners[listener_name] = self._listeners[listener_name]._replace(port=port)

    @property
    def configured(self) -> list[Listener]:
        """The addresses to listen on; port 0 is any free one, until it was bound once."""
        return list(self._listeners.values())

    @property
    def configured_advertised(self) -> list[Listener]:
        """The addresses that are configured for clients; if empty, those of `configured`."""
        return list(self._advertised.values())

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Return (host, port) for a client of this listener; `localhost` if no host is configured."""
        bound = self._listeners.get(listener_name) or next(iter(self._listeners.values()))
        advertised = self._advertised.get(bound.name, bound)
        host = "localhost" if advertised.host in ANY_HOSTS else advertised.host
        return host, advertised.port or bound.port

    @property
    def listeners(self) -> list[Listener]:
        """All listeners with their advertised addresses, for RegisterBrokerRecord."""
        advertised = [(listener, self.advertised(listener.name)) for listener in self._listeners.values()]
        return [Listener(listener.name, host, port, listener.protocol) for listener, (host, port) in advertised]


NO_LEADER: Final = -1


class PartitionNodes(NamedTuple):
    """The node ids of a partition, in the order of the answers. Handlers must not change the lists."""

    leader_id: int  #: or NO_LEADER
    replicas: list[int]  #: the first is the preferred leader
    in_sync: list[int]
    offline: list[int]  #: replicas on brokers or disks that failed


class EligibleLeaders(NamedTuple):
    """Replicas that may become leader although they are not in sync (KIP-966)."""

    eligible: list[int]  #: no record can have been committed without them
    last_known: list[int]  #: the last leader, while there is none


_NO_ELIGIBLE_LEADERS: Final = EligibleLeaders([], [])


class Nodes:
    """One broker: it leads every partition that has a log."""

    def __init__(self, own: Node) -> None:
        self.own = own  #: the broker that serves the request
        self._online = PartitionNodes(own.node_id, [own.node_id], [own.node_id], [])
        self._offline = PartitionNodes(NO_LEADER, [own.node_id], [], [own.node_id])

    @property
    def alive(self) -> Sequence[Node]:
        """Brokers that clients can reach, by id."""
        return (self.own,)

    @property
    def registered(self) -> Sequence[Node]:
        """All brokers by id, also stopped ones."""
        return (self.own,)

    @property
    def controller_id(self) -> int:
        """The broker to which clients send requests for the controller."""
        return self.own.node_id

    def find(self, node_id: int) -> Node | None:
        """Return a broker, alive or not; None if no broker has this id."""
        return self.own if node_id == self.own.node_id else None

    def of(self, partition: Partition) -> PartitionNodes:
        """Return leader, replicas and in-sync replicas; a partition without a log has no leader."""
        return self._online if partition.is_online else self._offline

    def eligible(self, partition: Partition) -> EligibleLeaders:  # noqa: ARG002  several brokers need it
        """Return the eligible leaders of a partition: one broker has none."""
        return _NO_ELIGIBLE_LEADERS

    def leader_of(self, partition: Partition) -> int:
        """Return the leader's id, or NO_LEADER."""
        return self.of(partition).leader_id

    def leads(self, partition: Partition) -> bool:
        """Whether the broker that serves the request is the leader."""
        return self.leader_of(partition) == self.own.node_id


class Reassignment(NamedTuple):
    """A reassignment that is running. Handlers must not change the lists."""

    original: list[int]
    target: list[int]
    replicas: list[int]  #: as clients see them until it is finished
    adding: list[int]
    removing: list[int]


class LeadershipChanges:
    """How often leaders and in-sync replicas have changed since the start, counted by partition."""

    __slots__ = ("in_sync_expansions", "in_sync_shrinks", "unclean_elections")

    def __init__(self) -> None:
        self.in_sync_shrinks = 0
        self.in_sync_expansions = 0
        self.unclean_elections = 0  #: of a replica that was not in sync


class Leadership(Protocol):
    """The controller: which brokers have replicas of a partition, and which one leads it.

    `SingleBroker` below has the answers of one broker. minibroker.testing.simulation has those of several.
    """

    @property
    def changes(self) -> LeadershipChanges:
        """What has changed since the start."""

    @property
    def node_ids(self) -> Collection[int]:
        """All brokers."""

    @property
    def alive_ids(self) -> Collection[int]:
        """Brokers that run."""

    def close(self) -> None:
        """Stop timers: the cluster closes."""

    # Topics

    def default_replication_factor(self, name: str) -> int:
        """Return the replication factor of a topic whose creator names none."""

    def replication_factor(self, topic: Topic) -> int:
        """Return the number of replicas of a topic's first partition."""

    def place(self, topic: Topic, assignment: Sequence[Sequence[int]] | None, replication_factor: int) -> None:
        """Place the replicas of a new topic; without an assignment they are spread over the brokers."""

    def grow(self, topic: Topic, first: int, assignment: Sequence[Sequence[int]] | None) -> None:
        """Place the replicas of new partitions, which start at index `first`."""

    def forget(self, topics: Sequence[Topic]) -> None:
        """Forget deleted topics."""

    # Partitions

    def elect_preferred(self, partition: Partition) -> None:
        """Make the first replica the leader; raises ElectionNotNeeded, PreferredLeaderNotAvailable."""

    def elect_unclean(self, partition: Partition) -> None:
        """Make any replica the leader; raises ElectionNotNeeded, EligibleLeadersNotAvailable."""

    def check_replica_count(self, partition: Partition, count: int) -> None:
        """Check that a reassignment to `count` replicas keeps the replication factor; raises InvalidReplicationFactor."""

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Change the replicas, which the caller has checked."""

    def cancel_reassignment(self, partition: Partition) -> None:
        """Restore the replicas from before a reassignment; raises NoReassignmentInProgress."""

    def reassignment(self, partition: Partition) -> Reassignment | None:
        """Return the reassignment that is running, if any."""


def recorded_reassignment(known: PartitionRecord) -> Reassignment | None:
    """Return the reassignment that an Apache Kafka left unfinished in the metadata log, if any."""
    adding, removing = known.adding_replicas or [], known.removing_replicas or []
    if not (adding or removing):
        return None
    original, target = ([each for each in known.replicas if each not in others] for others in (adding, removing))
    return Reassignment(original, target, known.replicas, adding, removing)


class SingleBroker:
    """`Leadership` of one broker, which leads all partitions and cannot move them."""

    def __init__(self, node_id: int, image: MetadataImage) -> None:
        self.changes = LeadershipChanges()
        self.node_ids = self.alive_ids = (node_id,)
        self._image = image

    def close(self) -> None:
        """Do nothing: there are no timers."""

    def default_replication_factor(self, name: str) -> int:  # noqa: ARG002  several brokers need it
        """Return 1."""
        return 1

    def replication_factor(self, topic: Topic) -> int:  # noqa: ARG002  several brokers need it
        """Return 1, also for a topic that an Apache Kafka replicated."""
        return 1

    def place(self, topic: Topic, assignment: Sequence[Sequence[int]] | None, replication_factor: int) -> None:
        """Do nothing: the metadata log has this broker as the only replica."""

    def grow(self, topic: Topic, first: int, assignment: Sequence[Sequence[int]] | None) -> None:
        """Do nothing, as in `place`."""

    def forget(self, topics: Sequence[Topic]) -> None:
        """Do nothing: no state is kept."""

    def elect_preferred(self, partition: Partition) -> None:
        """Raise PreferredLeaderNotAvailable if the partition is offline or prefers another broker, else ElectionNotNeeded."""
        is_preferred = self._image.partition_record(partition).replicas[:1] == [*self.node_ids]
        raise ElectionNotNeeded if partition.is_online and is_preferred else PreferredLeaderNotAvailable

    def elect_unclean(self, partition: Partition) -> None:
        """Raise EligibleLeadersNotAvailable if the partition is offline, else ElectionNotNeeded."""
        raise ElectionNotNeeded if partition.is_online else EligibleLeadersNotAvailable

    def check_replica_count(self, partition: Partition, count: int) -> None:
        """Do nothing: `reassign` compares the replicas themselves."""

    def reassign(self, partition: Partition, replicas: Sequence[int] | None) -> None:
        """Raise InvalidReplicaAssignment if these are not the replicas; None cancels, which one broker cannot do either."""
        known = self._image.partition_record(partition).replicas
        if replicas != known:
            raise InvalidReplicaAssignment(
                f"{partition.topic}-{partition.index} has its replicas on nodes {known}: one node alone cannot change that"
            )

    def cancel_reassignment(self, partition: Partition) -> None:
        """Raise NoReassignmentInProgress, or InvalidReplicaAssignment for a reassignment that an Apache Kafka left."""
        if self.reassignment(partition) is None:
            raise NoReassignmentInProgress
        self.reassign(partition, None)

    def reassignment(self, partition: Partition) -> Reassignment | None:
        """Return the reassignment that an Apache Kafka left, if any."""
        return recorded_reassignment(self._image.partition_record(partition))
