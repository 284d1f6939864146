"""The coordinator's whole way: records, markers, time-outs, expiry, what happens to its topic and to partitions meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.coordinator.stored_topic import partition_of
from minibroker.coordinator.transaction.marking import MARKERS_A_TURN
from minibroker.coordinator.transaction.records import MAX_EPOCH, ProducerIdAndEpoch, TransactionMetadata, TransactionState
from minibroker.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidProducerIdMapping,
    KafkaStorageError,
    NotCoordinator,
    ProducerFenced,
    TransactionAbortable,
)
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k66_list_transactions as k66
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.transactional_ids import (
    TOPIC,
    begin,
    broker_that_knows,
    coordinator_of,
    init_producer,
    is_stable,
    markers,
    state_of,
    steps_of,
    write,
)

SCAN_MS = 10_000
EXPIRY_SCAN_MS = 3_600_000
EXPIRATION_MS = 4 * EXPIRY_SCAN_MS
EXPIRING = {"transactional.id.expiration.ms": str(EXPIRATION_MS)}
ABORTED, COMMITTED = False, True


def end(broker: BrokerInMemory, ids: ProducerIdAndEpoch, *, commit: bool = True, version: int = 5) -> Pending:
    request = k26.Request(transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=commit)
    return broker.begin(request, version)


def ended(broker: BrokerInMemory, ids: ProducerIdAndEpoch, *, commit: bool = True, version: int = 5) -> int:
    answer: k26.Response = end(broker, ids, commit=commit, version=version).answer()
    return answer.error_code


def take_offline(broker: BrokerInMemory, topic: str, index: int) -> Any:
    """As a failing disk does, but for the rest of its directory; returns the log, for when it is back."""
    partition = broker.cluster.partition(topic, index)
    log = partition.online_log
    partition.take_offline(KafkaStorageError("the disk is gone"))
    return log


# One transaction after the other


def test_transaction_of_a_kip_890_client() -> None:
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0))
    begin(broker, ids, ("a", 1))

    answer = end(broker, ids).answer()

    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 0, 1)
    assert steps_of(broker) == [("Empty", 0, 0), ("Ongoing", 0, 1), ("Ongoing", 0, 2), ("PrepareCommit", 1, 2), ("CompleteCommit", 1, 0)]
    assert markers(broker, "a", 0) == markers(broker, "a", 1) == [(COMMITTED, 1)]
    assert is_stable(broker, "a", 0)
    assert is_stable(broker, "a", 1)
    begin(broker, ProducerIdAndEpoch(0, 1), ("a", 1))  # the next one, with the epoch of the answer


def test_transaction_of_an_older_client() -> None:
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker)
    for commit in (True, False):
        begin(broker, ids, ("a", 0), ("a", 1), bumps=False, first=0 if commit else 3)
        answer = end(broker, ids, commit=commit, version=4).answer()
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, -1, -1)

    assert [step for step, _, _ in steps_of(broker)[1:]] == [
        *("Ongoing", "PrepareCommit", "CompleteCommit"),
        *("Ongoing", "PrepareAbort", "CompleteAbort"),
    ]
    assert {epoch for _, epoch, _ in steps_of(broker)} == {0}
    assert markers(broker, "a", 1) == [(COMMITTED, 0), (ABORTED, 0)]


def test_partition_is_added_once() -> None:
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker)
    for _ in range(3):
        begin(broker, ids, ("a", 0), first=3 * _)
    assert [step for step, _, _ in steps_of(broker)] == ["Empty", "Ongoing"]


def test_marker_is_written_to_partitions_without_records() -> None:
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker)
    coordinator_of(broker).add_now("payments", ids, frozenset({("a", 0), ("a", 1)}))
    write(broker, ids, "a", 1)
    assert ended(broker, ids, commit=False) == 0
    assert markers(broker, "a", 0) == markers(broker, "a", 1) == [(ABORTED, 1)]


def test_open_transaction_is_aborted_for_a_new_producer() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    zombie = init_producer(broker)
    begin(broker, zombie, ("a", 0))

    successor = init_producer(broker)

    assert successor == (0, 2)
    assert steps_of(broker)[2:] == [("PrepareAbort", 1, 1), ("CompleteAbort", 1, 0), ("Empty", 2, 0)]
    assert markers(broker, "a", 0) == [(ABORTED, 1)]
    assert (ended(broker, zombie), ended(broker, zombie, version=4), ended(broker, zombie, version=1)) == (90, 90, 47)
    with pytest.raises(ProducerFenced):
        begin(broker, zombie, ("a", 0))


def test_exhausted_epochs_allocate_a_new_producer_id() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    for _ in range(6):
        broker.cluster.metadata.allocate_producer_id()
    last = TransactionMetadata("payments", 5, MAX_EPOCH - 1, 60_000, TransactionState.EMPTY, broker.clock.now_ms())
    broker = broker_that_knows(broker, [last])
    begin(broker, last.ids, ("a", 0))

    answer = end(broker, last.ids).answer()

    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id > 5
    assert markers(broker, "a", 0) == [(COMMITTED, MAX_EPOCH)]
    begin(broker, ProducerIdAndEpoch(answer.producer_id, 0), ("a", 0))


def test_partitions_of_the_transaction_are_verified() -> None:
    broker = BrokerInMemory(topics={"a": 2})
    coordinator = coordinator_of(broker)
    ids = init_producer(broker)
    coordinator.admit("payments", ids, ("a", 0), may_add=True)
    coordinator.admit("payments", ids, ("a", 0), may_add=False)
    with pytest.raises(TransactionAbortable):
        coordinator.admit("payments", ids, ("a", 1), may_add=False)
    with pytest.raises(InvalidProducerIdMapping):
        coordinator.admit("orders", ids, ("a", 0), may_add=True)
    assert coordinator.verify_partitions("payments", ids, frozenset({("a", 0), ("a", 1)})) == {
        ("a", 0): None,
        ("a", 1): TransactionAbortable,
    }


# Time


@pytest.mark.parametrize("bumps", [True, False])
def test_transaction_times_out(bumps: bool) -> None:
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker, timeout_ms=SCAN_MS)
    begin(broker, ids, ("a", 0), bumps=bumps)
    broker.clock.advance(SCAN_MS)
    assert (state_of(broker), is_stable(broker, "a", 0)) == ("Ongoing", False)  # exactly as long as it may

    broker.clock.advance(SCAN_MS)

    assert (state_of(broker), is_stable(broker, "a", 0)) == ("CompleteAbort", True)
    assert markers(broker, "a", 0) == [(ABORTED, 1)]
    assert ended(broker, ids) == 48  # the end of it that KIP-890 lets it repeat, but for the outcome
    assert ended(broker, ids, version=4) == 90
    with pytest.raises(ProducerFenced):
        begin(broker, ids, ("a", 1))
    assert init_producer(broker) == (0, 2)


def test_timeout_counts_from_the_start_of_the_transaction() -> None:
    broker = BrokerInMemory(topics={"a": 9})
    ids = init_producer(broker, timeout_ms=25_000)
    for index in range(9):
        begin(broker, ids, ("a", index))
        broker.clock.advance(3_333)
    assert state_of(broker) == "Ongoing"
    broker.clock.advance(1_000)
    assert state_of(broker) == "CompleteAbort"


def test_interval_of_the_timeout_scan() -> None:
    config = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    broker = BrokerInMemory(topics={"a": 1}, config=config)
    begin(broker, init_producer(broker, timeout_ms=1_000), ("a", 0))
    broker.clock.advance(1_499)
    assert state_of(broker) == "Ongoing"
    broker.clock.advance(1)
    assert state_of(broker) == "CompleteAbort"


def test_timeout_continues_after_a_restart() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    begin(broker, init_producer(broker, timeout_ms=60_000), ("a", 0))
    broker.clock.advance(59_000)
    broker = broker.restart(clean=False)
    assert state_of(broker) == "Ongoing"
    broker.clock.advance(SCAN_MS)
    assert (state_of(broker), is_stable(broker, "a", 0)) == ("CompleteAbort", True)


def test_clock_set_back_aborts_nothing_early() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    begin(broker, init_producer(broker, timeout_ms=60_000), ("a", 0))
    broker.clock.jump(-86_400_000)
    broker.clock.advance(SCAN_MS * 3)
    assert state_of(broker) == "Ongoing"


def test_many_timeouts_are_handled_in_steps() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    for each in range(120):
        name = f"id-{each}"
        begin(broker, init_producer(broker, name, timeout_ms=5_000), ("a", 0), name=name)
    broker.clock.advance(SCAN_MS - 1)
    assert not is_stable(broker, "a", 0)
    broker.clock.advance(1)
    assert is_stable(broker, "a", 0)
    assert len(markers(broker, "a", 0)) == 120


def test_unused_transactional_id_expires() -> None:
    broker = BrokerInMemory(topics={"a": 1}, config=EXPIRING)
    open_one = init_producer(broker, "open", timeout_ms=900_000)
    init_producer(broker)
    broker.clock.advance(EXPIRATION_MS - EXPIRY_SCAN_MS)
    begin(broker, open_one, ("a", 0), name="open")
    assert state_of(broker) == "Empty"
    broker.clock.advance(2 * EXPIRY_SCAN_MS)

    assert state_of(broker) is None
    assert steps_of(broker)[-1] == ("", -1, 0)
    assert state_of(broker, "open") == "CompleteAbort"
    with pytest.raises(InvalidProducerIdMapping):
        begin(broker, ProducerIdAndEpoch(1, 0), ("a", 0))
    assert init_producer(broker) == (2, 0)  # a new producer
    broker = broker.restart()
    assert state_of(broker) == "Empty"


def test_timeout_is_retried_if_no_producer_id_can_be_allocated() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    producer_id = broker.cluster.metadata.allocate_producer_id()
    last = TransactionMetadata("payments", producer_id, MAX_EPOCH - 1, 60_000, TransactionState.EMPTY, broker.clock.now_ms())
    broker = broker_that_knows(broker, [last])
    begin(broker, last.ids, ("a", 0))
    begin(broker, init_producer(broker, "other"), ("a", 0), name="other")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker.cluster.metadata, "allocate_producer_id", _no_producer_id)
        broker.clock.advance(120_000)
        assert (state_of(broker), state_of(broker, "other")) == ("Ongoing", "CompleteAbort")
    broker.clock.advance(SCAN_MS)
    assert (state_of(broker), is_stable(broker, "a", 0)) == ("CompleteAbort", True)


def _no_producer_id() -> int:
    raise KafkaStorageError("the metadata log cannot be written")


def test_expired_id_stays_deleted_after_a_restart() -> None:
    broker = BrokerInMemory(config=EXPIRING)
    init_producer(broker)
    broker.clock.advance(EXPIRATION_MS + EXPIRY_SCAN_MS)
    assert state_of(broker.restart(clean=False)) is None


# The topic


def test_state_topic_config_matches_kafka() -> None:
    broker = BrokerInMemory(config={"transaction.state.log.segment.bytes": "1000000"})
    coordinator_of(broker)
    assert broker.cluster.topic(TOPIC).config == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "1000000",
        "unclean.leader.election.enable": "false",
    }


def test_state_topic_created_by_an_operator() -> None:
    broker = BrokerInMemory(topics={TOPIC: 2, "a": 1})
    answer = broker.ask(k22.Request(transactional_id="payments", transaction_timeout_ms=60_000))
    assert (answer.error_code, answer.producer_id) == (0, 0)


def test_deleting_the_state_topic_deletes_its_ids() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0))
    broker.cluster.delete_topic(TOPIC)
    with pytest.raises(NotCoordinator):
        state_of(broker)
    assert ended(broker, ids) == 16
    broker.clock.advance(SCAN_MS)

    assert init_producer(broker) == (1, 0)
    assert ended(broker, ids) == 49
    assert is_stable(broker.restart(), "a", 0)  # the old producer's transaction has no owner


def test_flipped_byte_does_not_change_the_outcome() -> None:
    """Of a log that was closed cleanly no batch is looked at when it is opened: PrepareCommit could come back as PrepareAbort."""
    broker = BrokerInMemory(topics={"a": 1}, config={"transaction.state.log.num.partitions": "1"})
    begin(broker, init_producer(broker), ("a", 0))
    broker.services.coordinators.stop()
    broker.cluster.close()
    path = broker.folder / f"{TOPIC}-0" / "00000000000000000000.log"
    whole = path.read_bytes()
    first = whole.rindex(b"payments") + len(b"payments")
    for position in range(first, len(whole), 3):
        data = bytearray(whole)
        data[position] ^= 1
        path.write_bytes(data)
        again = BrokerInMemory(folder=broker.folder, clock=broker.clock, config=broker.config.static)
        with pytest.raises(NotCoordinator):
            state_of(again)
        assert not is_stable(again, "a", 0)  # nor is the transaction taken for an orphan
        again.services.coordinators.stop()
        again.cluster.close()
    path.write_bytes(whole)
    assert state_of(BrokerInMemory(folder=broker.folder, clock=broker.clock, config=broker.config.static)) == "Ongoing"


def test_state_topic_deleted_while_a_transaction_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minibroker.coordinator.transaction.marking.MARKERS_A_TURN", 2)
    broker = BrokerInMemory(topics={"a": 5})
    ids = init_producer(broker)
    begin(broker, ids, *[("a", index) for index in range(5)])
    pending = end(broker, ids)
    successor = broker.begin(k22.Request(transactional_id="payments", transaction_timeout_ms=60_000))
    assert (pending.is_done, successor.answer().error_code) == (False, 51)

    broker.cluster.delete_topic(TOPIC)
    coordinator_of(broker)

    assert pending.answer().error_code == 0  # it was decided, and the next start ends it where it is still open
    assert state_of(broker) is None
    assert [len(markers(broker, "a", index)) for index in range(5)] == [1, 1, 0, 0, 0]


def test_offline_state_partition() -> None:
    broker = BrokerInMemory(topics={"a": 1}, config={"transaction.state.log.num.partitions": "1"})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0))
    take_offline(broker, TOPIC, 0)
    assert ended(broker, ids) == 16
    with pytest.raises(NotCoordinator):
        begin(broker, ids, ("a", 0))
    assert coordinator_of(broker).all() == []
    broker.clock.advance(EXPIRY_SCAN_MS)
    assert not is_stable(broker, "a", 0)


# Partitions that come and go


def test_deleted_topic_is_removed_from_the_transaction() -> None:
    broker = BrokerInMemory(topics={"a": 1, "b": 1})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0), ("b", 0))
    broker.cluster.delete_topic("a")
    assert ended(broker, ids) == 0
    assert (state_of(broker), markers(broker, "b", 0)) == ("CompleteCommit", [(COMMITTED, 1)])


def test_offline_partition_delays_only_its_transaction() -> None:
    broker = BrokerInMemory(topics={"a": 3})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0), ("a", 1), ("a", 2))
    log = take_offline(broker, "a", 1)

    assert ended(broker, ids) == 0

    assert state_of(broker) == "PrepareCommit"
    assert markers(broker, "a", 0) == markers(broker, "a", 2) == [(COMMITTED, 1)]
    following = ids._replace(producer_epoch=1)
    with pytest.raises(ConcurrentTransactions):
        begin(broker, following, ("a", 0))
    assert ended(broker, following) == 51
    assert broker.ask(k22.Request(transactional_id="payments", transaction_timeout_ms=60_000)).error_code == 51
    broker.clock.advance(5_000)
    assert state_of(broker) == "PrepareCommit"

    broker.cluster.partition("a", 1).online_log = log
    broker.clock.advance(1_000)

    assert state_of(broker) == "CompleteCommit"
    assert markers(broker, "a", 0) == markers(broker, "a", 1) == [(COMMITTED, 1)]
    begin(broker, following, ("a", 0))


def test_deleted_offline_partition_is_skipped() -> None:
    broker = BrokerInMemory(topics={"a": 1, "b": 1})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0), ("b", 0))
    take_offline(broker, "a", 0)
    assert ended(broker, ids) == 0
    broker.cluster.delete_topic("a")
    broker.clock.advance(1_000)
    assert state_of(broker) == "CompleteCommit"


def test_offline_partition_gets_its_marker_after_a_restart() -> None:
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0), ("a", 1))
    take_offline(broker, "a", 1)
    assert ended(broker, ids) == 0
    broker = broker.restart(clean=False)
    assert state_of(broker) == "CompleteCommit"
    assert markers(broker, "a", 0) == markers(broker, "a", 1) == [(COMMITTED, 1)]


def test_transaction_aborted_by_an_operator_on_one_partition() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0))
    foreign = EndTransactionMarker(ControlType.ABORT, 9)
    broker.cluster.partition("a", 0).end_transaction(foreign, producer_id=0, producer_epoch=5, transaction_version=0)

    assert ended(broker, ids) == 0  # too late for the outcome, but nothing hangs

    assert (state_of(broker), markers(broker, "a", 0)) == ("CompleteCommit", [(ABORTED, 5)])


def test_partition_with_a_later_coordinator_epoch() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0))
    foreign = EndTransactionMarker(ControlType.ABORT, 9)
    broker.cluster.partition("a", 0).end_transaction(foreign, producer_id=0, producer_epoch=0, transaction_version=0)
    write(broker, ids, "a", 0, first=3)
    assert ended(broker, ids) == 0
    assert (is_stable(broker, "a", 0), markers(broker, "a", 0)) == (True, [(ABORTED, 0), (COMMITTED, 1)])


# Many partitions, and the end in between


def test_thousands_of_partitions_are_marked_in_steps() -> None:
    broker = BrokerInMemory(topics={"a": 250})
    ids = init_producer(broker)
    every = [("a", index) for index in range(250)]
    begin(broker, ids, *every, count=1)

    pending = end(broker, ids)

    assert not pending.is_done
    assert sum(is_stable(broker, *each) for each in every) == MARKERS_A_TURN
    assert (state_of(broker), ended(broker, ids)) == ("PrepareCommit", 51)
    broker.clock.advance(0)
    assert pending.answer().error_code == 0
    assert all(is_stable(broker, *each) for each in every)
    assert (state_of(broker), steps_of(broker)[1:]) == (
        "CompleteCommit",
        [("Ongoing", 0, 250), ("PrepareCommit", 1, 250), ("CompleteCommit", 1, 0)],
    )


@pytest.mark.parametrize("clean", [True, False])
def test_interrupted_transaction_end_continues_after_a_restart(clean: bool) -> None:
    broker = BrokerInMemory(topics={"a": 250})
    ids = init_producer(broker)
    begin(broker, ids, *[("a", index) for index in range(250)], count=1)
    end(broker, ids, commit=False)

    broker = broker.restart(clean=clean)

    broker.clock.advance(0)
    assert state_of(broker) == "CompleteAbort"
    assert all(markers(broker, "a", index) == [(ABORTED, 1)] for index in range(250))


def test_no_markers_are_written_after_a_stop() -> None:
    broker = BrokerInMemory(topics={"a": 250})
    ids = init_producer(broker)
    begin(broker, ids, *[("a", index) for index in range(250)], count=1)
    end(broker, ids)
    broker.services.coordinators.stop()
    broker.clock.advance(2_000)
    assert sum(is_stable(broker, "a", index) for index in range(250)) == MARKERS_A_TURN


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_prepared_transaction_is_completed_at_start(commit: bool, version: int) -> None:
    broker = BrokerInMemory(topics={"a": 3})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0), ("a", 1))
    prepared = TransactionMetadata(
        *("payments", ids.producer_id, ids.producer_epoch + version // 2, 60_000),
        TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        broker.clock.now_ms(),
        broker.clock.now_ms(),
        frozenset({("a", 0), ("a", 1), ("a", 2), ("gone", 7)}),
        client_transaction_version=version,
    )

    broker = broker_that_knows(broker, [prepared])

    assert state_of(broker) == ("CompleteCommit" if commit else "CompleteAbort")
    assert markers(broker, "a", 0) == markers(broker, "a", 1) == [(commit, version // 2)]
    assert markers(broker, "a", 2) == []  # nothing to end there


# Errors


def test_loading_ids_answer_coordinator_load_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerInMemory(topics={"a": 1})
    for each in range(30):
        init_producer(broker, f"id-{each}")
    begin(broker, init_producer(broker), ("a", 0))
    monkeypatch.setattr("minibroker.coordinator.transaction.store.BYTES_AT_START", 1)
    monkeypatch.setattr("minibroker.coordinator.transaction.store.BYTES_A_TURN", 1)
    monkeypatch.setattr("minibroker.coordinator.stored_topic.READ_BYTES", 1)

    broker = broker.restart()

    results: list[int] = []
    while not results or results[-1] != 0:
        results.append(broker.ask(k66.Request(state_filters=[], producer_id_filters=[])).error_code)
        broker.clock.advance(0)
    assert set(results) == {14, 0}
    assert len(broker.services.coordinators.transactions.all()) == 31


def test_id_is_available_when_its_partition_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerInMemory(topics={"a": 1})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0))
    monkeypatch.setattr("minibroker.coordinator.transaction.store.BYTES_AT_START", 1)
    broker = broker.restart()
    assert ended(broker, ids) == 14
    with pytest.raises(CoordinatorLoadInProgress):
        begin(broker, ids, ("a", 0))
    broker.clock.advance(0)
    assert ended(broker, ids) == 0


def test_transaction_ended_before_loading_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerInMemory(topics={"a": 5}, config={"transaction.state.log.num.partitions": "7"})
    for each in range(10):
        init_producer(broker, f"id-{each}")
    ids = init_producer(broker)
    begin(broker, ids, *[("a", index) for index in range(5)])
    assert partition_of("payments", 7) == 0
    log = broker.cluster.partition(TOPIC, 0).log
    monkeypatch.setattr("minibroker.coordinator.transaction.store.BYTES_AT_START", log.segments.size + 1)
    monkeypatch.setattr("minibroker.coordinator.transaction.store._RECORD_BYTES", 0)
    monkeypatch.setattr("minibroker.coordinator.transaction.marking.MARKERS_A_TURN", 2)
    broker = broker.restart()
    with pytest.raises(CoordinatorLoadInProgress):
        broker.services.coordinators.transactions.all()

    pending = end(broker, ids)
    assert not pending.is_done
    broker.clock.advance(0)

    assert pending.answer().error_code == 0
    assert [state for state, _, _ in steps_of(broker)] == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert [markers(broker, "a", index) for index in range(5)] == [[(COMMITTED, 1)]] * 5
