"""Kafka Streams under exactly_once_v2: broker and application die while it counts words in a changelogged store, the counts are exact.

The application reads lines, sends their words through a repartition topic, and writes a record for each with its count so far: 1, 2, 3 and
so on for each word, without a gap, a repetition or a step back, whatever died. The seed is printed; set CRASH_SEED to repeat the moments
(not the interleaving) of a run. Its instances share their tasks out as a classic group, and as a streams group (KIP-1071).
"""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.clients.spoken_clients import HERE, building
from tests.cluster.directories.test_storage_checking import check
from tests.support.broker_process import BrokerProcess
from tests.support.child_process import ChildProcess
from tests.support.java import STREAMS, jars
from tests.support.soak import seed

#: Who is killed, one after the other, by the protocol of the group.
DEATHS = {
    "classic": ["broker", "broker", "application", "broker", "application and broker", "broker", "broker"],
    "streams": ["broker", "application", "broker"],
}
PARTITIONS = 3
LINES, COUNTS, CHANGELOG = "lines", "counts", "word-count-counts-changelog"
WORDS = [f"word-{number}" for number in range(20)]
PATIENCE_S = 120.0

BROKER = {
    "log.segment.bytes": "262144",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "4000",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.heartbeat.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
#: Records are sent long before their transaction ends, so deaths meet open ones. Time-outs are short: a dead application's transactions and
#: places in the group are soon free for the next one.
APPLICATION = {
    "num.stream.threads": "2",
    "commit.interval.ms": "200",
    "linger.ms": "0",
    "repartition.purge.interval.ms": "500",
    "transaction.timeout.ms": "5000",
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "200",
    "retry.backoff.ms": "50",
}
#: What the broker says in a streams group.
BY_PROTOCOL = {"classic": {"session.timeout.ms": "4000", "heartbeat.interval.ms": "500"}, "streams": {"group.protocol": "streams"}}
#: librdkafka's: back soon after a restart.
QUICK: dict[str, Any] = {"reconnect.backoff.max.ms": 200}


class Feeder:
    """Writes random lines on a thread until it is told to finish; `words` counts what it wrote."""

    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        from tests.support.confluent import Producer

        self.words: Counter[str] = Counter()
        self.failures: list[str] = []
        self._chance = chance
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 0, **QUICK})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def finish(self) -> None:
        """Return when all is acknowledged."""
        self.stop()
        self._thread.join(PATIENCE_S)
        assert self._producer.flush(PATIENCE_S) == 0, "lines are not acknowledged"
        assert self.failures == []

    def stop(self) -> None:
        self._stopping.set()

    def _write(self) -> None:
        while not self._stopping.wait(0.005):
            words = self._chance.choices(WORDS, k=4)
            self.words.update(words)
            self._producer.produce(LINES, " ".join(words), partition=self._chance.randrange(PARTITIONS), on_delivery=self._told)
            self._producer.poll(0)

    def _told(self, failure: object, _: object) -> None:
        if failure is not None:
            self.failures.append(str(failure))


