"""Describe transactions at their coordinators and partitions, and abort those that hang (KIP-664).

A transaction hangs if it is open in a partition but not at its coordinator. It never ends, and consumers with read_committed
cannot read past its first record.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import UnsupportedByBroker, check, refusal
from minibroker.client.routing import TopicPartition, ask_coordinators, ask_leaders
from minibroker.client.transport import Deadline
from minibroker.errors import InvalidTxnState, KafkaError, TransactionalIdNotFound, UnknownTopicOrPartition
from minibroker.schemas import (
    k22_init_producer_id,
    k27_write_txn_markers,
    k61_describe_producers,
    k65_describe_transactions,
    k66_list_transactions,
)
from minibroker.schemas.k10_find_coordinator import TRANSACTION

DURATION_SINCE = 1
PATTERN_SINCE = 2
PARTITIONS_AT_A_TIME = 500  #: as in Kafka's tool, because a response contains every producer of the last day
ONGOING = "Ongoing"
OPEN_STATES = (ONGOING, "PrepareCommit", "PrepareAbort")


class ListedTransaction(NamedTuple):
    """A transactional id and its coordinator."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    """The state of a transactional id at its coordinator; times in ms."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_timestamp: int  #: since 1970; -1 before the first transaction
    partitions: tuple[TopicPartition, ...]  #: that have records of the open transaction, but not its marker yet


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    topic: str
    partition: int
    producer: k61_describe_producers.ProducerState


