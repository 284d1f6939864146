"""Capture the answers of three Apache Kafkas while a follower is stopped and the high watermark waits for it.

Starts three nodes of Apache Kafka, stops the second one with SIGSTOP, asks the first, and writes
tests/golden/held_high_watermark_kafka_4.3.1.json. `ask` asks any three brokers the same;
tests/testing/lab/test_held_like_kafka.py asks minibroker's.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from minibroker.client.connection import Connection, connect
from minibroker.client.transport import Deadline, parse_bootstrap
from minibroker.clock import ManualClock
from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k10_find_coordinator,
    k19_create_topics,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k24_add_partitions_to_txn,
    k26_end_txn,
    k27_write_txn_markers,
    k43_elect_leaders,
    k45_alter_partition_reassignments,
)
from tests.support.becoming import becomes
from tests.support.broker_in_memory import records
from tests.support.kafka_cluster import KafkaCluster

ANSWERS = Path(__file__).parents[1] / "held_high_watermark_kafka_4.3.1.json"
TOPIC = "orders"
REPLICAS = [1, 2, 3]  #: of each partition
PARTITIONS = MAIN, MOVED, TRANSACTIONAL = range(3)
PATIENT_MS = 60_000
IMPATIENT_MS = 300
LATER_MS = 1500  #: when a leader has moved
SETTINGS = {"request.timeout.ms": str(IMPATIENT_MS), "transaction.state.log.num.partitions": "1"}  #: of the brokers
NOW_MS = ManualClock().now_ms()  #: of the records

_SLOW = {  # a node that is stopped stays in the in-sync sets
    "replica.lag.time.max.ms": "300000",
    "broker.session.timeout.ms": "300000",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Asking:
    """Requests to the leader of TOPIC; each answer is a row, which starts with the request."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._connections: list[Connection] = []
        self._connection = self._connect(addresses[0])
        self.rows: list[list[Any]] = []

    def _connect(self, address: str) -> Connection:
        connection = connect(parse_bootstrap(address)[0], Deadline(PATIENT_MS))
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _ask(self, schema: Any, request: Any, most: int, connection: Connection | None = None) -> Any:
        return (connection or self._connection).ask(schema, request, Deadline(2 * PATIENT_MS), most=most)

    def produce(self, acks: int, timeout_ms: int, partition: int = MAIN, connection: Connection | None = None, **options: Any) -> None:
        data = [k00_produce.Partition(index=partition, records=records(2, **options))]
        transactional_id = TRANSACTIONAL_ID if options else None
        topic = k00_produce.Topic(name=TOPIC, partition_data=data)
        request = k00_produce.Request(acks=acks, timeout_ms=timeout_ms, topic_data=[topic], transactional_id=transactional_id)
        began_s = time.monotonic()
        answer = self._ask(k00_produce, request, 11, connection)
        waited = time.monotonic() - began_s >= timeout_ms / 1000
        ((found,),) = [each.partition_responses for each in answer.responses]
        row = [found.error_code, found.base_offset, found.log_append_time_ms, found.log_start_offset, found.error_message, waited]
        self.rows.append(["produce", acks, *row])

    def offset_at(self, timestamp: int, isolation: int = 0, most: int = 8) -> None:
        partition = k02_list_offsets.Partition(partition_index=MAIN, timestamp=timestamp)
        topic = k02_list_offsets.Topic(name=TOPIC, partitions=[partition])
        answer = self._ask(k02_list_offsets, k02_list_offsets.Request(replica_id=-1, isolation_level=isolation, topics=[topic]), most)
        ((found,),) = [each.partitions for each in answer.topics]
        self.rows.append(["offset_at", timestamp, isolation, found.error_code, found.offset, found.leader_epoch])

    def fetch(self, offset: int, isolation: int, partition: int = MAIN) -> None:
        requested_partition = k01_fetch.Partition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = k01_fetch.Topic(topic=TOPIC, partitions=[requested_partition])
        answer = self._ask(k01_fetch, k01_fetch.Request(max_wait_ms=10, min_bytes=1, isolation_level=isolation, topics=[topic]), 12)
        ((found,),) = [each.partitions for each in answer.responses]
        row = [found.error_code, found.high_watermark, found.last_stable_offset, len(found.records or b"")]
        self.rows.append(["fetch", offset, isolation, *row])

    def delete_below(
        self, offset: int, partition: int = MAIN, timeout_ms: int = IMPATIENT_MS, connection: Connection | None = None
    ) -> None:
        requested_partition = k21_delete_records.Partition(partition_index=partition, offset=offset)
        topic = k21_delete_records.Topic(name=TOPIC, partitions=[requested_partition])
        began_s = time.monotonic()
        answer = self._ask(k21_delete_records, k21_delete_records.Request(topics=[topic], timeout_ms=timeout_ms), 2, connection)
        waited = time.monotonic() - began_s >= timeout_ms / 1000
        ((found,),) = [each.partitions for each in answer.topics]
        self.rows.append(["delete_below", offset, found.error_code, found.low_watermark, waited])

    def end_of_epoch(self, epoch: int) -> None:
        partition = k23_offset_for_leader_epoch.Partition(partition=MAIN, leader_epoch=epoch)
        topic = k23_offset_for_leader_epoch.Topic(topic=TOPIC, partitions=[partition])
        answer = self._ask(k23_offset_for_leader_epoch, k23_offset_for_leader_epoch.Request(replica_id=-1, topics=[topic]), 4)
        ((found,),) = [each.partitions for each in answer.topics]
        self.rows.append(["end_of_epoch", epoch, found.error_code, found.end_offset])

    def write_marker(self, producer_id: int) -> None:
        """A WriteTxnMarkers of an operator, for an unknown producer."""
        topic = k27_write_txn_markers.Topic(name=TOPIC, partition_indexes=[MAIN])
        marker = k27_write_txn_markers.Marker(
            producer_id=producer_id, producer_epoch=0, transaction_result=False, topics=[topic], coordinator_epoch=0
        )
        began_s = time.monotonic()
        answer = self._ask(k27_write_txn_markers, k27_write_txn_markers.Request(markers=[marker]), 1)
        waited = time.monotonic() - began_s >= IMPATIENT_MS / 1000
        self.rows.append(["write_marker", answer.markers[0].topics[0].partitions[0].error_code, waited])

    # Administrators

    def reassign(self, partition: int, replicas: list[int]) -> None:
        requested_partition = k45_alter_partition_reassignments.Partition(partition_index=partition, replicas=replicas)
        topic = k45_alter_partition_reassignments.Topic(name=TOPIC, partitions=[requested_partition])
        answer = self._ask(
            k45_alter_partition_reassignments, k45_alter_partition_reassignments.Request(timeout_ms=PATIENT_MS, topics=[topic]), 1
        )
        assert answer.responses[0].partitions[0].error_code == 0, answer

    def move(self, partition: int, replicas: list[int]) -> None:
        """The first of these leads."""
        self.reassign(partition, replicas)
        request = k43_elect_leaders.Request(
            election_type=0, topic_partitions=[k43_elect_leaders.Topic(topic=TOPIC, partitions=[partition])], timeout_ms=PATIENT_MS
        )
        answer = self._ask(k43_elect_leaders, request, 2)
        assert answer.error_code == 0, answer

    def until_led_in_epoch(self, epoch: int) -> None:
        """Wait until the leader itself knows of its new epoch."""
        partition = k23_offset_for_leader_epoch.Partition(partition=MAIN, current_leader_epoch=epoch, leader_epoch=epoch)
        topic = k23_offset_for_leader_epoch.Topic(topic=TOPIC, partitions=[partition])
        request = k23_offset_for_leader_epoch.Request(replica_id=-1, topics=[topic])
        assert becomes(lambda: not self._ask(k23_offset_for_leader_epoch, request, 4).topics[0].partitions[0].error_code)

    def beside_a_move(self) -> None:
        """What waits at the leader of MOVED when another one leads."""
        first = len(self.rows)
        deleting = threading.Thread(
            target=self.delete_below, args=(1, MOVED, LATER_MS), kwargs={"connection": self._connect(self._addresses[0])}
        )
        producing = threading.Thread(
            target=self.produce, args=(-1, PATIENT_MS, MOVED), kwargs={"connection": self._connect(self._addresses[0])}
        )
        deleting.start()
        assert becomes(lambda: self._ends_of(MOVED) == (1, 2))
        producing.start()
        assert becomes(lambda: self._ends_of(MOVED) == (1, 4))
        self.move(MOVED, [3, 1, 2])
        deleting.join()
        producing.join()
        self.rows[first:] = sorted(self.rows[first:], key=str)

    def _ends_of(self, partition: int) -> tuple[int, int]:
        """Log start and log end, as the leader has them."""
        earliest = k02_list_offsets.Partition(partition_index=partition, timestamp=-2)
        request = k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name=TOPIC, partitions=[earliest])])
        latest = k23_offset_for_leader_epoch.Partition(partition=partition, leader_epoch=0)
        topic = k23_offset_for_leader_epoch.Topic(topic=TOPIC, partitions=[latest])
        end = self._ask(k23_offset_for_leader_epoch, k23_offset_for_leader_epoch.Request(replica_id=-1, topics=[topic]), 4)
        return self._ask(k02_list_offsets, request, 8).topics[0].partitions[0].offset, end.topics[0].partitions[0].end_offset


