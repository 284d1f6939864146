"""Transactional producers and readers of many makes behind one face: what tests of transactions ask of a client.

Three live in this process; those of Java and Go in tests/clients/spoken_clients.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

TIMEOUT_S = 60.0
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

T = TypeVar("T")


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


class Row(NamedTuple):
    """A record as a reader saw it."""

    offset: int
    value: bytes


class Fenced(Exception):  # noqa: N818  named for what happened
    """Another producer has the transactional id, or the broker gave it up: this producer must end."""


class TransactionalProducer(Protocol):
    """The producer of one transactional id, initialized. Everything raises Fenced when it is, or what the client raises."""

    def begin(self) -> None: ...

    def send(self, place: Place, *values: bytes) -> None:
        """Hand records to the client; `flush`, `commit` and `abort` wait for their answers."""

    def flush(self) -> None: ...

    def send_offset(self, group: str, place: Place, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """Go away at once, without ending an open transaction (as far as the client lets one)."""


class TransactionalClient(Protocol):
    """A make of client. Calls on one of them come one after the other."""

    def open(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000) -> TransactionalProducer: ...

    def read(self, bootstrap: str, isolation: str, counts: Mapping[Place, int]) -> dict[Place, list[Row]]:
        """All of these partitions up to the end that this isolation level sees.

        `counts` is how many records are expected, for clients that do not know where they stand: they wait a moment for more.
        """

    def committed_offset(self, bootstrap: str, group: str, place: Place, isolation: str = READ_COMMITTED) -> int | None:
        """What the group committed; read_committed waits until no transaction is open on it (of clients that ask for stable offsets)."""


@contextmanager
def fencing(*kinds: type[BaseException]) -> Iterator[None]:
    """Turn a client's exceptions of these kinds into Fenced."""
    try:
        yield
    except kinds as error:
        raise Fenced(repr(error)) from error


