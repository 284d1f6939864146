"""Transactions at coordinators and partitions: several brokers, old brokers, and brokers that are not ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minibroker.client.client import Client
from minibroker.client.errors import BrokerUnreachable, TimedOut, UnsupportedByBroker
from minibroker.client.transactions import (
    DescribedTransaction,
    ListedTransaction,
    abort_in_partition,
    abort_open,
    describe_producers,
    describe_transactions,
    find_hanging,
    list_transactions,
)
from minibroker.errors import InvalidProducerEpoch, InvalidTxnState, KafkaError, TransactionalIdNotFound, UnknownTopicOrPartition
from minibroker.schemas import (
    k10_find_coordinator,
    k22_init_producer_id,
    k27_write_txn_markers,
    k61_describe_producers,
    k65_describe_transactions,
    k66_list_transactions,
)
from minibroker.schemas.k10_find_coordinator import TRANSACTION
from tests.client.fake_broker import ConnectionLost, FakeBroker

NOT_COORDINATOR, LOADING, UNAVAILABLE, CONCURRENT, NO_SUCH_ID = 16, 14, 15, 51, 105


@pytest.fixture
def broker() -> FakeBroker:
    """Two nodes: the first coordinates every id that starts with a, the second all other ids."""
    broker = FakeBroker(topics={"orders": 2})
    broker.nodes = 2
    broker.on(k10_find_coordinator, find_coordinator)
    return broker


def client_of(broker: FakeBroker, timeout_ms: int = 60_000) -> Client:
    return Client("fake:1", timeout_ms=timeout_ms, connect=broker.connect)


def node_of(key: str) -> int:
    return 1 if key.startswith("a") else 2


def find_coordinator(request: k10_find_coordinator.Request, version: int) -> k10_find_coordinator.Response:
    assert request.key_type == TRANSACTION
    if version < 4:
        return k10_find_coordinator.Response(error_message="NONE", node_id=node_of(request.key), host="fake", port=node_of(request.key))
    return k10_find_coordinator.Response(coordinators=[coordinator(key) for key in request.coordinator_keys])


def coordinator(key: str, error_code: int = 0) -> k10_find_coordinator.Coordinator:
    node = -1 if error_code else node_of(key)
    return k10_find_coordinator.Coordinator(key=key, node_id=node, host="fake", port=node, error_code=error_code, error_message="")


def state(name: str, error_code: int = 0, words: str = "Ongoing", topics: dict[str, list[int]] | None = None) -> Any:
    return k65_describe_transactions.TransactionState(
        error_code=error_code,
        transactional_id=name,
        transaction_state=words,
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=1000,
        producer_id=7,
        producer_epoch=3,
        topics=[k65_describe_transactions.Topic(topic=topic, partitions=ids) for topic, ids in (topics or {}).items()],
    )


def described(**answers: Any) -> Callable[[k65_describe_transactions.Request, int], k65_describe_transactions.Response]:
    return lambda request, version: k65_describe_transactions.Response(
        transaction_states=[answers.get(name) or state(name) for name in request.transactional_ids]
    )


@pytest.mark.parametrize("newest", [1, 3, 4, 6])
def test_each_coordinator_describes_its_own_transactions(broker: FakeBroker, newest: int) -> None:
    broker.versions[10] = (1, newest)
    broker.on(k65_describe_transactions, described(a2=state("a2", topics={"orders": [1, 0]}), b1=state("b1", NO_SUCH_ID)))
    found = describe_transactions(client_of(broker), ["b1", "a1", "a2", "a1"])
    assert found["a2"] == DescribedTransaction("a2", 1, 7, 3, "Ongoing", 60_000, 1000, (("orders", 0), ("orders", 1)))
    assert isinstance(found["b1"], TransactionalIdNotFound)
    assert str(found["b1"]).startswith("transactional id b1: ")
    requests = [
        (address.port, request.transactional_ids)
        for (key, address), (_, _, request) in zip(broker.addressees, broker.requests, strict=True)
        if key == 65
    ]
    assert sorted(requests) == [(1, ["a1", "a2"]), (2, ["b1"])]


def test_loading_coordinator_is_retried(broker: FakeBroker) -> None:
    broker.in_turn(
        k10_find_coordinator,
        lambda request, version: k10_find_coordinator.Response(coordinators=[coordinator("a", UNAVAILABLE)]),
        find_coordinator,
    )
    broker.in_turn(k65_describe_transactions, described(a=state("a", NOT_COORDINATOR)), described(a=state("a", LOADING)), described())
    assert isinstance(describe_transactions(client_of(broker), ["a"])["a"], DescribedTransaction)
    assert len(broker.requests_for(k10_find_coordinator)) == 4


def test_missing_coordinator_times_out(broker: FakeBroker) -> None:
    broker.on(k10_find_coordinator, lambda request, version: k10_find_coordinator.Response(coordinators=[coordinator("a", UNAVAILABLE)]))
    with pytest.raises(TimedOut, match="coordinator of transactional id a: "):
        describe_transactions(client_of(broker, 100), ["a"])


def listing(*states: tuple[str, int, str], error_code: int = 0) -> k66_list_transactions.Response:
    rows = [
        k66_list_transactions.TransactionState(transactional_id=name, producer_id=producer_id, transaction_state=words)
        for name, producer_id, words in states
    ]
    return k66_list_transactions.Response(error_code=error_code, unknown_state_filters=[], transaction_states=rows)


def test_all_brokers_list_their_transactions(broker: FakeBroker) -> None:
    broker.in_turn(
        k66_list_transactions,
        lambda request, version: listing(error_code=LOADING),
        lambda request, version: listing(("b", 2, "Empty")),
        lambda request, version: listing(("a", 1, "Ongoing")),
    )
    found = list_transactions(client_of(broker), states=["Empty", "Ongoing"], producer_ids=[1, 2], duration_ms=5, pattern="[ab]")
    assert found == [ListedTransaction("a", 2, 1, "Ongoing"), ListedTransaction("b", 1, 2, "Empty")]
    (request, *_) = broker.requests_for(k66_list_transactions)
    assert (list(request.state_filters), list(request.producer_id_filters)) == (["Empty", "Ongoing"], [1, 2])
    assert (request.duration_filter, request.transactional_id_pattern) == (5, "[ab]")


def test_unsupported_filters_are_refused(broker: FakeBroker) -> None:
    broker.versions[66] = (0, 1)
    broker.on(k66_list_transactions, lambda request, version: listing())
    assert list_transactions(client_of(broker), duration_ms=5) == []
    with pytest.raises(UnsupportedByBroker, match="ListTransactions below version 2"):
        list_transactions(client_of(broker), pattern="a.*")
    broker.versions[66] = (0, 0)
    assert list_transactions(client_of(broker)) == []
    with pytest.raises(UnsupportedByBroker, match="ListTransactions below version 1"):
        list_transactions(client_of(broker), duration_ms=0)


def producer(producer_id: int, start: int = -1, last_timestamp: int = 0) -> k61_describe_producers.ProducerState:
    return k61_describe_producers.ProducerState(
        producer_id=producer_id, producer_epoch=1, last_timestamp=last_timestamp, coordinator_epoch=-1, current_txn_start_offset=start
    )


def producers(
    by_partition: dict[int, list[k61_describe_producers.ProducerState] | int],
) -> Callable[[k61_describe_producers.Request, int], k61_describe_producers.Response]:
    def result(index: int) -> k61_describe_producers.PartitionResult:
        found = by_partition[index]
        if isinstance(found, int):
            return k61_describe_producers.PartitionResult(partition_index=index, error_code=found, active_producers=[])
        return k61_describe_producers.PartitionResult(partition_index=index, error_code=0, active_producers=found)

    return lambda request, version: k61_describe_producers.Response(
        topics=[
            k61_describe_producers.TopicResult(name=topic.name, partitions=[result(index) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def test_producers_of_several_leaders(broker: FakeBroker) -> None:
    broker.on(k61_describe_producers, producers({0: [producer(9), producer(4)], 1: 3}))
    found = describe_producers(client_of(broker), [("orders", 0), ("orders", 1), ("gone", 0)])
    assert [each.producer_id for each in found["orders", 0]] == [4, 9]  # type: ignore[union-attr]  # no error there
    assert isinstance(found["orders", 1], UnknownTopicOrPartition)
    assert isinstance(found["gone", 0], UnknownTopicOrPartition)
    assert sorted(address.port for key, address in broker.addressees if key == 61) == [1, 2]


def test_producers_of_a_replica(broker: FakeBroker) -> None:
    broker.on(k61_describe_producers, producers({0: [producer(9)], 1: []}))
    found = describe_producers(client_of(broker), [("orders", 0), ("orders", 1)], node_id=2)
    assert (len(found["orders", 0]), found["orders", 1]) == (1, [])  # type: ignore[arg-type]  # no error there
    assert [address.port for key, address in broker.addressees if key == 61] == [2]


def test_hanging_transactions_are_found(broker: FakeBroker) -> None:
    """Producer 1 has no coordinator, 2 has one only for partition 1, 3 has no open transaction, 4 wrote lately, 5's id expired."""
    lately = 2**53
    rows = [producer(1, 10), producer(2, 20), producer(3), producer(4, 40, lately), producer(5, 50)]
    broker.on(k61_describe_producers, producers({0: rows, 1: [producer(2, 20)]}))
    broker.in_turn(
        k66_list_transactions,
        lambda request, version: listing(("a2", 2, "Ongoing"), ("a5", 5, "Ongoing")),
        lambda request, version: listing(),
    )
    broker.on(k65_describe_transactions, described(a2=state("a2", topics={"orders": [1]}), a5=state("a5", NO_SUCH_ID)))
    found, errors = find_hanging(client_of(broker), [("orders", 0), ("orders", 1)], older_than_ms=900_000)
    assert [(each.topic, each.partition, each.producer.producer_id) for each in found] == [
        ("orders", 0, 1),
        ("orders", 0, 2),
        ("orders", 0, 5),
    ]
    assert errors == []
    (request, _) = broker.requests_for(k66_list_transactions)
    assert sorted(request.producer_id_filters) == [1, 2, 5]


