"""All operations of the lab, with JSON in and out, on the thread of the broker's loop.

    await lab.execute("high_watermark.hold", {"topic": "orders", "partition": 0})        {"id": 1}

Faults, holds and moved leaders end with `reset`, `restore` and the broker. `faults.heal` ends
faults of the storage and opens the logs again: stopped brokers run, and leaders are where they were
placed. Faults of requests and holds stay.

`minibroker lab` imports this module without a broker, whose modules are imported for annotations
only.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

from minibroker.errors import ConfigurationError, UnknownTopicOrPartition
from minibroker.testing.clients import to_json as to_json_of_clients
from minibroker.testing.lab.declaration import OperationGroup, Option, operation, reading
from minibroker.testing.options import BrokerError
from minibroker.testing.request_log import COLUMNS, RequestLog, to_json

if TYPE_CHECKING:
    from uuid import UUID

    from minibroker.clock import Clock
    from minibroker.cluster.cluster import Cluster
    from minibroker.cluster.partition import Partition
    from minibroker.security.certificates import Authority
    from minibroker.telemetry.clients import ClientInstance
    from minibroker.testing.data import Snapshot
    from minibroker.testing.faults.faults import RequestFaults
    from minibroker.testing.faults.logins import LoginFaults
    from minibroker.testing.faults.registry_faults import RegistryFaults
    from minibroker.testing.hosted_registry import HostedRegistry
    from minibroker.testing.lab.storage_faults import StorageFaults
    from minibroker.testing.simulation.broker import SimulatedBroker
    from minibroker.testing.simulation.leadership import SimulatedLeadership


class LabHost(Protocol):
    """A HostedBroker, as the lab uses it."""

    bootstrap_servers: str

    @property
    def broker(self) -> SimulatedBroker:
        """The running broker. Raises BrokerError if there is none."""

    @property
    def clock(self) -> Clock:
        """The broker's clock. Raises BrokerError before the first start."""

    @property
    def registry(self) -> HostedRegistry:
        """The broker's schema registry. Raises BrokerError if a package is missing."""

    @property
    def now_ms(self) -> int:
        """The broker's time, epoch milliseconds."""

    @property
    def authority(self) -> Authority | None:
        """The authority that signed the broker's certificate, if the test kit made it."""

    @property
    def request_log(self) -> RequestLog:
        """Requests of clients since the start or the last reset."""

    @property
    def request_count(self) -> int:
        """The number of requests since the start."""

    async def metrics(self, name: str) -> list[dict[str, Any]]:
        """Return the series of a metric: `labels` and `value`; BrokerError for an unknown name."""

    @property
    def pushing_clients(self) -> list[ClientInstance]:
        """The clients that push their metrics."""

    async def reset(self) -> None:
        """Remove all data."""

    def snapshot(self) -> Snapshot:
        """Copy the data."""

    def restore(self, snapshot: Snapshot) -> None:
        """Put copied data back."""

    def reopen_logs(self) -> None:
        """Open all logs again, as after a crash."""

    async def advance(self, delta: timedelta) -> None:
        """Advance the clock."""