class ConfluentKafka:
    class Producer:
        def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
            from tests.support.confluent import Producer

            self._producer = Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "transactional.id": transactional_id,
                    "transaction.timeout.ms": timeout_ms,
                    "message.timeout.ms": timeout_ms,  # may not be longer than the transaction
                    "linger.ms": 5,
                    "reconnect.backoff.ms": 5,
                    "reconnect.backoff.max.ms": 100,
                    "retry.backoff.ms": 20,
                }
            )
            with self._fencing():
                self._producer.init_transactions(TIMEOUT_S)

        @contextmanager
        def _fencing(self) -> Iterator[None]:
            from confluent_kafka import KafkaError, KafkaException

            try:
                yield
            except KafkaException as error:
                fenced = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
                if error.args[0].code() in fenced:
                    raise Fenced(repr(error)) from error
                raise

        def begin(self) -> None:
            with self._fencing():
                self._producer.begin_transaction()

        def send(self, place: Place, *values: bytes) -> None:
            # No on_delivery: 2.16 calls it with the exception of a fatal error set already, and the interpreter is not the same after that.
            for value in values:
                self._producer.produce(place.topic, value, partition=place.partition)

        def flush(self) -> None:
            with self._fencing():
                assert self._producer.flush(TIMEOUT_S) == 0, "records without an answer"

        def send_offset(self, group: str, place: Place, offset: int) -> None:
            from confluent_kafka import TopicPartition

            from tests.support.confluent import Consumer

            consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group})  # for the group's name only
            with self._fencing():
                to_commit = [TopicPartition(place.topic, place.partition, offset)]
                self._producer.send_offsets_to_transaction(to_commit, consumer.consumer_group_metadata(), TIMEOUT_S)
            consumer.close()

        def commit(self) -> None:
            with self._fencing():
                self._producer.commit_transaction(TIMEOUT_S)

        def abort(self) -> None:
            with self._fencing():
                self._producer.abort_transaction(TIMEOUT_S)

        def close(self) -> None:
            del self._producer

    def open(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000) -> TransactionalProducer:
        return self.Producer(bootstrap, transactional_id, timeout_ms)

    @staticmethod
    def _consumer(bootstrap: str, group: str, isolation: str) -> Any:
        from tests.support.confluent import Consumer

        return Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "check.crcs": True,
            }
        )

    def read(self, bootstrap: str, isolation: str, counts: Mapping[Place, int]) -> dict[Place, list[Row]]:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        found: dict[Place, list[Row]] = {place: [] for place in counts}
        unfinished = set(counts)
        consumer = self._consumer(bootstrap, "not-used", isolation)
        try:
            consumer.assign([TopicPartition(*place, 0) for place in counts])
            while unfinished:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"the end is out of reach: {unfinished}"
                place = Place(message.topic(), message.partition())
                error = message.error()
                if error is None:
                    found[place].append(Row(message.offset(), message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(place)
                else:
                    raise KafkaException(error)
            return found
        finally:
            consumer.close()

    def committed_offset(self, bootstrap: str, group: str, place: Place, isolation: str = READ_COMMITTED) -> int | None:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(bootstrap, group, isolation)
        try:
            (found,) = consumer.committed([TopicPartition(*place)], timeout=TIMEOUT_S)
            return found.offset if found.offset >= 0 else None
        finally:
            consumer.close()


class KafkaPython:
    class Producer:
        def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
            from kafka import KafkaProducer

            self._sent: list[Any] = []
            self._producer = KafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                linger_ms=5,
                retry_backoff_ms=20,
                reconnect_backoff_ms=5,
                reconnect_backoff_max_ms=100,
            )
            with self._fencing():
                self._producer.init_transactions()

        @staticmethod
        @contextmanager
        def _fencing() -> Iterator[None]:
            from kafka.errors import InvalidProducerEpochError, ProducerFencedError

            with fencing(ProducerFencedError, InvalidProducerEpochError):
                yield

        def begin(self) -> None:
            with self._fencing():
                self._producer.begin_transaction()

        def send(self, place: Place, *values: bytes) -> None:
            for value in values:
                self._sent.append(self._producer.send(place.topic, value, partition=place.partition))

        def flush(self) -> None:
            sent, self._sent = self._sent, []
            self._producer.flush(TIMEOUT_S)
            with self._fencing():
                for future in sent:
                    future.get(TIMEOUT_S)

        def send_offset(self, group: str, place: Place, offset: int) -> None:
            from kafka import OffsetAndMetadata, TopicPartition

            with self._fencing():
                self._producer.send_offsets_to_transaction({TopicPartition(*place): OffsetAndMetadata(offset, "", -1)}, group)

        def commit(self) -> None:
            with self._fencing():
                self._producer.commit_transaction()

        def abort(self) -> None:
            with self._fencing():
                self._producer.abort_transaction()

        def close(self) -> None:
            self._producer.close(timeout=0)

    def open(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000) -> TransactionalProducer:
        return self.Producer(bootstrap, transactional_id, timeout_ms)

    def read(self, bootstrap: str, isolation: str, counts: Mapping[Place, int]) -> dict[Place, list[Row]]:
        from kafka import KafkaConsumer, TopicPartition

        found: dict[Place, list[Row]] = {place: [] for place in counts}
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, fetch_max_wait_ms=100, check_crcs=True)
        try:
            wanted = [TopicPartition(*place) for place in counts]
            consumer.assign(wanted)
            consumer.seek_to_beginning(*wanted)
            ends = consumer.end_offsets(wanted)
            with deadline(f"the end is out of reach: {ends}") as is_over:
                while not is_over() and any(consumer.position(each) < ends[each] for each in wanted):
                    for where, messages in consumer.poll(timeout_ms=100).items():
                        found[Place(*where)].extend(Row(m.offset, m.value) for m in messages)
            return found
        finally:
            consumer.close()

    def committed_offset(self, bootstrap: str, group: str, place: Place, isolation: str = READ_COMMITTED) -> int | None:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, isolation_level=isolation, enable_auto_commit=False)
        try:
            found: int | None = consumer.committed(TopicPartition(*place), timeout_ms=int(TIMEOUT_S * 1000))
            return found
        finally:
            consumer.close()