class Reader:
    """Reads a topic from its start under read_committed; `found` has the values of each key in their order."""

    def __init__(self, bootstrap: str, topic: str, number: Callable[[bytes], int]) -> None:
        from confluent_kafka import TopicPartition

        from tests.support.confluent import Consumer

        self.found: dict[str, list[int]] = defaultdict(list)
        self._number = number
        self._at_end: set[int] = set()
        settings = {"group.id": "unused", "isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **QUICK})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    @property
    def size(self) -> int:
        return sum(map(len, self.found.values()))

    def read_until(self, enough: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not enough():
            assert time.monotonic() < deadline, f"{what}: {self.size} records until now"
            self._poll(0.1)

    def read_to_end(self) -> dict[str, list[int]]:
        """All that a fresh reader finds; closes it."""
        self.read_until(lambda: len(self._at_end) == PARTITIONS, "the end is not reached")
        self.close()
        return self.found

    def read_on(self) -> None:
        """To the end, and 50 records more: the application is at work."""
        self._at_end.clear()
        self.read_until(lambda: len(self._at_end) == PARTITIONS, "the end is not reached")
        size = self.size
        self.read_until(lambda: self.size >= size + 50, "the application does not go on")

    def close(self) -> None:
        self._consumer.close()

    def _poll(self, timeout_s: float) -> None:
        from confluent_kafka import KafkaError

        message = self._consumer.poll(timeout_s)
        if message is None:
            return
        if message.error() is None:
            self.found[message.key().decode()].append(self._number(message.value()))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            self._at_end.add(message.partition())


class Application(ChildProcess):
    """tests/clients/java/WordCount.java in a JVM of its own; `said` is the file that it speaks into."""

    def __init__(self, folder: Path, bootstrap: str, protocol: str) -> None:
        libraries = jars(*STREAMS)
        source = HERE / "java" / "WordCount.java"
        with building("WordCount", [source]) as classes:
            if not (classes / "WordCount.class").exists():
                if shutil.which("javac") is None:
                    pytest.skip("javac is not installed")
                subprocess.run(["javac", "--release", "11", "-cp", f"{libraries}/*", "-d", str(classes), str(source)], check=True)
        memory = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        settings = [f"{name}={value}" for name, value in (APPLICATION | BY_PROTOCOL[protocol]).items()]
        words = ["WordCount", bootstrap, LINES, COUNTS, str(folder / "state"), *settings]
        command = ["java", *memory, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{classes}:{libraries}/*", *words]
        super().__init__(command, folder / "application.txt", append=True, stdin=subprocess.PIPE)

    def close(self) -> int:
        """Close its standard input, wait until it ends, and return its exit code."""
        self.close_stdin()
        return self.wait(PATIENCE_S)


@contextmanager
def counting(folder: Path, bootstrap: str, protocol: str, moments: random.Random) -> Iterator[tuple[Application, Feeder, Reader]]:
    """The application at work on lines that come, and a reader of its counts."""
    application = Application(folder, bootstrap, protocol)
    try:
        feeder = Feeder(bootstrap, random.Random(moments.random()))
        reader = Reader(bootstrap, COUNTS, int)
        try:
            yield application, feeder, reader
        finally:
            feeder.stop()
            reader.close()
    finally:
        application.kill()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["classic", pytest.param("streams", marks=pytest.mark.slow)])
def test_counts_are_exact(protocol: str, tmp_path: Path) -> None:
    moments = random.Random(seed())
    words = [word for name, value in BROKER.items() for word in ("--set", f"{name}={value}")]
    with BrokerProcess(tmp_path, *words) as broker:
        create_topics(broker.bootstrap)
        with counting(tmp_path, broker.bootstrap, protocol, moments) as (application, feeder, reader):
            for dying in DEATHS[protocol]:
                reader.read_on()
                time.sleep(moments.uniform(0.0, 0.4))  # the random moment itself, not a wait for something
                if "application" in dying:
                    application.kill()
                if "broker" in dying:
                    broker.kill()
                    if moments.random() < 0.3:  # once more while it recovers
                        broker.start_and_kill(after_s=moments.uniform(0.0, 0.25))
                    broker.restart()
                if "application" in dying:
                    application.start()
            feeder.finish()
            reader.read_until(lambda: reader.size >= feeder.words.total(), "words are missing")
            assert application.close() == 0, application.output
            assert wrong(reader.found, feeder.words) == {}
        assert wrong(Reader(broker.bootstrap, COUNTS, int).read_to_end(), feeder.words) == {}
        state = Reader(broker.bootstrap, CHANGELOG, int_of_java).read_to_end()
        assert {word: counts[-1] for word, counts in state.items()} == feeder.words
        assert broker.stop() == 0, broker.output
    assert check(broker.data_dir) == []


def wrong(found: dict[str, list[int]], words: Counter[str]) -> dict[str, str]:
    """What is not 1, 2, 3 to the number of each word, by word."""
    wanted = {word: list(range(1, count + 1)) for word, count in words.items()}
    return {
        word: f"{len(counts)} records for {words[word]}, {next((pair for pair in pairwise(counts) if pair[1] != pair[0] + 1), 'in order')}"
        for word, counts in {word: found.get(word, []) for word in found.keys() | wanted.keys()}.items()
        if counts != wanted.get(word)
    }


def int_of_java(value: bytes) -> int:
    return int.from_bytes(value, "big", signed=True)


def create_topics(bootstrap: str) -> None:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in (LINES, COUNTS)]).values():
        made.result(60)