class BrokerOperations(OperationGroup):
    """Time, data and requests of one broker."""

    def __init__(self, host: LabHost) -> None:
        self._host = host
        self._snapshots: dict[str, Snapshot] = {}

    @reading
    def info(self) -> dict[str, Any]:
        """Show the broker's address, time and state.

        Returns `bootstrap_servers`, `cluster_id`, `now_ms`, and `log_dirs` by path (true: online).
        """
        cluster = self._host.broker.cluster
        return {
            "bootstrap_servers": self._host.bootstrap_servers,
            "cluster_id": cluster.cluster_id,
            "now_ms": self._host.now_ms,
            "log_dirs": {each.path: each.offline_cause is None for each in cluster.log_directories},
        }

    @operation
    async def advance(self, ms: float) -> None:
        """Advance the broker's clock without waiting.

        Retention, timeouts of members and transactions, and LogAppendTime follow.
        """
        await self._host.advance(timedelta(milliseconds=ms))

    @operation
    async def reset(self) -> None:
        """Delete everything: topics, groups, transactions, schemas, faults.

        Also removes altered configs, holds and the request log. Clients stay connected.
        """
        await self._host.reset()

    @operation
    def snapshot(self, name: str | None = None) -> dict[str, str]:
        """Save a snapshot of the broker's data under a name.

        The snapshot lasts until the broker stops. It replaces an earlier snapshot of that name.

        Returns `snapshot`, the name: a number if none was given.
        """
        if name is None:
            name = str(next(number for number in range(1, len(self._snapshots) + 2) if str(number) not in self._snapshots))
        self._snapshots[name] = self._host.snapshot()
        return {"snapshot": name}

    @operation
    def restore(self, name: str) -> None:
        """Restore the data of a snapshot.

        Faults and holds end.
        """
        if name not in self._snapshots:
            known = ", ".join(self._snapshots) or "none"
            raise BrokerError(f"restore: there is no snapshot {name!r} (snapshots: {known})")
        self._host.restore(self._snapshots[name])

    @reading
    def snapshots(self) -> list[str]:
        """List the names of the snapshots."""
        return [*self._snapshots]

    @reading
    def requests(self, since: int = 0) -> dict[str, Any]:
        """List the last 10,000 requests of clients, from number `since` on.

        Returns `rows`, the names of their `columns`, `first` (the number of the first row) and
        `next` (the `since` of the next call).
        """
        log, next_number = self._host.request_log, self._host.request_count
        first = max(next_number - len(log), since, 0)
        return {"first": first, "next": next_number, "columns": [*COLUMNS], "rows": to_json(log[len(log) - (next_number - first) :])}

    @operation
    async def metrics(self, name: str) -> list[dict[str, Any]]:
        """Return the current series of a metric.

        Every name in docs/metrics.md works, whichever sets of names /metrics serves. Each series has `labels` and `value`.
        """
        return await self._host.metrics(name)

    @reading
    def clients(self) -> list[dict[str, Any]]:
        """List the clients that push their own metrics, with the latest value of each metric.

        Includes clients that disconnected in the last 5 minutes. The list is empty while telemetry is off.
        Each client has `client_id`, `instance_id`, `software_name`, `software_version`, `push_count`, and more; each of its `metrics` has
        `name`, `kind`, `unit`, `labels`, `value` (null: not a number), `observation_count` and `time_ms`.
        """
        return to_json_of_clients(self._host.pushing_clients)


class _Hold(NamedTuple):
    """A held partition. A topic that was deleted and created again has another id, and is not held."""

    topic: str
    partition: int
    topic_id: UUID


class HighWatermarks(OperationGroup, prefix="high_watermark"):
    """High watermarks that a test holds back.

    A partition may be held twice; it is free when both holds are released.
    """

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        internal_topics: Container[str],
        hold: Callable[[Partition], None],
        release: Callable[[Partition], None],
    ) -> None:
        """`hold` and `release` are those of minibroker/testing/simulation/held_watermarks.py."""
        self._cluster = cluster
        self._internal_topics = internal_topics
        self._hold_partition = hold
        self._release_partition = release
        self._holds: dict[int, _Hold] = {}
        self._numbers = count(1)

    @operation
    def hold(self, topic: str, partition: int) -> dict[str, int]:
        """Hold back a partition's high watermark.

        Consumers do not see later records, and Produce requests with acks=all wait.

        Returns `id`, the number of the hold.
        """
        if topic in self._internal_topics:
            raise BrokerError(f"high_watermark.hold: {topic} is an internal topic: coordinators do not wait for its high watermark")
        try:
            found = self._cluster().partition(topic, partition)
        except UnknownTopicOrPartition:
            raise UnknownTopicOrPartition(f"topic {topic} does not exist, or has no partition {partition}") from None
        self._hold_partition(found)
        number = next(self._numbers)
        self._holds[number] = _Hold(topic, partition, found.topic_id)
        return {"id": number}

    @operation
    def release(self, topic: str | None = None, partition: int | None = None, id: int | None = None) -> int:  # noqa: A002  JSON's name
        """Release held high watermarks.

        Releases one hold, or all holds of a partition, a topic or the broker.

        Returns the number of released holds.
        """
        numbers = [
            number
            for number, hold in self._holds.items()
            if id in {None, number} and topic in {None, hold.topic} and partition in {None, hold.partition}
        ]
        return sum(self._release(number) for number in numbers)

    @reading
    def list(self) -> list[dict[str, Any]]:
        """List the held partitions, with their high watermarks and log end offsets."""
        rows = []
        for number, hold in self._holds.items():
            partition = self._find(hold)
            if partition is not None:
                log = partition.online_log
                offsets = {} if log is None else {"high_watermark": log.high_watermark, "log_end_offset": log.log_end_offset}
                rows.append({"id": number, "topic": hold.topic, "partition": hold.partition} | offsets)
        return rows

    def forget(self) -> None:
        """Remove all holds: the broker has other data."""
        self._holds.clear()

    def renew(self) -> None:
        """Hold the same partitions at their present high watermarks: the logs were opened again."""
        for hold in set(self._holds.values()):
            partition = self._find(hold)
            if partition is not None and partition.is_online:
                self._hold_partition(partition)

    def _find(self, hold: _Hold) -> Partition | None:
        topic = self._cluster().topics.get(hold.topic)
        return topic.partitions[hold.partition] if topic is not None and topic.topic_id == hold.topic_id else None

    def _release(self, number: int) -> bool:
        hold = self._holds.pop(number)
        partition = self._find(hold)
        if partition is not None and hold not in self._holds.values():
            self._release_partition(partition)
        return partition is not None