class AioKafka:
    """aiokafka with an event loop on a thread, which all producers share."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine on the loop."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        future: Future[T] = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, TIMEOUT_S), self._loop)
        return future.result()

    class Producer:
        def __init__(self, client: AioKafka, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
            self._client = client
            self._sent: list[Any] = []
            self._run(self._start(bootstrap, transactional_id, timeout_ms))

        async def _start(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
            from aiokafka import AIOKafkaProducer

            self._producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                linger_ms=5,
                retry_backoff_ms=20,
            )
            try:
                await self._producer.start()
            except BaseException:
                await self._producer.stop()
                raise

        def _run(self, work: Coroutine[Any, Any, T]) -> T:
            from aiokafka.errors import InvalidProducerEpoch, ProducerFenced

            with fencing(ProducerFenced, InvalidProducerEpoch):
                return self._client.run(work)

        def begin(self) -> None:
            self._run(self._producer.begin_transaction())

        def send(self, place: Place, *values: bytes) -> None:
            self._run(self._send(place, values))

        async def _send(self, place: Place, values: Sequence[bytes]) -> None:
            for value in values:
                self._sent.append(await self._producer.send(place.topic, value, partition=place.partition))

        def flush(self) -> None:
            self._run(self._flush())

        async def _flush(self) -> None:
            sent, self._sent = self._sent, []
            for future in sent:
                await future

        def send_offset(self, group: str, place: Place, offset: int) -> None:
            from aiokafka import TopicPartition

            self._run(self._producer.send_offsets_to_transaction({TopicPartition(*place): offset}, group))

        def commit(self) -> None:
            self._run(self._producer.commit_transaction())

        def abort(self) -> None:
            self._run(self._producer.abort_transaction())

        def close(self) -> None:
            # stop() would wait for ever for a transaction that never ends: the client's connections are closed and its task is cancelled.
            self._run(self._close())

        async def _close(self) -> None:
            task = self._producer._sender._sender_task
            task.cancel()
            await asyncio.wait([task])
            await self._producer.client.close()
            self._producer._closed = True

    def open(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000) -> TransactionalProducer:
        return self.Producer(self, bootstrap, transactional_id, timeout_ms)

    def read(self, bootstrap: str, isolation: str, counts: Mapping[Place, int]) -> dict[Place, list[Row]]:
        return self.run(self._read(bootstrap, isolation, counts))

    @staticmethod
    async def _read(bootstrap: str, isolation: str, counts: Mapping[Place, int]) -> dict[Place, list[Row]]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        found: dict[Place, list[Row]] = {place: [] for place in counts}
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, fetch_max_wait_ms=100, check_crcs=True)
        await consumer.start()
        try:
            wanted = [TopicPartition(*place) for place in counts]
            consumer.assign(wanted)
            for each in wanted:
                consumer.seek(each, 0)
            ends = await consumer.end_offsets(wanted)
            while [each for each in wanted if await consumer.position(each) < ends[each]]:
                for where, messages in (await consumer.getmany(timeout_ms=100)).items():
                    found[Place(*where)].extend(Row(m.offset, m.value) for m in messages)
            return found
        finally:
            await consumer.stop()

    def committed_offset(self, bootstrap: str, group: str, place: Place, isolation: str = READ_COMMITTED) -> int | None:
        return self.run(self._committed_offset(bootstrap, group, place, isolation))

    @staticmethod
    async def _committed_offset(bootstrap: str, group: str, place: Place, isolation: str) -> int | None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, isolation_level=isolation, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign([TopicPartition(*place)])
            found: int | None = await consumer.committed(TopicPartition(*place))
            return found
        finally:
            await consumer.stop()


@contextmanager
def deadline(words: str) -> Iterator[Any]:
    """Give a function that says whether TIMEOUT_S are over; fail with these words if they were."""
    import time

    end = time.monotonic() + TIMEOUT_S
    yield lambda: time.monotonic() > end
    assert time.monotonic() <= end, words
