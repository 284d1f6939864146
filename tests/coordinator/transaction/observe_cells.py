"""Ask an Apache Kafka for every cell of cells.py at each transaction.version: python -m tests.coordinator.transaction.observe_cells

The seeds are written into `__transaction_state`, one transactional id a cell, and Kafka starts anew on them. For seeds in Prepare* it has a
listener where nobody is, so that it cannot send markers to itself.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from minibroker.coordinator.transaction.records import ProducerIdAndEpoch, TransactionMetadata, encode, replay
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k02_list_offsets as k02
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k24_add_partitions_to_txn as k24
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k65_describe_transactions as k65
from tests.coordinator.transaction.cells import SEQUENCES, TIMEOUT_MS, VERSIONS, Ids, Table, seeded, seeds, told, write
from tests.differential.twins import Peer
from tests.support.becoming import wait_until
from tests.support.kafka_process import KafkaProcess

STATE_TOPIC = "__transaction_state"
RETRIED = (14, 15, 16)  #: while the coordinator loads


class Kafka:
    """Requests in the words of cells.py."""

    def __init__(self, bootstrap: str) -> None:
        self.peer = Peer(bootstrap, "__admin_client")  # the only one that Kafka lets write to its own topics

    def create(self, name: str) -> None:
        topic = k19.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        assert self.peer.ask(k19, 5, k19.Request(topics=[topic])).topics[0].error_code == 0
        wait_until(lambda: self._has_leader(name), lambda: f"leader of {name}")

    def create_state_topic(self) -> None:
        def is_there() -> bool:
            return int(self.peer.ask(k10, 4, k10.Request(coordinator_keys=["any"], key_type=1)).coordinators[0].error_code) == 0

        wait_until(is_there, lambda: "coordinator")
        wait_until(lambda: self._has_leader(STATE_TOPIC), lambda: STATE_TOPIC)

    def _has_leader(self, name: str) -> bool:
        partition = k02.Partition(partition_index=0, timestamp=-1)
        answer = self.peer.ask(k02, 5, k02.Request(replica_id=-1, topics=[k02.Topic(name=name, partitions=[partition])]))
        return int(answer.topics[0].partitions[0].error_code) == 0

    def write(self, records: list[Record]) -> None:
        data = bytes(build_batch(records))
        partition = k00.Partition(index=0, records=data)
        topic = k00.Topic(name=STATE_TOPIC, partition_data=[partition])
        answer = self.peer.ask(k00, 9, k00.Request(transactional_id=None, acks=-1, timeout_ms=9_000, topic_data=[topic]))
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

    def written(self) -> dict[str, TransactionMetadata]:
        """The last record of each transactional id."""
        offset = 0
        found: dict[str, TransactionMetadata] = {}
        while True:
            partition = k01.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 24)
            request = k01.Request(
                max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=[k01.Topic(topic=STATE_TOPIC, partitions=[partition])]
            )
            data = self.peer.ask(k01, 11, request).responses[0].partitions[0].records
            batches = list(split_batches(data, allow_partial=True))
            if not batches:
                return found
            found.update(replay((record.key, record.value) for batch in batches for record in decode_records(batch)))
            offset = batches[-1].next_offset

    def described(self, name: str) -> Any:
        return self.peer.ask(k65, 0, k65.Request(transactional_ids=[name])).transaction_states[0]

    def current(self, name: str) -> ProducerIdAndEpoch:
        found = self.described(name)
        return ProducerIdAndEpoch(found.producer_id, found.producer_epoch)

    def settle(self, name: str) -> None:
        wait_until(lambda: not self.described(name).transaction_state.startswith("Prepare"), lambda: f"markers of {name}")

    def ask(self, name: str, ids: Ids, words: str) -> str:
        """The outcome of a request."""
        kind, *rest = words.split()
        while True:
            match kind, rest:
                case "init", [who]:
                    response = ids.of(who, lambda: self.current(name))
                    answer = self.peer.ask(k22, 5, _init(name, response))
                    outcome = answer.error_code, (answer.producer_id, answer.producer_epoch)
                case "add", [version, who, topic]:
                    outcome = self._add(int(version), name, ids.of(who, lambda: self.current(name)), topic, is_asked=False), (-1, -1)
                case "verify", [who, topic]:
                    outcome = self._add(5, name, ids.of(who, lambda: self.current(name)), topic, is_asked=True), (-1, -1)
                case "end", [version, result, who]:
                    response = ids.of(who, lambda: self.current(name))
                    request = k26.Request(
                        transactional_id=name,
                        producer_id=response.producer_id,
                        producer_epoch=response.producer_epoch,
                        committed=result == "commit",
                    )
                    answer = self.peer.ask(k26, int(version), request)
                    outcome = answer.error_code, (answer.producer_id, answer.producer_epoch)
                case _:
                    raise ValueError(words)
            if outcome[0] not in RETRIED:
                return ids.answered(*outcome)
            time.sleep(0.05)

    def _add(self, version: int, name: str, said: ProducerIdAndEpoch, topic: str, *, is_asked: bool) -> int:
        topics = [k24.Topic(name=topic, partitions=[0])]
        if version < 4:
            request = k24.Request(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=said.producer_id,
                v3_and_below_producer_epoch=said.producer_epoch,
                v3_and_below_topics=topics,
            )
            answer = self.peer.ask(k24, version, request)
            return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
        transaction = k24.Transaction(
            transactional_id=name,
            producer_id=said.producer_id,
            producer_epoch=said.producer_epoch,
            verify_only=is_asked,
            topics=topics,
        )
        answer = self.peer.ask(k24, version, k24.Request(transactions=[transaction]))
        if answer.error_code:
            return int(answer.error_code)
        return int(answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code)


def _init(name: str, said: ProducerIdAndEpoch) -> k22.Request:
    return k22.Request(
        transactional_id=name, transaction_timeout_ms=TIMEOUT_MS, producer_id=said.producer_id, producer_epoch=said.producer_epoch
    )


def observe(transaction_version: int, *, is_held: bool) -> Table:
    """One Kafka's part of the table."""
    cells = [(seed, sequence) for seed in seeds() for sequence in SEQUENCES]
    cells = [each for each in cells if each[0].may_be_at(transaction_version) and each[0].state.is_prepared is is_held]
    everyone = [(str(number), Ids(number, seed), sequence) for number, (seed, sequence) in enumerate(cells)]
    settings = {"transaction.state.log.num.partitions": "1", "log.retention.ms": "-1"}
    if is_held:
        settings["advertised.listeners"] = "PLAINTEXT://127.0.0.1:1"
    features = {"transaction.version": transaction_version}
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), settings=settings, features=features) as process:
        kafka = Kafka(process.bootstrap)
        kafka.create_state_topic()
        kafka.create("open")
        kafka.create("second")
        now_ms = int(time.time() * 1000)
        records = [
            Record(0, now_ms, *encode(seeded(name, ids, now_ms), transaction_version=transaction_version), ()) for name, ids, _ in everyone
        ]
        for start in range(0, len(records), 500):
            kafka.write(records[start : start + 500])
        process.stop()
        process.start()
        kafka.peer.close()
        found: Table = {}
        for name, ids, sequence in everyone:
            outcomes = found[transaction_version, str(ids.seed), sequence] = []
            for words in sequence.split("; "):
                outcomes.append(kafka.ask(name, ids, words))
                if not is_held:
                    kafka.settle(name)
        written = kafka.written()
        for name, ids, sequence in everyone:
            found[transaction_version, str(ids.seed), sequence].append(told(ids, written[name], now_ms))
        return found


if __name__ == "__main__":
    everything: Table = {}
    for each in VERSIONS:
        everything |= observe(each, is_held=False) | observe(each, is_held=True)
    write(everything)
