"""SIGKILL at random moments of running transactions: each is there whole or not at all, as its client was told, and nothing stays open.

Several makes of clients write transactions over all partitions, with offsets of a group, and go on through every restart as applications
do: after a failure a successor of the same transactional id begins anew. The seed is printed; set CRASH_SEED to repeat the moments (not the
interleaving) of a run.

Apache Kafka 4.3.1 does not pass. After a start its coordinator drops partitions that have no leader yet from an abort: the transaction is
CompleteAbort without a marker, and read_committed waits there for ever. (Once its records were visible later: not traced.)
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.clients.makes import IN_PROCESS, Clients, unique
from tests.clients.transactional import READ_COMMITTED, READ_UNCOMMITTED, Place, Row, TransactionalClient, TransactionalProducer
from tests.cluster.directories.test_storage_checking import check
from tests.support.broker_process import BrokerProcess
from tests.support.dump_log import check_directory
from tests.support.java import require_java
from tests.support.soak import seed, times

KILLS = times(4, soak=8)
TOPIC = "under-fire"
PLACES = [Place(TOPIC, i) for i in range(3)]
#: Not kafka-python 3.0.12: when its connection breaks at the wrong moment, it forgets its EndTxn and waits for ever.
WRITERS = ["confluent-kafka", "aiokafka", "java-4.3.1", "franz-go"]
#: librdkafka 2.16 waits for ever for the group's coordinator once its connection broke; franz-go needs to be a member of the group.
WITHOUT_OFFSETS = {"confluent-kafka", "franz-go"}
LEFT_OPEN_MS = 5_000


class Writer:
    """A client on a thread that runs one transaction after the other; knows what it was told of each, by number."""

    def __init__(self, name: str, client: TransactionalClient, bootstrap: str, chance: random.Random) -> None:
        self.name = name
        self.committed: set[int] = set()
        self.unknown: set[int] = set()  #: those whose commit was not answered, or not with success
        self.failures: list[str] = []
        self.group = unique(f"group-of-{name}")
        self._client, self._bootstrap, self._chance = client, bootstrap, chance
        self._transactional_id = unique(name)
        self._stopping = threading.Event()
        self._heard = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def values(self, number: int) -> dict[Place, list[bytes]]:
        return {place: [f"{self.name} {number} {i}".encode() for i in range(2)] for place in PLACES}

    def wait_until_heard(self) -> None:
        """Return after the next commit that succeeds."""
        self._heard.clear()
        assert self._heard.wait(120), f"{self.name} gets nothing committed: {self.failures[-3:]}"

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join(100)
        assert not self._thread.is_alive(), f"{self.name} hangs: {self.failures[-3:]}"

    def _write(self) -> None:
        producer: TransactionalProducer | None = None
        number = 0
        while not self._stopping.is_set():
            number += 1
            try:
                producer = producer or self._client.open(self._bootstrap, self._transactional_id)
                self._transaction(producer, number)
            except Exception as failure:  # noqa: BLE001  whatever a client says when its broker is killed
                self.failures.append(repr(failure))
                if producer is not None:
                    with suppress(Exception):
                        producer.close()
                producer = None
                self._stopping.wait(0.02)
        while producer is None:  # after a failure nobody but a successor ends what is open
            with suppress(Exception):
                producer = self._client.open(self._bootstrap, self._transactional_id)
        producer.close()

    def _transaction(self, producer: TransactionalProducer, number: int) -> None:
        producer.begin()
        for place, values in self.values(number).items():
            producer.send(place, *values)
        if self.name not in WITHOUT_OFFSETS:
            producer.send_offset(self.group, PLACES[0], number)
        if self._chance.random() < 0.3:
            producer.flush()
            producer.abort()
            return
        self.unknown.add(number)
        producer.commit()
        self.unknown.discard(number)
        self.committed.add(number)
        self._heard.set()


@contextmanager
def writing(clients: Clients, moments: random.Random) -> Iterator[list[Writer]]:
    """Writers of all makes that there are."""
    writers: list[Writer] = []
    try:
        for name in WRITERS:
            with suppress(pytest.skip.Exception):
                writers.append(Writer(name, clients[name], clients.bootstrap, random.Random(moments.random())))
        yield writers
    finally:
        for writer in writers:
            writer._stopping.set()


@pytest.mark.timeout(600)
def test_transactions_happen_whole_or_not_at_all(tmp_path: Path) -> None:
    moments = random.Random(seed())
    settings = {
        "log.segment.bytes": "65536",
        "transaction.state.log.num.partitions": "3",
        "offsets.topic.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with BrokerProcess(tmp_path, *words) as broker, Clients(broker.bootstrap) as clients:
        create_topic(broker.bootstrap)
        with writing(clients, moments) as writers:
            for _ in range(KILLS):
                for writer in writers:  # or the backoff of a client keeps it out of most rounds
                    writer.wait_until_heard()
                time.sleep(moments.uniform(0.0, 0.3))  # the random moment itself, not a wait for something
                broker.kill()
                if moments.random() < 0.3:  # once more while it recovers
                    broker.start_and_kill(after_s=moments.uniform(0.0, 0.25))
                broker.restart()
            for writer in writers:
                writer.finish()
        leave_open(broker)
        check_what_is_there(broker.bootstrap, writers)
        assert broker.stop() == 0, broker.output
    assert check(broker.data_dir) == []
    print({writer.name: (len(writer.committed), len(writer.unknown), len(writer.failures)) for writer in writers})
    require_java()  # the rest asks Kafka's own tool
    check_directory(broker.data_dir)


def create_topic(bootstrap: str) -> None:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, len(PLACES), 1)])[TOPIC].result(timeout=60)


def leave_open(broker: BrokerProcess) -> None:
    """A transaction whose client and broker die before it ends: nobody is left to end it but its time-out."""
    producer = IN_PROCESS["aiokafka"].open(broker.bootstrap, unique("left-open"), timeout_ms=LEFT_OPEN_MS)
    producer.begin()
    for place in PLACES:
        producer.send(place, b"left open")
    producer.flush()
    producer.close()
    broker.kill()
    broker.restart()


def check_what_is_there(bootstrap: str, writers: list[Writer]) -> None:
    everything = read(bootstrap, READ_UNCOMMITTED)
    deadline = time.monotonic() + 60
    while end_offsets(bootstrap, READ_COMMITTED) != end_offsets(bootstrap, READ_UNCOMMITTED):
        assert time.monotonic() < deadline, "a transaction stays open"
        time.sleep(0.05)
    visible = read(bootstrap, READ_COMMITTED)
    assert visible == read(bootstrap, READ_COMMITTED, "aiokafka")
    for place in PLACES:
        assert set(visible[place]) <= set(everything[place])
        assert b"left open" in {row.value for row in everything[place]} - {row.value for row in visible[place]}
    for writer in writers:
        check_writer(writer, visible)
        if writer.name not in WITHOUT_OFFSETS:
            offset = IN_PROCESS["kafka-python"].committed_offset(bootstrap, writer.group, PLACES[0])
            assert offset == max(whole(writer, visible)), f"{writer.name}: offsets without their transaction, or the other way round"
    assert sum(len(writer.committed) for writer in writers) > KILLS


def check_writer(writer: Writer, visible: dict[Place, list[Row]]) -> None:
    there = whole(writer, visible)
    assert writer.committed <= there, f"{writer.name}: lost {writer.committed - there}"
    assert there <= writer.committed | writer.unknown, f"{writer.name}: aborted but visible: {there - writer.committed - writer.unknown}"
    for place in PLACES:
        found = [row.value for row in visible[place] if row.value.startswith(writer.name.encode() + b" ")]
        assert found == [value for number in sorted(there) for value in writer.values(number)[place]]


def whole(writer: Writer, visible: dict[Place, list[Row]]) -> set[int]:
    """The transactions of a writer that are visible in the first partition; check_writer sees to it that they are in all, whole."""
    mine = (row.value.split() for row in visible[PLACES[0]] if row.value.startswith(writer.name.encode() + b" "))
    return {int(number) for _, number, _ in mine}


def read(bootstrap: str, isolation: str, name: str = "confluent-kafka") -> dict[Place, list[Row]]:
    return IN_PROCESS[name].read(bootstrap, isolation, dict.fromkeys(PLACES, 0))


def end_offsets(bootstrap: str, isolation: str) -> list[int]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
    try:
        found: dict[TopicPartition, int] = consumer.end_offsets([TopicPartition(*place) for place in PLACES])
        return list(found.values())
    finally:
        consumer.close()
