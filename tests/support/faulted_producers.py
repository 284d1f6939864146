"""Producers of four makes that meet faults: idempotent or transactional ones, impatient, with a face that hides none of their outcomes.

`client_id` of all of them is `writer(make)`, so that a fault can be for one make alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol, TypeVar

from tests.clients.spoken_clients import SpokenClient
from tests.clients.transactional import Place
from tests.support.fault_model import NO_OFFSET

REQUEST_TIMEOUT_MS: Final = 700  #: a request without an answer is given up soon
OPERATION_TIMEOUT_S: Final = 12.0  #: any call of a client: what takes longer has an unknown outcome
TRANSACTION_TIMEOUT_MS: Final = 30_000

T = TypeVar("T")

_NOBODY: Final = logging.getLogger("tests.librdkafka")  #: hears of producers that are fenced: at the level 0, too, it would be printed
_NOBODY.addHandler(logging.NullHandler())
_NOBODY.propagate = False


def writer(make: str) -> str:
    """The client_id of a make's producers."""
    return f"writer-{make}"


def transactional_id(make: str) -> str:
    """Of the make's transactional producer."""
    return f"till-{make}"


class GaveUpError(Exception):
    """A call did not end in time, or the client says that it failed."""


class FaultedProducer(Protocol):
    """One instance. Calls raise anything when they fail; `outcomes` does not fail because of a record."""

    def begin(self) -> None: ...

    def send(self, place: Place, value: str) -> None: ...

    def outcomes(self) -> list[int | str]:
        """Wait for all that was sent since the last call: offset of each, -1 if it is acknowledged without one; what is said else."""

    def send_offset(self, group: str, place: Place, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """Leave at once; nothing is ended."""


Open = Callable[[str, str | None], FaultedProducer]  #: bootstrap servers, transactional id or None


def within(work: Callable[[], T], what: str) -> T:
    """Do what may take for ever in a thread of its own."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(OPERATION_TIMEOUT_S)
    if failed:
        raise failed[0]
    if not done:
        raise GaveUpError(f"{what} did not end in {OPERATION_TIMEOUT_S} s")
    return done[0]


class KafkaPython:
    def __init__(self, bootstrap: str, transactional_id: str | None) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            client_id=writer("kafka-python"),
            transactional_id=transactional_id,
            enable_idempotence=True,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=int(OPERATION_TIMEOUT_S * 800),
            max_block_ms=int(OPERATION_TIMEOUT_S * 800),
            retry_backoff_ms=20,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=100,
            linger_ms=0,
        )
        self._sent: list[Any] = []
        if transactional_id is not None:
            try:
                within(self._producer.init_transactions, "init_transactions")
            except BaseException:
                self.close()
                raise

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, place: Place, value: str) -> None:
        self._sent.append(self._producer.send(place.topic, value.encode(), partition=place.partition))

    def outcomes(self) -> list[int | str]:
        sent, self._sent = self._sent, []
        with contextlib.suppress(Exception):  # each record tells
            self._producer.flush(OPERATION_TIMEOUT_S)
        return [_offset_or_words(lambda each=each: each.get(0.01).offset) for each in sent]  # type: ignore[misc]

    def send_offset(self, group: str, place: Place, offset: int) -> None:
        from kafka import OffsetAndMetadata, TopicPartition

        offsets = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1)}
        within(lambda: self._producer.send_offsets_to_transaction(offsets, group), "send_offsets_to_transaction")

    def commit(self) -> None:
        within(self._producer.commit_transaction, "commit_transaction")

    def abort(self) -> None:
        within(self._producer.abort_transaction, "abort_transaction")

    def close(self) -> None:
        self._producer.close(timeout=0)


def _offset_or_words(work: Callable[[], int]) -> int | str:
    try:
        return work()
    except Exception as error:  # noqa: BLE001  whatever the client says: not acknowledged
        return repr(error)


class AIOKafka:
    """With a loop on a thread of its own, that the client's own tasks go on between calls."""

    def __init__(self, bootstrap: str, transactional_id: str | None) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._sent: list[Any] = []
        self._run(self._start(bootstrap, transactional_id))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, OPERATION_TIMEOUT_S), self._loop).result()

    async def _start(self, bootstrap: str, transactional_id: str | None) -> None:
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            client_id=writer("aiokafka"),
            transactional_id=transactional_id,
            enable_idempotence=True,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=20,
            linger_ms=0,
        )
        try:
            await self._producer.start()
        except BaseException:
            await self._producer.stop()
            raise

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, place: Place, value: str) -> None:
        self._sent.append(self._run(self._producer.send(place.topic, value.encode(), partition=place.partition)))

    def outcomes(self) -> list[int | str]:
        return self._run(self._outcomes())

    async def _outcomes(self) -> list[int | str]:
        sent, self._sent = self._sent, []
        if sent:
            await asyncio.wait(sent, timeout=OPERATION_TIMEOUT_S * 0.8)
        return [_offset_or_words(lambda each=each: each.result().offset) for each in sent]  # type: ignore[misc]

    def send_offset(self, group: str, place: Place, offset: int) -> None:
        from aiokafka import TopicPartition

        self._run(self._producer.send_offsets_to_transaction({TopicPartition(*place): offset}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        # stop() waits for ever for a transaction that never ends: its task is cancelled, and its connections are closed.
        with contextlib.suppress(Exception):
            self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _close(self) -> None:
        task = self._producer._sender._sender_task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._producer.client.close()
        self._producer._closed = True
        for each in self._sent:  # nobody will ask
            each.add_done_callback(lambda sent: sent.cancelled() or sent.exception())


class Confluent:
    def __init__(self, bootstrap: str, transactional_id: str | None) -> None:
        from tests.support.confluent import Producer

        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": writer("confluent-kafka"),
            "enable.idempotence": True,
            "socket.timeout.ms": REQUEST_TIMEOUT_MS,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "message.timeout.ms": int(OPERATION_TIMEOUT_S * 800),
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "topic.metadata.refresh.fast.interval.ms": 50,
            "linger.ms": 0,
            "error_cb": lambda _: None,
        }
        if transactional_id is not None:
            config |= {"transactional.id": transactional_id, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        self._is_transactional = transactional_id is not None
        self._producer = Producer(config, logger=_NOBODY)
        self._sent: list[list[int | str]] = []
        if self._is_transactional:
            self._producer.init_transactions(OPERATION_TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, place: Place, value: str) -> None:
        if self._is_transactional:
            # No on_delivery: 2.16 calls it with the exception of a fatal error set already, and the interpreter is not the same after that.
            self._producer.produce(place.topic, value, partition=place.partition)
            return
        outcome: list[int | str] = ["no answer"]
        self._sent.append(outcome)

        def told(error: object, message: Any) -> None:
            outcome[0] = (NO_OFFSET if message.offset() is None else message.offset()) if error is None else str(error)

        self._producer.produce(place.topic, value, partition=place.partition, on_delivery=told)

    def outcomes(self) -> list[int | str]:
        self._producer.flush(OPERATION_TIMEOUT_S)
        sent, self._sent = self._sent, []
        return [each[0] for each in sent]

    def send_offset(self, group: str, place: Place, offset: int) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        self._producer.commit_transaction(OPERATION_TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(OPERATION_TIMEOUT_S)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._producer.purge()
        del self._producer


class Java:
    """A producer in the program of tests/clients/java/Transactions.java."""

    _handles = itertools.count()
    SETTINGS: Final[Mapping[str, object]] = {
        "client.id": writer("java"),
        "request.timeout.ms": REQUEST_TIMEOUT_MS,
        "delivery.timeout.ms": int(OPERATION_TIMEOUT_S * 800),
        "max.block.ms": int(OPERATION_TIMEOUT_S * 800),
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "linger.ms": 0,
    }

    def __init__(self, program: SpokenClient, bootstrap: str, transactional_id: str | None) -> None:
        self._program = program
        self._handle = f"faulted-{next(self._handles)}"
        settings = [f"{name}={value}" for name, value in {"bootstrap.servers": bootstrap, **self.SETTINGS}.items()]
        try:
            self._ask("open", transactional_id or "", TRANSACTION_TIMEOUT_MS, *settings)
        except BaseException:
            with contextlib.suppress(Exception):
                self.close()
            raise

    def _ask(self, what: str, *more: object) -> list[str]:
        return self._program.ask(what, self._handle, *more)

    def begin(self) -> None:
        self._ask("begin")

    def send(self, place: Place, value: str) -> None:
        self._ask("send", *place, value)

    def outcomes(self) -> list[int | str]:
        return [int(each) if each.lstrip("-").isdigit() else each for each in self._ask("outcomes")]

    def send_offset(self, group: str, place: Place, offset: int) -> None:
        self._ask("offsets", group, *place, offset)

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def close(self) -> None:
        self._ask("close")
