"""What clients are told while followers do not come along: the truth for high watermarks that a test holds back.

python -m tests.golden.capture_held      starts two nodes of Apache Kafka, stops the second one with SIGSTOP, asks the first, and writes
                                         tests/golden/held_high_watermark_kafka_4.3.1.json

`ask` asks any broker the same; tests/testing/lab/test_held_like_kafka.py asks ours.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minibroker.client.address import parse_bootstrap
from minibroker.client.client import Client
from minibroker.client.connection import Connection, connect
from minibroker.client.deadline import Deadline
from minibroker.clock import ManualClock
from minibroker.schemas import k00_produce, k01_fetch, k02_list_offsets, k19_create_topics, k21_delete_records, k23_offset_for_leader_epoch
from tests.support.broker_in_memory import records
from tests.support.java import SHORT_LIVED, class_data, kafka_jars
from tests.support.kafka_process import CLUSTER_ID, READY, KafkaProcess
from tests.support.ports import free_port

ANSWERS = Path(__file__).parent / "held_high_watermark_kafka_4.3.1.json"
TOPIC = "orders"
PATIENT_MS = 5000
IMPATIENT_MS = 1000
NOW_MS = ManualClock().now_ms()  #: of the records

_SLOW = {"replica.lag.time.max.ms": "120000", "broker.session.timeout.ms": "120000"}  # a node that is stopped stays in the in-sync set
_SECOND = """process.roles=broker
node.id=2
{quorum}
listeners=PLAINTEXT://127.0.0.1:{port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
"""


class Asking:
    """Requests to the leader of orders-0; each answer is a row, what was asked first."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.rows: list[list[Any]] = []

    def _ask(self, schema: Any, request: Any, most: int) -> Any:
        return self._connection.ask(schema, request, Deadline(30_000), most=most)

    def produce(self, acks: int, timeout_ms: int) -> None:
        topic = k00_produce.Topic(name=TOPIC, partition_data=[k00_produce.Partition(index=0, records=records(2))])
        began_s = time.monotonic()
        answer = self._ask(k00_produce, k00_produce.Request(acks=acks, timeout_ms=timeout_ms, topic_data=[topic]), 11)
        waited = time.monotonic() - began_s >= timeout_ms / 1000
        ((found,),) = [each.partition_responses for each in answer.responses]
        row = [found.error_code, found.base_offset, found.log_append_time_ms, found.log_start_offset, found.error_message, waited]
        self.rows.append(["produce", acks, *row])

    def offset_at(self, timestamp: int, isolation: int = 0) -> None:
        asked = k02_list_offsets.Partition(partition_index=0, timestamp=timestamp)
        topic = k02_list_offsets.Topic(name=TOPIC, partitions=[asked])
        answer = self._ask(k02_list_offsets, k02_list_offsets.Request(replica_id=-1, isolation_level=isolation, topics=[topic]), 8)
        ((found,),) = [each.partitions for each in answer.topics]
        self.rows.append(["offset_at", timestamp, isolation, found.error_code, found.offset, found.leader_epoch])

    def fetch(self, offset: int, isolation: int) -> None:
        asked = k01_fetch.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = k01_fetch.Topic(topic=TOPIC, partitions=[asked])
        answer = self._ask(k01_fetch, k01_fetch.Request(max_wait_ms=100, min_bytes=1, isolation_level=isolation, topics=[topic]), 12)
        ((found,),) = [each.partitions for each in answer.responses]
        row = [found.error_code, found.high_watermark, found.last_stable_offset, len(found.records or b"")]
        self.rows.append(["fetch", offset, isolation, *row])

    def delete_below(self, offset: int) -> None:
        asked = k21_delete_records.Partition(partition_index=0, offset=offset)
        topic = k21_delete_records.Topic(name=TOPIC, partitions=[asked])
        answer = self._ask(k21_delete_records, k21_delete_records.Request(topics=[topic], timeout_ms=IMPATIENT_MS), 2)
        ((found,),) = [each.partitions for each in answer.topics]
        self.rows.append(["delete_below", offset, found.error_code, found.low_watermark])

    def end_of_epoch(self, epoch: int) -> None:
        asked = k23_offset_for_leader_epoch.Partition(partition=0, leader_epoch=epoch)
        topic = k23_offset_for_leader_epoch.Topic(topic=TOPIC, partitions=[asked])
        answer = self._ask(k23_offset_for_leader_epoch, k23_offset_for_leader_epoch.Request(replica_id=-1, topics=[topic]), 4)
        ((found,),) = [each.partitions for each in answer.topics]
        self.rows.append(["end_of_epoch", epoch, found.error_code, found.end_offset])


