"""The dispatcher and the listeners of one broker that clients see. A simulated cluster has several, which share the data.

open() -> serving --cut()--> closed --open()--> serving, on the same ports
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.clock import Clock
from minibroker.cluster.nodes import Node
from minibroker.config.broker_config import BrokerConfig, Reconfigurable
from minibroker.config.sources import with_origins
from minibroker.dispatch.context import Services
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.errors import ConfigurationError
from minibroker.server.advertised_address import PeerWatch, probe
from minibroker.server.listener import AcceptedConnection, ConnectionCounts, ConnectionLimits, Listener
from minibroker.server.loop import watchdog_of
from minibroker.server.loop_background import unawaited
from minibroker.server.sender_threads import SenderThreads

if TYPE_CHECKING:
    from minibroker.server.sasl.listener import SaslListener

_BACKLOG: Final = 1024  #: Kafka's default of 50 lets a burst of connections wait a second for their second SYN
_WITH_TLS: Final = ("SSL", "SASL_SSL")
_ONE_AT_A_TIME: Final = 1  #: Apache Kafka does not look at the next request of a connection before it has answered the one before


class ServedNode:
    """The dispatcher and the listeners of one node."""

    def __init__(
        self,
        services: Services,
        make_dispatcher: Callable[[Services], Dispatcher],
        make_connection: Callable[[Listener], AcceptedConnection],
        port: int = 0,
    ) -> None:
        """`port` is that of the first listener, if it is not the configured one."""
        self.services = services  #: the data and handlers that it serves; written by `serve_from`
        self.listeners: list[Listener] = []  #: open ones; written here
        self._dispatcher = make_dispatcher(services)
        self._make_connection = make_connection
        self._ports: dict[str, int] = {}  #: by listener's name, those that were bound once
        self._secured: dict[str, Reconfigurable] = {}  #: by listener's name, those with TLS
        if port:
            self._ports[self.node.configured[0].name] = port

    @property
    def node(self) -> Node:
        """The id and addresses that clients see."""
        return self.services.nodes.own

    @property
    def is_open(self) -> bool:
        """Whether clients can connect."""
        return bool(self.listeners)

    @property
    def connections(self) -> list[AcceptedConnection]:
        """The connections of all its listeners."""
        return [connection for listener in self.listeners for connection in listener.connections]

    def serve_from(self, services: Services) -> None:
        """Serve other data, or with other handlers, from the next request on."""
        self.services = services
        for name, port in self._ports.items():
            self.node.set_bound_port(name, port)
        self._dispatcher.serve_from(services)
        self._follow_config()

    async def open(self, clock: Clock) -> None:
        """Listen, on the same ports as last time.

        Raises:
            ConfigurationError: an address is in use or not one of this host; no listener is open then.
        """
        config, watchdog = self.services.config, watchdog_of(clock)
        counts = ConnectionCounts(watchdog, SenderThreads(config.minibroker_sender_threads, watchdog))
        backlog = config.socket_listen_backlog_size if _holds(config, "socket.listen.backlog.size") else _BACKLOG
        for configured in self.node.configured:
            listener = Listener(
                configured.name,
                self._dispatcher,
                clock,
                partial(self._limits, configured.name),
                self._make_connection,
                counts,
                self._connection_throttle_ms,
            )
            listener.security_protocol = configured.protocol
            if configured.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}:
                listener.sasl = self._sasl(configured.name, clock)
            listener.peer_watch = PeerWatch(configured.name, partial(self._advertised, configured.name), unawaited)
            try:
                if configured.protocol in _WITH_TLS:
                    self._secure(listener)
                await listener.open(configured.host, self._ports.get(configured.name, configured.port), backlog)
            except ConfigurationError as error:
                listener.stop_accepting()
                self.cut()
                raise ConfigurationError(with_origins(str(error), config.unknown)) from error
            except OSError as error:
                listener.stop_accepting()
                self.cut()
                raise ConfigurationError(f"listeners: cannot listen on {configured}: {error.strerror or error}") from error
            self.listeners.append(listener)
            self._ports[configured.name] = listener.port
            self.node.set_bound_port(configured.name, listener.port)
        for bound, advertised in zip(self.node.configured, self.node.listeners, strict=True):
            if bound.protocol == "PLAINTEXT":
                probe(bound, advertised, lambda: self.services.cluster.cluster_id, unawaited)

    def _secure(self, listener: Listener) -> None:
        """Serve TLS on a listener, which is not open yet. Raise ConfigurationError if its properties cannot be used."""
        from minibroker.server.secured_listener import SecuredListener  # noqa: PLC0415  a plain broker does not need TLS

        self._secured[listener.name] = SecuredListener(listener, self.services.config.security_texts, self.listeners)
        self._follow_config()

    def _follow_config(self) -> None:
        """Let the listeners with TLS follow the properties of the present data."""
        config = self.services.config
        config.reconfigurables = self._secured
        for secured in self._secured.values():
            secured.reconfigure(config.security_texts)

    def _sasl(self, listener_name: str, clock: Clock) -> SaslListener:
        """Return how the clients of a listener log in. Raises ConfigurationError if its properties are invalid."""
        from minibroker.server.sasl.listener import sasl_listener  # noqa: PLC0415  most brokers have no listener with SASL

        return sasl_listener(listener_name, lambda: self.services, clock)

    def _advertised(self, listener_name: str) -> tuple[str, int]:
        """Return the present address for clients. It changes when other data are served."""
        return self.node.advertised(listener_name)

    def _limits(self, listener_name: str) -> ConnectionLimits:
        return limits_of(self.services.config, listener_name)

    def _connection_throttle_ms(self, host: str) -> int:
        quotas = self.services.quotas
        return 0 if quotas is None else quotas.connection_throttle_ms(host)

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections live on."""
        for listener in self.listeners:
            listener.stop_accepting()

    def cut(self) -> None:
        """Close listeners and connections at once; no further answer is sent."""
        self.stop_accepting()
        for connection in self.connections:
            connection.abort()
        self.listeners = []


def limits_of(config: BrokerConfig, listener_name: str = "") -> ConnectionLimits:
    """Return the limits of a listener's connections. The system sizes socket buffers, unless the configuration does.

    With `minibroker.like.kafka` a connection is served one request at a time: requests after a parked Fetch wait for it.
    """
    return ConnectionLimits(
        request_max_bytes=config.socket_request_max_bytes,
        queued_max_requests=_ONE_AT_A_TIME if config.minibroker_like_kafka else config.queued_max_requests,
        queued_max_request_bytes=config.queued_max_request_bytes,
        max_idle_ms=config.connections_max_idle_ms,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.max_connections_per_ip_overrides,
        max_connections_of_listener=config.limit_of_listener(listener_name, "max.connections"),
        creation_rate=config.max_connection_creation_rate,
        creation_rate_of_listener=config.limit_of_listener(listener_name, "max.connection.creation.rate"),
        send_buffer_bytes=config.socket_send_buffer_bytes if _holds(config, "socket.send.buffer.bytes") else -1,
        receive_buffer_bytes=config.socket_receive_buffer_bytes if _holds(config, "socket.receive.buffer.bytes") else -1,
    )


def _holds(config: BrokerConfig, name: str) -> bool:
    """Whether a property of the network has effect, with its default if not set; otherwise the server chooses."""
    return config.minibroker_like_kafka or name in config.static