def list_transactions(
    client: Client,
    *,
    states: Sequence[str] = (),
    producer_ids: Collection[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """Return the transactional ids of all brokers, by name; KafkaError if one broker fails.

    Args:
        client: the client.
        states: only transactions in one of these states.
        producer_ids: only transactions of these producers.
        duration_ms: only transactions that have been open for at least so long.
        pattern: only transactional ids that match this regular expression.
    """
    deadline = client.deadline()
    client.metadata([], deadline)
    request = k66_list_transactions.Request(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )
    needed = PATTERN_SINCE if pattern else DURATION_SINCE if duration_ms >= 0 else 0
    found = []
    for node_id in sorted(client.brokers):
        answer = client.retrying(lambda node_id=node_id: _list_of(client, node_id, request, needed, deadline), deadline)  # type: ignore[misc]  # mypy does not infer a lambda with a default
        found += [
            ListedTransaction(each.transactional_id, node_id, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
        ]
    return sorted(found)


def _list_of(
    client: Client, node_id: int, request: k66_list_transactions.Request, needed: int, deadline: Deadline
) -> k66_list_transactions.Response:
    connection = client.to_node(node_id, deadline)
    if connection.version_for(k66_list_transactions) < needed:
        raise UnsupportedByBroker(f"{connection.address} serves ListTransactions below version {needed}, and does not support this filter")
    response: k66_list_transactions.Response = connection.ask(k66_list_transactions, request, deadline)
    matching = f" that match {request.transactional_id_pattern!r}" if request.transactional_id_pattern else ""
    check(response.error_code, f"transactions of broker {node_id}{matching}")
    return response


def describe_transactions(client: Client, transactional_ids: Iterable[str]) -> dict[str, DescribedTransaction | KafkaError]:
    """Return the state of each transactional id, or the final error."""
    deadline = client.deadline()

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, DescribedTransaction | KafkaError]:
        request = k65_describe_transactions.Request(transactional_ids=keys)
        response: k65_describe_transactions.Response = connection.ask(k65_describe_transactions, request, deadline)
        node_id = next((node_id for node_id, address in client.brokers.items() if address == connection.address), -1)
        return {
            each.transactional_id: refusal(each.error_code, f"transactional id {each.transactional_id}") or _described(each, node_id)
            for each in response.transaction_states
        }

    return ask_coordinators(client, TRANSACTION, transactional_ids, ask, deadline)


def _described(state: k65_describe_transactions.TransactionState, node_id: int) -> DescribedTransaction:
    return DescribedTransaction(
        transactional_id=state.transactional_id,
        coordinator=node_id,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        state=state.transaction_state,
        timeout_ms=state.transaction_timeout_ms,
        start_timestamp=state.transaction_start_time_ms,
        partitions=tuple(sorted((topic.topic, partition) for topic in state.topics for partition in topic.partitions)),
    )


def describe_producers(
    client: Client, partitions: Iterable[TopicPartition], *, node_id: int | None = None
) -> dict[TopicPartition, list[k61_describe_producers.ProducerState] | KafkaError]:
    """Return the producers that each partition's leader remembers, or its replica on broker `node_id`, by producer id."""
    deadline = client.deadline()

    def ask(
        connection: Connection, keys: list[TopicPartition]
    ) -> Mapping[TopicPartition, list[k61_describe_producers.ProducerState] | KafkaError]:
        found: dict[TopicPartition, list[k61_describe_producers.ProducerState] | KafkaError] = {}
        for start in range(0, len(keys), PARTITIONS_AT_A_TIME):
            found |= _producers_of(connection, keys[start : start + PARTITIONS_AT_A_TIME], deadline)
        return found

    if node_id is None:
        return ask_leaders(client, partitions, ask, deadline)
    return dict(client.retrying(lambda: ask(client.to_node(node_id, deadline), list(partitions)), deadline))


def _producers_of(
    connection: Connection, keys: list[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, list[k61_describe_producers.ProducerState] | KafkaError]:
    topics: dict[str, list[int]] = defaultdict(list)
    for name, index in keys:
        topics[name].append(index)
    request = k61_describe_producers.Request(
        topics=[k61_describe_producers.Topic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    )
    response: k61_describe_producers.Response = connection.ask(k61_describe_producers, request, deadline)
    return {
        (topic.name, partition.partition_index): refusal(
            partition.error_code, f"producers of {topic.name}-{partition.partition_index}", partition.error_message
        )
        or sorted(partition.active_producers, key=lambda producer: producer.producer_id)
        for topic in response.topics
        for partition in topic.partitions
    }


def find_hanging(
    client: Client, partitions: Iterable[TopicPartition], *, older_than_ms: int, node_id: int | None = None
) -> tuple[list[OpenTransaction], list[KafkaError]]:
    """Return the hanging transactions of `partitions`, and the errors of partitions that could not be described.

    A hanging transaction has written nothing for `older_than_ms`, and is not open at its coordinator.
    """
    described = describe_producers(client, partitions, node_id=node_id)
    errors = [answer for answer in described.values() if isinstance(answer, KafkaError)]
    before = time.time_ns() // 1_000_000 - older_than_ms
    candidates = [
        OpenTransaction(topic, partition, producer)
        for (topic, partition), producers in sorted(described.items(), key=lambda each: each[0])
        if not isinstance(producers, KafkaError)
        for producer in producers
        if producer.current_txn_start_offset >= 0 and producer.last_timestamp < before
    ]
    owners = _owners(client, {each.producer.producer_id for each in candidates}) if candidates else {}
    return [each for each in candidates if (each.producer.producer_id, (each.topic, each.partition)) not in owners], errors


def owner(client: Client, key: TopicPartition, producer_id: int) -> str | None:
    """Return the transactional id whose coordinator will end a producer's open transaction in a partition; None if it hangs."""
    return _owners(client, {producer_id}).get((producer_id, key))


def _owners(client: Client, producer_ids: Collection[int]) -> dict[tuple[int, TopicPartition], str]:
    """Return transactional ids by the producer id and partition to which their coordinator will write a marker."""
    listed = {each.transactional_id: each.producer_id for each in list_transactions(client, producer_ids=producer_ids)}
    owners: dict[tuple[int, TopicPartition], str] = {}
    for transactional_id, answer in describe_transactions(client, listed).items():
        if isinstance(answer, DescribedTransaction):
            owners |= {(listed[transactional_id], key): transactional_id for key in answer.partitions}
        elif not isinstance(answer, TransactionalIdNotFound):
            raise answer
    return owners


def abort_in_partition(client: Client, key: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
    """Write an ABORT marker into a partition for a producer's transaction, without its coordinator.

    The client sends the request once, because a second marker could end another transaction. A `coordinator_epoch` below 0 means that
    the producer has no marker yet; it is sent as 0.
    """
    topic, index = key
    deadline = client.deadline()
    leaders = {partition.partition_index: partition.leader_id for partition in client.topic(topic, deadline).partitions}
    if index not in leaders:
        raise UnknownTopicOrPartition(f"topic {topic} has no partition {index} (it has {len(leaders)})")
    marker = k27_write_txn_markers.Marker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[k27_write_txn_markers.Topic(name=topic, partition_indexes=[index])],
        coordinator_epoch=max(0, coordinator_epoch),
    )
    connection = client.retrying(lambda: client.to_node(leaders[index], deadline), deadline)
    response: k27_write_txn_markers.Response = connection.ask(
        k27_write_txn_markers, k27_write_txn_markers.Request(markers=[marker]), deadline
    )
    for result in response.markers:
        for answer in result.topics:
            for partition in answer.partitions:
                check(partition.error_code, f"abort of producer {producer_id} in {topic}-{index}")


def abort_open(client: Client, transactional_id: str) -> DescribedTransaction:
    """Abort the open transaction of a transactional id at its coordinator, and fence its producer.

    Returns:
        The transaction that was open.

    Raises:
        InvalidTxnState: no transaction is open, or it is already ending.
    """
    (answer,) = describe_transactions(client, [transactional_id]).values()
    if isinstance(answer, KafkaError):
        raise answer
    if answer.state != ONGOING:
        raise InvalidTxnState(f"transactional id {transactional_id} has no transaction to abort: its state is {answer.state}")
    deadline = client.deadline()
    request = k22_init_producer_id.Request(transactional_id=transactional_id, transaction_timeout_ms=answer.timeout_ms)

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, bool | KafkaError]:
        response: k22_init_producer_id.Response = connection.ask(k22_init_producer_id, request, deadline)
        return {key: refusal(response.error_code, f"abort of {key}") or True for key in keys}

    for result in ask_coordinators(client, TRANSACTION, [transactional_id], ask, deadline).values():
        if isinstance(result, KafkaError):
            raise result
    return answer