def ask(bootstrap: str, hold: Callable[[], object], release: Callable[[], object]) -> list[list[Any]]:
    """What a broker answers about orders-0, which is there and empty, before, while and after its high watermark is held."""
    connection = connect(parse_bootstrap(bootstrap)[0], Deadline(30_000))
    asking = Asking(connection)
    asking.produce(-1, PATIENT_MS)
    hold()
    asking.produce(1, PATIENT_MS)
    asking.produce(-1, IMPATIENT_MS)
    for isolation in (0, 1):
        asking.offset_at(-1, isolation)
        for offset in (0, 2, 4, 6, 7):
            asking.fetch(offset, isolation)
    for timestamp in (-2, -3, NOW_MS, NOW_MS + 1, NOW_MS + 2):
        asking.offset_at(timestamp)
    asking.delete_below(3)
    asking.end_of_epoch(0)
    release()
    asking.produce(-1, PATIENT_MS)
    asking.offset_at(-1)
    connection.close()
    return asking.rows


def _second_node(folder: Path, quorum: str) -> subprocess.Popen[bytes]:
    properties = folder / "second.properties"
    text = _SECOND.format(quorum=quorum, port=free_port(), folder=folder / "second")
    properties.write_text(text + "".join(f"{name}={value}\n" for name, value in _SLOW.items() if name.startswith("replica")))
    java = ["java", "-Xmx256m", *SHORT_LIVED, *class_data(kafka_jars()), "-cp", f"{kafka_jars()}/*"]
    tool = ["kafka.tools.StorageTool", "format", "--no-initial-controllers", "-t", CLUSTER_ID, "-c", str(properties)]
    subprocess.run([*java, *tool], check=True, capture_output=True)
    said = folder / "second.txt"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
    end_s = time.monotonic() + 120
    while READY not in said.read_text(errors="replace"):
        assert process.poll() is None, said.read_text(errors="replace")[-2000:]
        assert time.monotonic() < end_s, "the second node is not ready"
        time.sleep(0.1)
    return process


def _create(bootstrap: str) -> None:
    topic = k19_create_topics.Topic(
        name=TOPIC,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[k19_create_topics.Assignment(partition_index=0, broker_ids=[1, 2])],
        configs=[],
    )
    with Client(bootstrap) as client:
        made = client.to_controller(client.deadline()).ask(
            k19_create_topics, k19_create_topics.Request(topics=[topic], timeout_ms=10_000), client.deadline()
        )
        assert made.topics[0].error_code == 0, made


def main() -> None:
    """Take the answers anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with KafkaProcess(folder, settings=_SLOW) as first:
            lines = (folder / "server.properties").read_text().splitlines()
            second = _second_node(folder, next(line for line in lines if line.startswith("controller.quorum")))
            try:
                _create(first.bootstrap)
                rows = ask(first.bootstrap, lambda: os.kill(second.pid, signal.SIGSTOP), lambda: os.kill(second.pid, signal.SIGCONT))
            finally:
                second.kill()
                second.wait()
    text = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    ANSWERS.write_text(f'{{\n  "taken": "python -m tests.golden.capture_held",\n  "answers": [\n{text}\n  ]\n}}\n')


if __name__ == "__main__":
    main()