TRANSACTIONAL_ID = "till"


class Transaction:
    """Of one producer, at its coordinator, as a client without transaction version 2 has it."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        request = k10_find_coordinator.Request(key_type=k10_find_coordinator.TRANSACTION, coordinator_keys=[TRANSACTIONAL_ID])
        found: list[Any] = []

        def is_found() -> bool:
            found[:] = asking._ask(k10_find_coordinator, request, 4).coordinators
            return not found[0].error_code

        assert becomes(is_found)
        self._coordinator = asking._connect(f"{found[0].host}:{found[0].port}")
        ids: list[Any] = []

        def is_ready() -> bool:
            ids[:] = [self._init()]
            return not ids[0].error_code

        assert becomes(is_ready)
        self.ids = {"producer_id": ids[0].producer_id, "producer_epoch": ids[0].producer_epoch}

    def _init(self) -> Any:
        request = k22_init_producer_id.Request(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=10 * PATIENT_MS)
        return self._asking._ask(k22_init_producer_id, request, 4, self._coordinator)

    def _add(self) -> int:
        topic = k24_add_partitions_to_txn.Topic(name=TOPIC, partitions=[TRANSACTIONAL])
        request = k24_add_partitions_to_txn.Request(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=self.ids["producer_id"],
            v3_and_below_producer_epoch=self.ids["producer_epoch"],
            v3_and_below_topics=[topic],
        )
        answer = self._asking._ask(k24_add_partitions_to_txn, request, 3, self._coordinator)
        code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        return code

    def begin(self) -> None:
        """With two records."""
        assert becomes(lambda: not self._add())
        self._asking.produce(-1, PATIENT_MS, TRANSACTIONAL, **self.ids, base_sequence=0, is_transactional=True)

    def add(self) -> None:
        """The partition to the next one."""
        self._asking.rows.append(["add_partition", self._add()])

    def commit(self) -> None:
        request = k26_end_txn.Request(transactional_id=TRANSACTIONAL_ID, committed=True, **self.ids)
        self._asking.rows.append(["commit", self._asking._ask(k26_end_txn, request, 4, self._coordinator).error_code])

    def init_anew(self) -> None:
        self._asking.rows.append(["init_producer_id", self._init().error_code])


def ask(addresses: Sequence[str], hold: Callable[[], object], release: Callable[[], object]) -> list[list[Any]]:
    """What a broker answers about TOPIC, which is there and empty, before, while and after its high watermarks are held."""
    asking = Asking(addresses)
    asking.produce(-1, PATIENT_MS)
    asking.produce(-1, PATIENT_MS, MOVED)
    transaction = Transaction(asking)
    transaction.begin()
    hold()
    _write_and_read(asking)
    _ask_in_the_next_epoch(asking)
    for offset, timeout_ms in ((1, IMPATIENT_MS), (-1, IMPATIENT_MS), (0, PATIENT_MS)):
        asking.delete_below(offset, timeout_ms=timeout_ms)
        asking.offset_at(-2)
    asking.write_marker(77)
    asking.fetch(2, 1)
    asking.beside_a_move()
    transaction.commit()
    transaction.add()
    transaction.init_anew()
    asking.fetch(0, 1, TRANSACTIONAL)
    release()
    asking.produce(-1, PATIENT_MS)
    asking.offset_at(-1)
    asking.delete_below(4, timeout_ms=PATIENT_MS)
    asking.close()
    return asking.rows


def _write_and_read(asking: Asking) -> None:
    asking.produce(1, PATIENT_MS)
    asking.produce(-1, IMPATIENT_MS)
    for isolation in (0, 1):
        asking.offset_at(-1, isolation)
        for offset in (0, 2, 4, 6, 7):
            asking.fetch(offset, isolation)
    _ask_by_time(asking)
    asking.delete_below(3, timeout_ms=PATIENT_MS)
    asking.end_of_epoch(0)


def _ask_by_time(asking: Asking) -> None:
    for timestamp in (-2, -3, NOW_MS, NOW_MS + 1, NOW_MS + 2):
        asking.offset_at(timestamp)


def _ask_in_the_next_epoch(asking: Asking) -> None:
    """A leader that was elected anew may not know yet what was shown before (KIP-207)."""
    asking.reassign(MAIN, [1, 2])  # for want of a replica the leader has another epoch
    asking.until_led_in_epoch(1)
    for isolation in (0, 1):
        for most in (8, 4):
            asking.offset_at(-1, isolation, most)
        asking.fetch(0, isolation)
        asking.fetch(6, isolation)
    _ask_by_time(asking)
    asking.end_of_epoch(0)
    asking.end_of_epoch(1)


def _create(kafka: KafkaCluster) -> None:
    """Also the topic of the coordinator: at a node that goes on."""
    create(kafka.addresses[0], "__transaction_state", [[1]])
    create(kafka.addresses[0])


def create(address: str, name: str = TOPIC, replicas: Sequence[list[int]] = (REPLICAS,) * len(PARTITIONS)) -> None:
    """A topic; its records are old, and stay."""
    assignments = [k19_create_topics.Assignment(partition_index=index, broker_ids=each) for index, each in enumerate(replicas)]
    configs = [k19_create_topics.Config(name="retention.ms", value="-1")] if name == TOPIC else []
    topics = [k19_create_topics.Topic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=configs)]
    connection = connect(parse_bootstrap(address)[0], Deadline(PATIENT_MS))
    made = connection.ask(k19_create_topics, k19_create_topics.Request(topics=topics, timeout_ms=PATIENT_MS), Deadline(PATIENT_MS))
    assert not any(each.error_code for each in made.topics), made
    connection.close()


def capture() -> None:
    """Take the answers anew."""
    with KafkaCluster(_SLOW | SETTINGS, voters=[1]) as kafka:
        _create(kafka)
        time.sleep(5)  # until all three know of their partitions
        rows = ask(kafka.addresses, lambda: kafka.freeze(2), lambda: kafka.thaw(2))
    text = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    ANSWERS.write_text(f'{{\n  "taken": "python -m tests.golden capture held",\n  "answers": [\n{text}\n  ]\n}}\n')
