"""The way to a cluster: finds brokers from a bootstrap list, keeps a connection to each, tries again what may be tried again.

What may be tried again: a broken connection to a broker that was reached before, and retriable error codes. A first
connection that nobody accepts fails at once: the address is wrong more often than the broker is late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import Any, Self, TypeVar

from minibroker.client.address import Address, parse_bootstrap
from minibroker.client.connection import Connect, Connection, connect
from minibroker.client.deadline import Deadline
from minibroker.client.errors import BrokerUnreachable, ClientError, TimedOut, check
from minibroker.errors import BrokerNotAvailable, KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from minibroker.schemas import k03_metadata

T = TypeVar("T")

DEFAULT_TIMEOUT_MS = 30_000
AUTO_CREATION_MS = 5_000  #: a broker that creates topics on first use has done so by then


class Client:
    """Connections to the brokers of one cluster; a context manager that closes them."""

    def __init__(self, bootstrap: str, *, timeout_ms: int | None = DEFAULT_TIMEOUT_MS, connect: Connect = connect) -> None:
        """`bootstrap` as in Kafka; `timeout_ms` is what each operation may take, with its retries."""
        self.bootstrap = parse_bootstrap(bootstrap)
        self.timeout_ms = timeout_ms
        self.brokers: dict[int, Address] = {}  #: by node id, as the last Metadata said
        self.controller_id = -1
        self.cluster_id: str | None = None
        self._connect = connect
        self._connections: dict[Address, Connection] = {}
        self._reached = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def deadline(self) -> Deadline:
        """A deadline for an operation that starts now."""
        return Deadline(self.timeout_ms)

    def to_address(self, address: Address, deadline: Deadline) -> Connection:
        """The connection to an address, made when there is none."""
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = self._connections[address] = self._connect(address, deadline)
            self._reached = True
        return connection

    def to_node(self, node_id: int, deadline: Deadline) -> Connection:
        """The connection to a broker by its node id."""
        if node_id not in self.brokers:
            self.metadata([], deadline)
        if node_id not in self.brokers:
            raise BrokerNotAvailable(f"broker {node_id} is not in the cluster's metadata: it may be down")
        try:
            return self.to_address(self.brokers[node_id], deadline)
        except BrokerUnreachable as error:
            raise BrokerUnreachable(f"{error} (broker {node_id} advertises that address: check advertised.listeners)") from error

    def to_any(self, deadline: Deadline) -> Connection:
        """The connection to whichever broker takes one: those in use first, then the bootstrap list, then all known."""
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        failures: list[ClientError] = []
        for address in dict.fromkeys([*self.bootstrap, *self.brokers.values()]):
            try:
                return self.to_address(address, deadline)
            except (BrokerUnreachable, TimedOut) as error:
                failures.append(error)
        raise failures[0]

    def to_controller(self, deadline: Deadline) -> Connection:
        """The connection for changes: the controller where clients may reach it, else any broker, which passes them on."""
        if not self.brokers:
            self.metadata([], deadline)
        if self.controller_id in self.brokers:
            return self.to_node(self.controller_id, deadline)
        return self.to_any(deadline)

    def ask(self, schema: ModuleType, request: Any, deadline: Deadline | None = None) -> Any:
        """Ask any broker; broken connections are tried again."""
        deadline = deadline or self.deadline()
        return self.retrying(lambda: self.to_any(deadline).ask(schema, request, deadline), deadline)

    def retrying(self, attempt: Callable[[], T], deadline: Deadline) -> T:
        """Attempt until it works, until it fails for good, or until the deadline (TimedOut, with the last reason)."""
        while True:
            try:
                return attempt()
            except BrokerUnreachable as error:
                if not self._reached:
                    raise
                deadline.pause(error)
            except KafkaError as error:
                if not error.retriable:
                    raise
                deadline.pause(error)

    def metadata(self, topics: Sequence[str] | None, deadline: Deadline | None = None, *, create: bool = False) -> k03_metadata.Response:
        """Ask for brokers and topics (None: all topics) and remember the brokers; errors of topics are left inside."""
        request = k03_metadata.Request(
            topics=None if topics is None else [k03_metadata.Topic(name=name) for name in topics],
            allow_auto_topic_creation=create,
        )
        response: k03_metadata.Response = self.ask(k03_metadata, request, deadline)
        check(response.error_code, "metadata")
        self.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        return response

    def topic(self, name: str, deadline: Deadline | None = None, *, create: bool = False) -> k03_metadata.TopicResult:
        """One topic whose partitions all have leaders; waits for leaders, and with `create` for the topic itself."""
        deadline = deadline or self.deadline()
        creation = Deadline(deadline.remaining_ms(AUTO_CREATION_MS))
        while True:
            topic = self.metadata([name], deadline, create=create).topics[0]
            try:
                check(topic.error_code, f"topic {name}")
                for partition in topic.partitions:
                    if partition.leader_id < 0:
                        raise LeaderNotAvailable(f"topic {name} partition {partition.partition_index} has no leader")
            except UnknownTopicOrPartition as error:
                if not create or creation.over:
                    words = f"topic {name} does not exist: create it first, as 'minibroker topics create {name}' does"
                    raise UnknownTopicOrPartition(words) from None
                creation.pause(error)
            except KafkaError as error:
                if not error.retriable:
                    raise
                deadline.pause(error)
            else:
                return topic
