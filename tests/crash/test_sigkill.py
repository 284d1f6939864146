"""SIGKILL at random moments under load: what was acknowledged is there, once, in its place; offsets have no gap.

Writers are idempotent and go on through every restart, as an application's would. The seed is printed; set CRASH_SEED to
repeat the moments (not the interleaving) of a run.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS
from tests.support.broker_process import BrokerProcess
from tests.support.dump_log import check_directory, check_metadata_log
from tests.support.java import require_java
from tests.support.soak import seed, times

KILLS = times(8, soak=24)
PARTITIONS = 3
TOPIC = "under-fire"
CODECS = ("none", "lz4", "zstd")


class Writer:
    """A librdkafka idempotent producer on a thread; keeps what was acknowledged: (partition, offset) -> value."""

    def __init__(self, bootstrap: str, name: str, codec: str) -> None:
        from tests.support.confluent import Producer

        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.refused: list[str] = []
        self._name = name
        self._stopping = threading.Event()
        self._heard = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 5,
                "retry.backoff.max.ms": 50,
                "message.timeout.ms": 120_000,
                "queue.buffering.max.messages": 2_000,
            }
        )
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.refused.append(str(error))
        else:
            self.acknowledged[message.partition(), message.offset()] = message.value()
            self._heard.set()

    def _write(self) -> None:
        number = 0
        while not self._stopping.is_set():
            try:
                self._producer.produce(
                    TOPIC, b"%s %d" % (self._name.encode(), number), partition=number % PARTITIONS, on_delivery=self._delivered
                )
                number += 1
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)
            if number % 20 == 0:
                self._stopping.wait(0.005)  # some thousand records a second are load enough

    def wait_until_heard(self) -> None:
        """Return after the next acknowledgement."""
        self._heard.clear()
        assert self._heard.wait(120), f"{self._name} gets no answers"

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0, "records without an answer"


def kill_and_restart(broker: BrokerProcess, moments: random.Random) -> None:
    time.sleep(moments.uniform(0.0, 0.3))  # the random moment itself, not a wait for something
    broker.kill()
    if moments.random() < 0.3:  # once more while it recovers
        broker.start_and_kill(after_s=moments.uniform(0.0, 0.25))
    broker.restart()


@pytest.mark.timeout(600)
def test_acknowledged_records_survive_in_their_place(tmp_path: Path) -> None:
    moments = random.Random(seed())
    small = ("--set", "log.segment.bytes=65536", "--set", f"num.partitions={PARTITIONS}", "--set", "log.index.interval.bytes=512")
    with BrokerProcess(tmp_path, *small) as broker:
        writers = [Writer(broker.bootstrap, f"writer-{codec}", codec) for codec in CODECS]
        for _ in range(KILLS):
            for writer in writers:  # or the backoff of a client keeps it out of most rounds
                writer.wait_until_heard()
            kill_and_restart(broker, moments)
        for writer in writers:
            writer.finish()
        assert [writer.refused for writer in writers] == [[], [], []]
        acknowledged = {place: value for writer in writers for place, value in writer.acknowledged.items()}
        assert len(acknowledged) == sum(len(writer.acknowledged) for writer in writers) > KILLS

        stored = {
            (partition, offset): value
            for partition in range(PARTITIONS)
            for offset, value in enumerate(read_everything(broker.bootstrap, partition))
        }
        assert acknowledged.items() <= stored.items()
        assert len(set(stored.values())) == len(stored), "a record is there twice"
        for name in (f"writer-{codec}".encode() for codec in CODECS):
            for partition in range(PARTITIONS):
                numbers = [int(v.split()[1]) for (p, _), v in sorted(stored.items()) if p == partition and v.startswith(name + b" ")]
                assert numbers == sorted(numbers), "records of one writer changed places"
        assert broker.stop() == 0, broker.output

    print([len(writer.acknowledged) for writer in writers], "acknowledged,", len(stored), "stored")
    require_java()  # the rest asks Kafka's own tool
    batches = check_directory(broker.data_dir)
    for partition in range(PARTITIONS):
        last = int(batches[f"{TOPIC}-{partition}"][-1]["lastOffset"])
        assert last + 1 == sum(1 for place in stored if place[0] == partition)
    check_metadata_log(broker.data_dir)


def read_everything(bootstrap: str, partition: int) -> list[bytes]:
    """Values from offset 0 to the end; fails on a gap."""
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used"})
    start, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=60)
    consumer.close()
    assert start == 0
    found = CLIENTS["confluent-kafka"].read(bootstrap, TOPIC, partition=partition, count=end)
    assert [read.offset for read in found] == list(range(end))
    return [read.record.value or b"" for read in found]