class FaultOperations(OperationGroup, prefix="faults"):
    """Faults of requests, whose ids are numbers, and of the storage, of logins and of the schema registry, whose ids are texts."""

    def __init__(
        self,
        requests: RequestFaults,
        storage: StorageFaults,
        logins: LoginFaults,
        registry: RegistryFaults,
        reopen_logs: Callable[[], None],
    ) -> None:
        self._requests = requests
        self._storage = storage
        self._logins = logins
        self._registry = registry
        self._others = (storage, logins, registry)
        self._reopen_logs = reopen_logs

    @operation
    def inject(self, rule: dict[str, Any]) -> dict[str, int]:
        """Make requests fail, wait or lose their connection, as a rule says.

        Returns `id`.
        """
        return {"id": self._requests.inject(rule)}

    @operation
    def storage(
        self,
        on: str,
        error: str,
        topic: str | None = None,
        partition: int | None = None,
        often: dict[str, Any] | None = None,
    ) -> dict[str, str]:
        """Make calls of the file system fail: on write, read, sync or open, with ENOSPC, EIO, ...

        The log directory goes offline.

        Returns `id`.
        """
        return {"id": self._storage.add(on, error, topic, partition, often or {})}

    @operation
    def login(self, rule: dict[str, Any]) -> dict[str, str]:
        """Make TLS handshakes and logins fail or wait, or sessions end, as a rule says.

        Returns `id`.
        """
        return {"id": self._logins.add(rule)}

    @operation
    def registry(self, rule: dict[str, Any]) -> dict[str, str]:
        """Make requests to the schema registry fail or wait, lose their connection, or get a wrong id, as a rule says.

        Returns `id`.
        """
        return {"id": self._registry.add(rule)}

    @reading
    def list(self) -> list[dict[str, Any]]:
        """List all faults with their calls and hits, also those of the storage, of logins and of the schema registry."""
        return [fault for faults in (self._requests, *self._others) for fault in faults.list()]

    @reading
    def state(self, id: int | str) -> dict[str, int]:  # noqa: A002  JSON's name
        """Show how many requests, file system calls or logins were in the scope of a fault, and how many it hit.

        Returns `calls` and `hits`.
        """
        if not isinstance(id, str):
            return self._requests.state(id)
        return next((each for each in (self._logins, self._registry) if each.owns(id)), self._storage).state(id)

    @operation
    def remove(self, id: int | str) -> None:  # noqa: A002  as above
        """Remove one fault.

        Does nothing if the fault is gone.
        """
        if isinstance(id, str):
            for faults in self._others:
                faults.remove(id)
        else:
            self._requests.remove(id)

    @operation
    def clear(self) -> None:
        """Remove all faults.

        Log directories that went offline stay offline until 'faults heal'.
        """
        for faults in self._others:
            faults.clear()
        self._requests.clear()

    @operation
    def heal(self) -> None:
        """Bring failed storage back, and let clients log in again.

        Removes the faults of the storage and of logins, and reopens the logs as after a crash.
        """
        self._storage.clear()
        self._logins.clear()
        self._reopen_logs()


