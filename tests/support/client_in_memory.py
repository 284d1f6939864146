"""The client of the commands at a broker without sockets: `Client("memory:1", connect=connector(broker))`."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from minibroker.client.connection import Connect, Connection
from minibroker.client.transport import Address, Deadline
from minibroker.dispatch.delayed import Delayed
from minibroker.wire.schema import Buffer
from tests.support.broker_in_memory import BrokerInMemory


def connector(broker: BrokerInMemory) -> Connect:
    """Connects to the broker, whatever the address; a request that would have to wait fails."""

    def connect(address: Address, deadline: Deadline) -> Connection:
        connection = Connection(TransportInMemory(broker), address)
        connection.negotiate(deadline)
        return connection

    return connect


class TransportInMemory:
    def __init__(self, broker: BrokerInMemory) -> None:
        self._broker = broker
        self._answers: deque[bytes] = deque()

    def send(self, chunks: Sequence[Buffer], deadline: Deadline) -> None:
        frame = b"".join(bytes(chunk) for chunk in chunks)
        found = self._broker.dispatcher.dispatch(self._broker.connection, memoryview(frame)[4:])
        answer = found.answer if isinstance(found, Delayed) else found
        assert answer is not None, "the broker closed the connection, or the request waits"
        self._answers.append(b"".join(bytes(chunk) for chunk in answer)[4:])

    def receive(self, deadline: Deadline) -> memoryview:
        return memoryview(bytearray(self._answers.popleft()))

    def close(self) -> None:
        """There is nothing to close."""
