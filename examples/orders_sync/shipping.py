"""Reads orders and writes shipments; what was written and how far was read become true together, in one transaction.

So an order is shipped exactly once, however often a worker dies, as long as who reads shipments reads committed ones
(isolation.level=read_committed). Orders that cannot be shipped go to another topic, with the reason in a header.

Workers share the partitions of `orders` (group `shipping`). Each has a name of its own, its transactional.id: who starts again under a
name ends what the last one of that name had left open, and should that one live after all, it is told so and ends (Replaced). So does
one whose transaction took longer than 30 s: the cluster has ended that by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from orders_sync.order import OrderError, Prices, read_order, shipment_of

ORDERS = "orders"
SHIPMENTS = "shipments"
REJECTED = "rejected-orders"
GROUP = "shipping"
BATCH_RECORDS = 500
TIMEOUT_S = 30.0

log = logging.getLogger(__name__)


class Replaced(Exception):  # noqa: N818  named for what happened
    """Another worker has taken this one's name, or the cluster has taken this one for dead: it must end."""


class Shipping:
    """One worker; a context manager.

    Args:
        bootstrap_servers: HOST:PORT of the cluster.
        name: the worker's own, the same again when it starts again.
        prices: cents by product.
        consuming: more of librdkafka's settings for the consumer.
    """

    def __init__(self, bootstrap_servers: str, *, name: str, prices: Prices, consuming: Mapping[str, Any] | None = None) -> None:
        common = {"bootstrap.servers": bootstrap_servers, "client.id": name}
        reading = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._prices = prices
        self._consumer = Consumer(common | reading | dict(consuming or {}))
        self._producer = Producer(common | {"transactional.id": f"shipping-{name}", "transaction.timeout.ms": 30_000})

    def start(self) -> Self:
        """End what the last worker of this name left open, and join the group."""
        self._retried(self._producer.init_transactions)
        self._consumer.subscribe([ORDERS])
        return self

    def step(self, timeout_s: float = 1.0) -> int:
        """Ship what has come in; waits for it for `timeout_s`. The number of orders that are done with.

        Raises:
            Replaced: the worker must end, and may start again.
            KafkaException: the cluster cannot go on.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return 0
        behind = self._consumer.consume(BATCH_RECORDS - 1, 0)  # what is here already; with a time it would wait for so many
        orders = [message for message in (first, *behind) if self._is_order(message)]
        if not orders:
            return 0
        try:
            self._retried(self._producer.begin_transaction)
            for message in orders:
                self._ship(message)
            self._retried(lambda: self._producer.send_offsets_to_transaction(_behind(orders), self._consumer.consumer_group_metadata()))
            self._retried(self._producer.commit_transaction)
        except KafkaException as failure:
            self._give_up(failure)
            return 0
        return len(orders)

    def close(self) -> None:
        """Leave the group; what was not committed is somebody else's."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- inside -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _is_order(message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.fatal():
            raise KafkaException(error)
        log.warning("orders: %s", error.str())
        return False

    def _ship(self, message: Message) -> None:
        try:
            order = read_order(message.value())
            shipment = shipment_of(order, self._prices)
        except OrderError as reason:
            origin = f"{message.topic()}-{message.partition()}@{message.offset()}"
            headers: list[tuple[str, str | bytes | None]] = [("reason", str(reason)), ("origin", origin)]
            self._producer.produce(REJECTED, message.value(), message.key(), headers=headers)
        else:
            self._producer.produce(SHIPMENTS, shipment, order.customer)

    def _give_up(self, failure: KafkaException) -> None:
        """Undo the transaction, and read again from where the last one that was committed ended."""
        error = failure.args[0]
        if error.name() in {"_FENCED", "PRODUCER_FENCED"}:
            raise Replaced(error.str()) from failure
        if not error.txn_requires_abort():
            raise failure
        log.warning("a transaction is given up: %s", error.str())
        self._retried(self._producer.abort_transaction)
        for partition in self._consumer.committed(self._consumer.assignment(), TIMEOUT_S):
            partition.offset = partition.offset if partition.offset >= 0 else OFFSET_BEGINNING
            self._consumer.seek(partition)

    @staticmethod
    def _retried(work: Callable[[], object]) -> None:
        """What librdkafka says may be asked again is asked again; it waits in between itself."""
        while True:
            try:
                work()
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
                log.warning("tried again: %s", failure.args[0].str())
            else:
                return


def _behind(messages: list[Message]) -> list[TopicPartition]:
    """The offsets behind the last message of each partition."""
    offsets = {message.partition(): message.offset() + 1 for message in messages}
    return [TopicPartition(ORDERS, partition, offset) for partition, offset in offsets.items()]
