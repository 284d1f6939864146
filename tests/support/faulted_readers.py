"""Members of groups that meet faults: three makes of consumers, impatient, reading committed records and committing what they read.

When one fails it is closed, and another one goes on, as an application would be restarted. Java's are faulted_java_readers.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from tests.clients.transactional import Place
from tests.support.fault_schedule import reader

SESSION_TIMEOUT_MS: Final = 1500
REQUEST_TIMEOUT_MS: Final = 1600  #: kafka-python's must be longer than its session's
HEARTBEAT_MS: Final = 200
Seen = tuple[Place, int, str]  #: a record, its offset, its value


def group_of_readers(make: str) -> str:
    """The group of a make's consumers."""
    return f"readers-{make}"


def group_of_sharers(make: str) -> str:
    """The share group of a make."""
    return f"sharers-{make}"


def _next(rows: Iterable[Seen]) -> dict[Place, int]:
    """What is to be committed behind these."""
    found: dict[Place, int] = {}
    for place, offset, _ in rows:
        found[place] = max(offset + 1, found.get(place, 0))
    return found


class Readings:
    """What a group was given, and how far the broker said that this is kept: nobody of the group may be given it again.

    An offset is committed by its own number, not as where the client stands: that may be behind, when it has just joined again.
    """

    def __init__(self) -> None:
        self.seen: set[Seen] = set()
        self.again: list[Seen] = []  #: given again, though it was kept
        self.kept: dict[Place, int] = {}  #: the next offset

    def note(self, rows: Iterable[Seen]) -> None:
        """They were given."""
        for row in rows:
            if row[1] < self.kept.get(row[0], 0):
                self.again.append(row)
            self.seen.add(row)

    def keep(self, place: Place, next_offset: int) -> None:
        """The broker said that it is committed."""
        self.kept[place] = next_offset

    def complaints(self, committed: Mapping[Place, int]) -> list[str]:
        """What is wrong with what came, and with what the group has committed in the end."""
        said = [f"read again what was committed before: {sorted(self.again)[:5]}"] if self.again else []
        for place, next_offset in self.kept.items():
            last = max(offset for where, offset, _ in self.seen if where == place)
            if not next_offset <= committed.get(place, -1) <= last + 1:
                said.append(f"committed {next_offset} of {place} and read up to {last}: the group has {committed.get(place)}")
        return said


class Reader(Readings):
    """Reads topics of a make in a thread until it is told to stop, or has what it is told to wait for."""

    def __init__(self, make: str, bootstrap: str, topics: Sequence[str]) -> None:
        super().__init__()
        self.failures: list[str] = []
        self._make, self._bootstrap, self._topics = make, bootstrap, topics
        self.stack = ""  #: where it was when it was told to begin anew, or to stop
        self._stopped = threading.Event()
        self._renewed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=reader(make), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """And wait for it."""
        self.stack = self._stack()
        self._stopped.set()
        self._thread.join(30)

    def begin_anew(self) -> None:
        """With another consumer, as an application that is started again; where the old one was stays in `failures`."""
        self.failures.append(f"{reader(self._make)} stands still: {self._stack()}")
        self._renewed.set()

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "" if frame is None else "".join(traceback.format_stack(frame)[-4:])

    @property
    def _goes_on(self) -> bool:
        return not (self._stopped.is_set() or self._renewed.is_set())

    def has(self, wanted: Collection[Seen]) -> bool:
        """Whether it has read all of them."""
        return self.seen.issuperset(wanted)

    def _keep(self, following: Mapping[Place, int]) -> None:
        for place, next_offset in following.items():
            self.keep(place, next_offset)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._renewed.clear()
            try:
                READERS[self._make](self)
            except Exception as error:  # noqa: BLE001  whatever it is, another consumer goes on
                self.failures.append(f"{reader(self._make)}: {error!r}")

    def _settings(self) -> dict[str, Any]:
        """Of kafka-python and aiokafka, which name them alike."""
        return {
            "client_id": reader(self._make),
            "group_id": group_of_readers(self._make),
            "isolation_level": "read_committed",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "max_poll_interval_ms": 5000,
            "fetch_max_wait_ms": 100,
            "retry_backoff_ms": 20,
        }

    def kafka_python(self) -> None:
        from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

        consumer = KafkaConsumer(
            *self._topics,
            bootstrap_servers=self._bootstrap.split(","),
            **self._settings(),
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=100,
        )
        try:
            while self._goes_on:
                polled = [record for records in consumer.poll(100).values() for record in records]
                found = [(Place(each.topic, each.partition), each.offset, each.value.decode()) for each in polled]
                self.note(found)
                if found:
                    following = _next(found)
                    offsets = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in following.items()}
                    consumer.commit(offsets, timeout_ms=5000)
                    self._keep(following)
        finally:
            consumer.close(autocommit=False, timeout_ms=500)

    def aiokafka(self) -> None:
        asyncio.run(self._aiokafka())

    async def _aiokafka(self) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(
            *self._topics,
            bootstrap_servers=self._bootstrap,
            **self._settings(),
        )
        try:
            await asyncio.wait_for(consumer.start(), 10)
            while self._goes_on:
                polled = [record for records in (await consumer.getmany(timeout_ms=100)).values() for record in records]
                found = [(Place(each.topic, each.partition), each.offset, (each.value or b"").decode()) for each in polled]
                self.note(found)
                if found:
                    following = _next(found)
                    await asyncio.wait_for(consumer.commit({TopicPartition(*place): at for place, at in following.items()}), 10)
                    self._keep(following)
        finally:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.stop(), 3)

    def confluent(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        from tests.support.confluent import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "client.id": reader(self._make),
                "group.id": group_of_readers(self._make),
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "max.poll.interval.ms": 5000,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "check.crcs": True,
                "error_cb": lambda _: None,
            }
        )
        try:
            consumer.subscribe([*self._topics])
            while self._goes_on:
                polled = [each for each in consumer.consume(100, 0.1) if each.error() is None]
                found = [
                    (Place(str(each.topic()), each.partition() or 0), each.offset() or 0, (each.value() or b"").decode()) for each in polled
                ]
                self.note(found)
                if found:
                    following = _next(found)
                    try:
                        told = consumer.commit(offsets=[TopicPartition(*place, at) for place, at in following.items()], asynchronous=False)
                        self._keep({place: at for place, at in following.items() if not any(each.error for each in told or ())})
                    except KafkaException as error:  # it goes on by itself
                        self.failures.append(f"{reader(self._make)}: {error!r}")
        finally:
            consumer.close()


READERS: Final[dict[str, Callable[[Reader], Any]]] = {
    "kafka-python": Reader.kafka_python,
    "aiokafka": Reader.aiokafka,
    "confluent-kafka": Reader.confluent,
}
