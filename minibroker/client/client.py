"""Connect to a cluster: find brokers from a bootstrap list, keep a connection to each, retry.

The client retries after a broken connection to a broker that it has reached before, and after retriable error codes. A first
connection that is refused fails at once, because a wrong address is more frequent than a broker that starts late.

Every connection leads to the cluster that answered the first Metadata request. The client rejects an address of another cluster
(WrongCluster) before it sends a request there. Otherwise, a wrong `advertised.listeners` could make a command change another cluster.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import Any, Self, TypeVar

from minibroker.client.connection import Connect, Connection, connect
from minibroker.client.errors import BrokerUnreachable, ClientError, TimedOut, WrongCluster, check
from minibroker.client.transport import Address, Deadline, parse_bootstrap
from minibroker.errors import BrokerNotAvailable, KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from minibroker.schemas import k03_metadata

T = TypeVar("T")

DEFAULT_TIMEOUT_MS = 30_000
AUTO_CREATION_MS = 5_000  #: time within which a broker creates a topic on first use
_CLUSTER_ID_SINCE = 2  #: version of Metadata


class Client:
    """The connections to the brokers of one cluster. A context manager that closes them."""

    def __init__(self, bootstrap: str, *, timeout_ms: int | None = DEFAULT_TIMEOUT_MS, connect: Connect = connect) -> None:
        """Keep the bootstrap list. The first operation connects.

        Args:
            bootstrap: HOST:PORT, or several separated by commas.
            timeout_ms: the limit of each operation with its retries; None: no limit.
            connect: opens connections, for example with TLS or a login.
        """
        self.bootstrap = parse_bootstrap(bootstrap)
        self.timeout_ms = timeout_ms
        self.brokers: dict[int, Address] = {}  #: by node id, from the last Metadata response
        self.controller_id = -1
        self.cluster_id: str | None = None
        self._connect = connect
        self._connections: dict[Address, Connection] = {}
        self._verified: set[Address] = set()  #: addresses at which this cluster answered
        self._metadata_source: Address | None = None  #: the address whose Metadata response named the cluster
        self._has_connected = False

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
        """Return the deadline of an operation that starts now."""
        return Deadline(self.timeout_ms)

    def to_address(self, address: Address, deadline: Deadline) -> Connection:
        """Return the connection to an address.

        Args:
            address: host and port of a broker.
            deadline: the end of the operation.

        Returns:
            The open connection, or a new one to a broker that is verified to be of this cluster.

        Raises:
            BrokerUnreachable: no broker answers there.
            TimedOut: the deadline has passed.
            WrongCluster: another cluster answers there.
        """
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = self._connect(address, deadline)
            if self.cluster_id is not None and address not in self._verified:
                self._verify(connection, self.cluster_id, deadline)
            self._connections[address] = connection
            self._has_connected = True
        return connection

    def verify_brokers(self) -> None:
        """Verify the cluster of every reachable broker, for other clients that will connect to them.

        Raises:
            WrongCluster: a broker advertises an address at which another cluster answers.
        """
        deadline = self.deadline()
        self.metadata([], deadline)
        for address in self.brokers.values():
            with contextlib.suppress(BrokerUnreachable):
                self.to_address(address, deadline)

    def _verify(self, connection: Connection, cluster_id: str, deadline: Deadline) -> None:
        """Ask the broker at a new address for its cluster. A client sends this small request once for each address."""
        other_id = None
        try:
            if connection.version_for(k03_metadata) >= _CLUSTER_ID_SINCE:
                response: k03_metadata.Response = connection.ask(k03_metadata, k03_metadata.Request(topics=[]), deadline)
                other_id = response.cluster_id
        except BaseException:
            connection.close()
            raise
        if other_id is not None and other_id != cluster_id:
            connection.close()
            raise WrongCluster(self._wrong_cluster(connection.address, other_id))
        self._verified.add(connection.address)

    def _wrong_cluster(self, address: Address, other_id: str) -> str:
        node_id = next((node_id for node_id, advertised in self.brokers.items() if advertised == address), None)
        if node_id is None:
            return (
                f"{self._metadata_source} belongs to cluster {self.cluster_id}, but {address} to cluster {other_id}: "
                "give bootstrap servers of one cluster"
            )
        return (
            f"broker {node_id} of cluster {self.cluster_id} (reached at {self._metadata_source}) advertises {address}, "
            f"but another cluster answers there, {other_id}: nothing was sent to it. Set advertised.listeners of broker {node_id} "
            f"to an address that leads to it ('minibroker doctor -b {self._metadata_source}' shows more)"
        )

    def to_node(self, node_id: int, deadline: Deadline) -> Connection:
        """Return the connection to a broker by its node id.

        Args:
            node_id: the id of the broker in the metadata of the cluster.
            deadline: the end of the operation.

        Returns:
            The open connection, or a new one.

        Raises:
            BrokerNotAvailable: the metadata does not list this broker.
            BrokerUnreachable: it does not answer at the address that it advertises.
        """
        if node_id not in self.brokers:
            self.metadata([], deadline)
        if node_id not in self.brokers:
            raise BrokerNotAvailable(f"broker {node_id} is not in the cluster's metadata: it may be down")
        try:
            return self.to_address(self.brokers[node_id], deadline)
        except BrokerUnreachable as error:
            raise BrokerUnreachable(f"{error} (broker {node_id} advertises that address: check advertised.listeners)") from error

    def to_any(self, deadline: Deadline) -> Connection:
        """Return a connection to any broker: first those in use, then the bootstrap list, then all known."""
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
        """Return the connection for changes: to the controller if clients can reach it, otherwise to any broker, which forwards changes."""
        if not self.brokers:
            self.metadata([], deadline)
        if self.controller_id in self.brokers:
            return self.to_node(self.controller_id, deadline)
        return self.to_any(deadline)

    def ask(self, schema: ModuleType, request: Any, deadline: Deadline | None = None) -> Any:
        """Send a request to any broker, and again after a broken connection.

        Args:
            schema: the module of the API in `minibroker.schemas`.
            request: its `Request`.
            deadline: the end of the operation. Default: `timeout_ms` from now.

        Returns:
            The response. Its error codes are not checked.

        Raises:
            TimedOut: no broker answered before the deadline.
            UnsupportedByBroker: the broker does not serve the API in a version that the client knows.
        """
        deadline = deadline or self.deadline()
        return self.retrying(lambda: self.to_any(deadline).ask(schema, request, deadline), deadline)

    def ask_controller(self, schema: ModuleType, request: Any, deadline: Deadline | None = None) -> Any:
        """Send a change to the controller once. It is not sent again, because the controller may have made it already.

        Args:
            schema: the module of the API in `minibroker.schemas`.
            request: its `Request`.
            deadline: the end of the operation. Default: `timeout_ms` from now.

        Returns:
            The response. Its error codes are not checked.

        Raises:
            BrokerUnreachable: the connection broke before the answer.
            TimedOut: the controller did not answer before the deadline.
        """
        deadline = deadline or self.deadline()
        return self.retrying(lambda: self.to_controller(deadline), deadline).ask(schema, request, deadline)

    def retrying(self, attempt: Callable[[], T], deadline: Deadline) -> T:
        """Call `attempt` until it succeeds or fails with an error that is not retriable.

        Args:
            attempt: a function without arguments.
            deadline: the time after which it is not called again.

        Returns:
            What `attempt` returned.

        Raises:
            TimedOut: the deadline has passed. The message contains the last error.
        """
        while True:
            try:
                return attempt()
            except BrokerUnreachable as error:
                if not self._has_connected:
                    raise
                deadline.pause(error)
            except KafkaError as error:
                if not error.retriable:
                    raise
                deadline.pause(error)

    def metadata(self, topics: Sequence[str] | None, deadline: Deadline | None = None, *, create: bool = False) -> k03_metadata.Response:
        """Request metadata from any broker, and remember the brokers that it lists.

        Args:
            topics: names of topics; None: all topics; an empty list: only brokers.
            deadline: the end of the operation. Default: `timeout_ms` from now.
            create: let the broker create missing topics, if its configuration allows it.

        Returns:
            The response. Each topic has its own error code, which is not checked.

        Raises:
            TimedOut: no broker answered before the deadline.
        """
        request = k03_metadata.Request(
            topics=None if topics is None else [k03_metadata.Topic(name=name) for name in topics],
            allow_auto_topic_creation=create,
        )
        deadline = deadline or self.deadline()

        def ask() -> tuple[Address, k03_metadata.Response]:
            connection = self.to_any(deadline)
            return connection.address, connection.ask(k03_metadata, request, deadline)

        address, response = self.retrying(ask, deadline)
        check(response.error_code, "metadata")
        if response.cluster_id != self.cluster_id:  # the first response, or another cluster has replaced the one at this address
            self.cluster_id, self._metadata_source, self._verified = response.cluster_id, address, {address}
        self.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        self.controller_id = response.controller_id
        return response

    def topic(self, name: str, deadline: Deadline | None = None, *, create: bool = False) -> k03_metadata.TopicResult:
        """Return the metadata of a topic, and wait until all of its partitions have leaders.

        Args:
            name: the name of the topic.
            deadline: the end of the operation. Default: `timeout_ms` from now.
            create: let the broker create the topic, and wait for it up to 5 seconds.

        Returns:
            The topic with its partitions and their leaders.

        Raises:
            UnknownTopicOrPartition: the topic does not exist.
            TimedOut: a partition had no leader before the deadline.
        """
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
                    message = f"topic {name} does not exist. Create it with 'minibroker topics create {name}'"
                    raise UnknownTopicOrPartition(message) from None
                creation.pause(error)
            except KafkaError as error:
                if not error.retriable:
                    raise
                deadline.pause(error)
            else:
                return topic
