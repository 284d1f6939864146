"""Transactional producers that a test leads step by step: what is sent is in the log before the next step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Protocol

from minibroker.client.client import Client
from minibroker.client.errors import check
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import (
    k00_produce,
    k10_find_coordinator,
    k22_init_producer_id,
    k26_end_txn,
    k28_txn_offset_commit,
    k65_describe_transactions,
)

TIMEOUT_S = 60.0


def transaction_state(bootstrap: str, transactional_id: str) -> str:
    """Ongoing, CompleteCommit, ... as the coordinator tells it."""
    request = k65_describe_transactions.Request(transactional_ids=[transactional_id])
    with Client(bootstrap) as client:
        return client.retrying(lambda: _described(client, request), client.deadline())


def _described(client: Client, request: k65_describe_transactions.Request) -> str:
    (described,) = client.ask(k65_describe_transactions, request).transaction_states
    check(described.error_code, described.transactional_id)
    return str(described.transaction_state)


def wait_for_markers(bootstrap: str, transactional_id: str) -> None:
    """Brokers may answer EndTxn before the markers are in the logs, and nobody sees what is committed before; Apache Kafka does."""
    deadline = time.monotonic() + TIMEOUT_S
    while not transaction_state(bootstrap, transactional_id).startswith("Complete"):
        assert time.monotonic() < deadline, "no markers"
        time.sleep(0.005)


class Writer(Protocol):
    """What both kinds can do."""

    def begin(self) -> None: ...

    def send(self, topic: str, values: Iterable[bytes], *, partition: int = 0, timestamp: int = 0) -> list[int]: ...

    def send_offsets(self, group: str, offsets: dict[tuple[str, int], int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class TransactionalWriter:
    """librdkafka's producer of one transactional id; a new one of the same id fences it, and aborts what it left open.

    Args:
        bootstrap: the broker; a restart on another directory must be on the same port.
        transactional_id: and the name that the test gives it.
        timeout_ms: after this long without an end, the broker aborts a transaction.
        **settings: more of librdkafka's, with "_" for ".".
    """

    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 600_000, **settings: Any) -> None:
        from tests.support.confluent import Producer

        named = {name.replace("_", "."): value for name, value in settings.items()}
        fixed = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
        self._bootstrap, self._transactional_id = bootstrap, transactional_id
        self._producer = Producer({"bootstrap.servers": bootstrap, **fixed, **named})
        self._producer.init_transactions(TIMEOUT_S)
        self._member: Any = None

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Iterable[bytes], *, partition: int = 0, timestamp: int = 0) -> list[int]:
        """Within the open transaction; the offsets. `timestamp` in ms is the first one's, the others follow it; 0 is now."""
        errors: list[object] = []
        offsets: list[int] = []

        def delivered(error: object, message: Any) -> None:
            if error is None:
                offsets.append(message.offset())
            else:
                errors.append(error)

        for number, value in enumerate(values):
            when = timestamp + number if timestamp else 0
            self._producer.produce(topic, value, partition=partition, timestamp=when, on_delivery=delivered)
        left = self._producer.flush(TIMEOUT_S)
        assert (left, errors) == (0, [])
        return offsets

    def send_offsets(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        """Commit offsets of a group with the transaction; the group has no members, and is always the same."""
        from confluent_kafka import TopicPartition

        from tests.support.confluent import Consumer

        if self._member is None:
            self._member = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self._producer.send_offsets_to_transaction(wanted, self._member.consumer_group_metadata(), TIMEOUT_S)

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)
        wait_for_markers(self._bootstrap, self._transactional_id)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)
        wait_for_markers(self._bootstrap, self._transactional_id)

    def committed(self, topic: str, values: Iterable[bytes], *, partition: int = 0, timestamp: int = 0) -> list[int]:
        """A whole transaction."""
        self.begin()
        offsets = self.send(topic, values, partition=partition, timestamp=timestamp)
        self.commit()
        return offsets

    def aborted(self, topic: str, values: Iterable[bytes], *, partition: int = 0, timestamp: int = 0) -> list[int]:
        """A whole transaction that is given up."""
        self.begin()
        offsets = self.send(topic, values, partition=partition, timestamp=timestamp)
        self.abort()
        return offsets


class Version2Writer:
    """The same as a client of transaction.version 2 (KIP-890): Produce adds partitions, and each end raises the epoch.

    Every step is a connection of its own, so a transaction goes on wherever the directory goes. Batches are of one record a value.
    """

    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 600_000) -> None:
        self._bootstrap, self._transactional_id = bootstrap, transactional_id
        self._sequences: dict[tuple[str, int], int] = {}
        find = k10_find_coordinator.Request(key_type=k10_find_coordinator.TRANSACTION, coordinator_keys=[transactional_id])
        self._ask(k10_find_coordinator, find, lambda answer: [each.error_code for each in answer.coordinators])
        request = k22_init_producer_id.Request(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = self._ask(k22_init_producer_id, request, lambda answer: [answer.error_code])
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    def begin(self) -> None:
        """Nothing on the wire."""

    def send(self, topic: str, values: Iterable[bytes], *, partition: int = 0, timestamp: int = 0) -> list[int]:
        now = timestamp or int(time.time() * 1000)
        rows = [Record(0, now + number, None, value) for number, value in enumerate(values)]
        sequence = self._sequences.get((topic, partition), 0)
        ids = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch, "base_sequence": sequence}
        data = bytes(build_batch(rows, is_transactional=True, **ids))
        with Client(self._bootstrap) as client:
            topic_id = client.topic(topic).topic_id
        place = k00_produce.Topic(name=topic, topic_id=topic_id, partition_data=[k00_produce.Partition(index=partition, records=data)])
        request = k00_produce.Request(transactional_id=self._transactional_id, acks=-1, timeout_ms=60_000, topic_data=[place])
        answer = self._ask(k00_produce, request, lambda answer: [answer.responses[0].partition_responses[0].error_code])
        self._sequences[topic, partition] = sequence + len(rows)
        base_offset = answer.responses[0].partition_responses[0].base_offset
        return list(range(base_offset, base_offset + len(rows)))

    def send_offsets(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        find = k10_find_coordinator.Request(coordinator_keys=[group])
        self._ask(k10_find_coordinator, find, lambda answer: [each.error_code for each in answer.coordinators])
        topics = [
            k28_txn_offset_commit.Topic(name=topic, partitions=[k28_txn_offset_commit.Partition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )])
            for (topic, partition), offset in offsets.items()
        ]  # fmt: skip
        ids = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        request = k28_txn_offset_commit.Request(transactional_id=self._transactional_id, group_id=group, topics=topics, **ids)
        self._ask(k28_txn_offset_commit, request, lambda answer: [each.partitions[0].error_code for each in answer.topics])

    def commit(self) -> None:
        self._end(committed=True)

    def abort(self) -> None:
        self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        ids = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        request = k26_end_txn.Request(transactional_id=self._transactional_id, committed=committed, **ids)
        answer = self._ask(k26_end_txn, request, lambda answer: [answer.error_code])
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        wait_for_markers(self._bootstrap, self._transactional_id)

    def _ask(self, schema: ModuleType, request: Any, error_codes: Callable[[Any], list[int]]) -> Any:
        """The answer; retriable errors are tried again, a broker that has just started has several."""

        def attempt() -> Any:
            answer = client.ask(schema, request)
            for error_code in error_codes(answer):
                check(error_code, schema.__name__)
            return answer

        with Client(self._bootstrap) as client:
            return client.retrying(attempt, client.deadline())