class Leaders(OperationGroup, prefix="leaders"):
    """Leaders of partitions.

    With one broker a leader can be taken away and epochs raised, but nothing moved.
    """

    def __init__(self, broker: Callable[[], SimulatedBroker]) -> None:
        self._broker = broker

    @operation
    def take_away(self, topic: str, partition: int) -> None:
        """Leave a partition without a leader.

        It gets a leader again when you give it back or move it, or reset the broker.
        """
        self._leadership.take_away(self._find(topic, partition))

    @operation
    def give_back(self, topic: str, partition: int) -> None:
        """Let a partition have a leader again.

        The leader epoch rises by one. Does nothing if the leader was not taken away.
        """
        self._leadership.give_back(self._find(topic, partition))

    @operation
    def move(self, topic: str, partition: int, *, to: Annotated[int, Option("The broker; see 'serve --brokers'.", "ID")]) -> None:
        """Let another broker lead a partition.

        The leader epoch rises by one. A broker without a replica gets that of the previous leader.
        """
        self._leadership.move(self._find(topic, partition), to)

    @operation
    def bump_epoch(self, topic: str, partition: int) -> int:
        """Raise a partition's leader epoch.

        The leader stays. Clients with the earlier epoch are fenced, and look up the leader again.

        Returns the new epoch.
        """
        return self._leadership.bump_epoch(self._find(topic, partition))

    @operation
    def elect(
        self,
        topic: str,
        partition: int,
        *,
        unclean: Annotated[bool, Option("Elect any live replica of a partition that has no leader.")] = False,
    ) -> None:
        """Elect the preferred leader of a partition.

        Fails where Kafka's ElectLeaders fails.
        """
        found = self._find(topic, partition)
        if unclean:
            self._leadership.elect_unclean(found)
        else:
            self._leadership.elect_preferred(found)

    @reading
    def describe(self, topic: str, partition: int) -> dict[str, Any]:
        """Show who leads a partition.

        Returns `leader` (null: none), `leader_epoch`, `replicas`, `in_sync` and `offline`.
        """
        found = self._find(topic, partition)
        nodes = self._broker().nodes[0].services.nodes.of(found)
        return {
            "leader": nodes.leader_id if nodes.leader_id >= 0 else None,  # else NO_LEADER
            "leader_epoch": found.leader_epoch,
            "replicas": [*nodes.replicas],
            "in_sync": [*nodes.in_sync],
            "offline": [*nodes.offline],
        }

    @property
    def _leadership(self) -> SimulatedLeadership:
        return self._broker().leadership

    def _find(self, topic: str, partition: int) -> Partition:
        return self._broker().cluster.partition(topic, partition)


class Nodes(OperationGroup, prefix="nodes"):
    """The brokers that clients see."""

    def __init__(self, broker: Callable[[], SimulatedBroker]) -> None:
        self._broker = broker

    @operation
    def stop(self, node: int) -> None:
        """Stop a broker.

        Closes its listeners and connections. Its partitions get other leaders, or have none. Does
        nothing if the broker is stopped.
        """
        self._check(node)
        self._broker().stop_node(node)

    @operation
    async def start(self, node: int) -> None:
        """Start a broker again.

        It listens on its ports again, and may become the leader of partitions without one. Does
        nothing if the broker runs.
        """
        self._check(node)
        try:
            await self._broker().start_node(node)
        except ConfigurationError as error:
            raise BrokerError(f"node {node} does not start: {error}") from error

    @property
    @reading
    def alive(self) -> list[int]:
        """List the ids of the brokers that clients can reach."""
        return [each.node.node_id for each in self._broker().nodes if each.is_open]

    @property
    @reading
    def addresses(self) -> dict[int, str]:
        """List HOST:PORT of each broker by its id, also of those that are stopped."""
        addresses = {each.node.node_id: str(each.node.listeners[0]) for each in self._broker().nodes}
        return {node: address.partition("://")[2] for node, address in addresses.items()}

    def _check(self, node: int) -> None:
        known = [each.node.node_id for each in self._broker().nodes]
        if node not in known:
            raise BrokerError(f"there is no node {node} (nodes: {', '.join(map(str, known))})")
