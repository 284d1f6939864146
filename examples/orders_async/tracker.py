"""A service that follows the events of orders and keeps the status of each in a compacted topic.

The topic is the service's only memory. Events and statuses have as many partitions and the same keys (order ids), so whoever is given a
partition of `order-events` reads the same partition of `order-status` first, and knows the status of all orders whose events will come.

A status is written before the offset of its event is committed: after a crash events come twice, and `status.after` passes over those it
has counted. The producer is idempotent, so a status that is sent again, because its acknowledgement was lost, is there once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError

from orders_async.status import EventError, Status, after, from_json, read_event, to_json

EVENTS = "order-events"
STATUSES = "order-status"
GROUP = "tracker"

log = logging.getLogger(__name__)


class Tracker(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka publishes no types
    """The service; an asynchronous context manager.

    Args:
        bootstrap_servers: HOST:PORT of the cluster.
        name: client.id, seen in the cluster's logs.
        settings: more of aiokafka's for its consumer.
    """

    def __init__(self, bootstrap_servers: str, *, name: str = "tracker", settings: Mapping[str, Any] | None = None) -> None:
        self._common = {"bootstrap_servers": bootstrap_servers, "client_id": name}
        self._consumer = AIOKafkaConsumer(
            group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False, **self._common, **(settings or {})
        )
        self._producer = AIOKafkaProducer(enable_idempotence=True, **self._common)
        self._statuses: dict[int, dict[str, Status]] = {}  #: by partition and order id; those of the partitions that are ours
        self._has_read = asyncio.Event()  #: the statuses of the partitions that are ours
        self._following = asyncio.Lock()  #: partitions are given back between two steps

    async def start(self) -> Self:
        """Join the group; partitions come while `run` runs."""
        await self._producer.start()
        await self._consumer.start()
        self._consumer.subscribe([EVENTS], listener=self)
        return self

    async def close(self) -> None:
        """Leave the group."""
        await self._consumer.stop()
        await self._producer.stop()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def status(self, order_id: str) -> Status | None:
        """Of an order, as far as its partition is ours."""
        return next((statuses[order_id] for statuses in self._statuses.values() if order_id in statuses), None)

    @property
    def partitions(self) -> list[int]:
        """Those that are ours, with their statuses."""
        return sorted(self._statuses)

    async def run(self) -> None:
        """Follow events until the task is cancelled."""
        while True:
            await self.step()

    async def step(self, timeout_ms: int = 1000) -> int:
        """Follow the events that have come; waits for them for `timeout_ms`. How many there were."""
        batches = await self._consumer.getmany(timeout_ms=timeout_ms)
        await self._has_read.wait()  # aiokafka hands out events of new partitions while on_partitions_assigned still runs
        count = 0
        async with self._following:
            for partition, records in batches.items():
                if partition.partition in self._statuses:
                    count += len(records)
                    await self._follow(partition, [record.value for record in records])
                    await self._commit(partition, records[-1].offset + 1)
        return count

    async def _follow(self, partition: TopicPartition, values: list[bytes | None]) -> None:
        """Write what becomes of the orders, and return when all is acknowledged."""
        statuses = self._statuses[partition.partition]
        changed: dict[str, Status] = {}
        for value in values:
            try:
                event = read_event(value)
            except EventError as reason:
                log.warning("%s: %s", partition, reason)
                continue
            before = changed.get(event.order_id) or statuses.get(event.order_id) or Status(event.order_id)
            now = after(before, event)
            if now != before:
                changed[event.order_id] = now
        sent = [
            await self._producer.send(STATUSES, to_json(status), order_id.encode(), partition.partition)
            for order_id, status in changed.items()
        ]
        await asyncio.gather(*sent)
        statuses.update(changed)

    async def _commit(self, partition: TopicPartition, offset: int) -> None:
        try:
            await self._consumer.commit({partition: offset})
        except CommitFailedError:
            log.warning("%s is somebody else's by now, who follows its last events again", partition)

    # -- who is given partitions --------------------------------------------------------------------------------------

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:  # noqa: ARG002  aiokafka's signature
        """Give all partitions back, as aiokafka does before a rebalance."""
        async with self._following:
            self._has_read.clear()
            self._statuses.clear()

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Read the statuses of orders whose events will come."""
        numbers = [partition.partition for partition in assigned]
        self._statuses = await self._read_statuses(numbers) if numbers else {}
        self._has_read.set()
        log.info("partitions %s, %s orders", sorted(numbers), sum(map(len, self._statuses.values())))

    async def _read_statuses(self, numbers: list[int]) -> dict[int, dict[str, Status]]:
        found: dict[int, dict[str, Status]] = {number: {} for number in numbers}
        async with AIOKafkaConsumer(auto_offset_reset="earliest", **self._common) as reader:
            partitions = [TopicPartition(STATUSES, number) for number in numbers]
            reader.assign(partitions)
            ends = await reader.end_offsets(partitions)
            for partition in partitions:
                await reader.seek_to_beginning(partition)
            while any([await reader.position(each) < ends[each] for each in partitions]):
                for partition, records in (await reader.getmany(timeout_ms=100)).items():
                    found[partition.partition] |= {record.key.decode(): from_json(record.value) for record in records}
        return found