def test_no_coordinator_is_queried_without_open_transactions(broker: FakeBroker) -> None:
    broker.on(k61_describe_producers, producers({0: [producer(1)], 1: 29}))
    found, errors = find_hanging(client_of(broker), [("orders", 0), ("orders", 1)], older_than_ms=0)
    assert found == []
    assert [error.code for error in errors] == [29]


def markers(error_code: int) -> Callable[[k27_write_txn_markers.Request, int], k27_write_txn_markers.Response]:
    def answer(request: k27_write_txn_markers.Request, version: int) -> k27_write_txn_markers.Response:
        (marker,) = request.markers
        partitions = [k27_write_txn_markers.PartitionResult(partition_index=1, error_code=error_code)]
        topics = [k27_write_txn_markers.TopicResult(name="orders", partitions=partitions)]
        return k27_write_txn_markers.Response(markers=[k27_write_txn_markers.MarkerResult(producer_id=marker.producer_id, topics=topics)])

    return answer


def abort(broker: FakeBroker) -> None:
    abort_in_partition(client_of(broker), ("orders", 1), producer_id=7, producer_epoch=3, coordinator_epoch=-1)


def test_marker_is_sent_to_the_leader(broker: FakeBroker) -> None:
    broker.on(k27_write_txn_markers, markers(0))
    abort(broker)
    (request,) = broker.requests_for(k27_write_txn_markers)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result) == (7, 3, 0, False)
    assert marker.topics == [k27_write_txn_markers.Topic(name="orders", partition_indexes=[1])]
    assert [address.port for key, address in broker.addressees if key == 27] == [2]


def test_a_marker_is_sent_once(broker: FakeBroker) -> None:
    def lost(request: k27_write_txn_markers.Request, version: int) -> k27_write_txn_markers.Response:
        raise ConnectionLost

    broker.on(k27_write_txn_markers, lost)
    with pytest.raises(BrokerUnreachable):
        abort(broker)
    for code in (InvalidProducerEpoch.code, NOT_COORDINATOR):
        broker.on(k27_write_txn_markers, markers(code))
        with pytest.raises(KafkaError, match="abort of producer 7 in orders-1: "):
            abort(broker)
    assert len(broker.requests_for(k27_write_txn_markers)) == 3
    with pytest.raises(UnknownTopicOrPartition, match="topic orders has no partition 2"):
        abort_in_partition(client_of(broker), ("orders", 2), producer_id=7, producer_epoch=3, coordinator_epoch=0)


def test_an_open_transaction_is_aborted_by_its_id(broker: FakeBroker) -> None:
    broker.on(k65_describe_transactions, described(b=state("b", topics={"orders": [0]})))
    broker.in_turn(k22_init_producer_id, initialized(CONCURRENT), initialized(CONCURRENT), initialized(0))
    assert abort_open(client_of(broker), "b").partitions == (("orders", 0),)
    assert {(request.transactional_id, request.transaction_timeout_ms) for request in broker.requests_for(k22_init_producer_id)} == {
        ("b", 60_000)
    }
    assert [address.port for key, address in broker.addressees if key == 22] == [2, 2, 2]


def initialized(error_code: int) -> Callable[[k22_init_producer_id.Request, int], k22_init_producer_id.Response]:
    return lambda request, version: k22_init_producer_id.Response(error_code=error_code, producer_id=7, producer_epoch=4)


@pytest.mark.parametrize("words", ["Empty", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"])
def test_closed_transaction_is_not_fenced(broker: FakeBroker, words: str) -> None:
    broker.on(k65_describe_transactions, described(b=state("b", words=words)))
    with pytest.raises(InvalidTxnState, match=f"its state is {words}"):
        abort_open(client_of(broker), "b")
    broker.on(k65_describe_transactions, described(b=state("b", NO_SUCH_ID)))
    with pytest.raises(TransactionalIdNotFound):
        abort_open(client_of(broker), "b")
    assert broker.requests_for(k22_init_producer_id) == []
