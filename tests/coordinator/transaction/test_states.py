"""Every cell of the state table, then the ids and epochs: most of it as Apache Kafka 4.3.1 was seen to answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minibroker.coordinator.transaction.records import MAX_EPOCH, NO_IDS, ProducerIdAndEpoch, TransactionMetadata, TransactionState
from minibroker.coordinator.transaction.states import (
    Decision,
    add_partitions,
    check_timeout,
    check_transactional_id,
    complete,
    end_transaction,
    expected_ids,
    expire,
    fence,
    init_producer_id,
    verify_partitions,
)
from minibroker.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionAbortable,
    UnknownServerError,
)

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, PREPARE_EPOCH_FENCE = TransactionState
NOW = 1_000_000
NEW_PRODUCER_ID = 77
PARTITIONS = frozenset({("orders", 0), ("orders", 1)})

Outcome = TransactionState | type[KafkaError] | None  #: the state to persist, the error, or an answer that changes nothing


def metadata(state: TransactionState, *, epoch: int = 5, version: int = 2, producer_id: int = 7, previous: int = 7) -> TransactionMetadata:
    holds = state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
    return TransactionMetadata(
        transactional_id="payments",
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=60_000,
        state=state,
        last_update_timestamp_ms=NOW - 10,
        start_timestamp_ms=-1 if state is EMPTY else NOW - 20,
        partitions=PARTITIONS if holds else frozenset(),
        previous_producer_id=previous,
        client_transaction_version=version,
    )


def init(current: TransactionMetadata | None, expected: tuple[int, int] | None = None, *, broker: int = 2) -> Decision:
    return init_producer_id(
        current,
        "payments",
        30_000,
        None if expected is None else ProducerIdAndEpoch(*expected),
        now_ms=NOW,
        transaction_version=broker,
        allocate_producer_id=lambda: NEW_PRODUCER_ID,
    )


def add(
    current: TransactionMetadata | None, ids: tuple[int, int] = (7, 5), partitions: frozenset[tuple[str, int]] = frozenset({("new", 0)})
) -> Decision:
    return add_partitions(current, ProducerIdAndEpoch(*ids), partitions, now_ms=NOW, client_transaction_version=2)


def end(current: TransactionMetadata | None, ids: tuple[int, int] = (7, 5), *, commit: bool, version: int = 2) -> Decision:
    return end_transaction(
        current,
        ProducerIdAndEpoch(*ids),
        commit=commit,
        now_ms=NOW,
        client_transaction_version=version,
        allocate_producer_id=lambda: NEW_PRODUCER_ID,
    )


def fenced(current: TransactionMetadata) -> TransactionMetadata:
    return fence(current, now_ms=NOW, transaction_version=2, allocate_producer_id=lambda: NEW_PRODUCER_ID)


def stored(decision: Decision) -> TransactionMetadata:
    assert decision.after is not None
    return decision.after


def outcome(step: Callable[[], Decision]) -> Outcome:
    try:
        decision = step()
    except KafkaError as error:
        return type(error)
    return None if decision.after is None else decision.after.state


# What each state makes of: InitProducerId, AddPartitions, commit v1, commit v2, abort v1, abort v2, repeated commit v2, repeated abort v2.
# The last two name the epoch before.
BROKEN = (UnknownServerError,) * 6
TABLE: dict[TransactionState | None, tuple[Outcome, ...]] = {
    None: (EMPTY, *(InvalidProducerIdMapping,) * 7),
    EMPTY: (EMPTY, ONGOING, InvalidTxnState, InvalidTxnState, InvalidTxnState, PREPARE_ABORT, ProducerFenced, ProducerFenced),
    ONGOING: (PREPARE_ABORT, ONGOING, PREPARE_COMMIT, PREPARE_COMMIT, PREPARE_ABORT, PREPARE_ABORT, ProducerFenced, ProducerFenced),
    PREPARE_COMMIT: (ConcurrentTransactions,) * 8,
    PREPARE_ABORT: (ConcurrentTransactions,) * 8,
    COMPLETE_COMMIT: (EMPTY, ONGOING, None, InvalidTxnState, InvalidTxnState, PREPARE_ABORT, None, InvalidTxnState),
    COMPLETE_ABORT: (EMPTY, ONGOING, InvalidTxnState, InvalidTxnState, None, PREPARE_ABORT, InvalidTxnState, None),
    DEAD: (*BROKEN, ProducerFenced, ProducerFenced),
    PREPARE_EPOCH_FENCE: (*BROKEN, ProducerFenced, ProducerFenced),
}


@pytest.mark.parametrize("state", TABLE)
def test_transitions_by_request(state: TransactionState | None) -> None:
    current = None if state is None else metadata(state)
    assert (
        outcome(lambda: init(current)),
        outcome(lambda: add(current)),
        outcome(lambda: end(current, commit=True, version=0)),
        outcome(lambda: end(current, commit=True)),
        outcome(lambda: end(current, commit=False, version=0)),
        outcome(lambda: end(current, commit=False)),
        outcome(lambda: end(current, (7, 4), commit=True)),
        outcome(lambda: end(current, (7, 4), commit=False)),
    ) == TABLE[state]


@pytest.mark.parametrize(
    ("step", "reached"),
    [
        (complete, {PREPARE_COMMIT: COMPLETE_COMMIT, PREPARE_ABORT: COMPLETE_ABORT}),
        (lambda current, now_ms: fenced(current), {ONGOING: PREPARE_ABORT}),
        (lambda current, now_ms: expire(current), {EMPTY: DEAD, COMPLETE_COMMIT: DEAD, COMPLETE_ABORT: DEAD}),
    ],
    ids=["markers written", "time-out", "expiry"],
)
def test_transitions_by_the_broker(step: Callable[..., TransactionMetadata], reached: dict[TransactionState, TransactionState]) -> None:
    for state in TransactionState:
        if state in reached:
            assert step(metadata(state), now_ms=NOW).state is reached[state]
        else:
            with pytest.raises(UnknownServerError, match=state.kafka_name):
                step(metadata(state), now_ms=NOW)


@pytest.mark.parametrize("state", [EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT])
@pytest.mark.parametrize("version", [0, 2])
def test_wrong_producer_id_or_epoch(state: TransactionState, version: int) -> None:
    current = metadata(state, version=version)

    def answers(ids: tuple[int, int]) -> set[Outcome]:
        return {
            outcome(lambda: add(current, ids)),
            outcome(lambda: end(current, ids, commit=True, version=version)),
            outcome(lambda: end(current, ids, commit=False, version=version)),
        }

    for epoch in (4, 5, 6):
        assert answers((8, epoch)) == {InvalidProducerIdMapping}
    for epoch in (3, 6, MAX_EPOCH):
        assert answers((7, epoch)) == {ProducerFenced}


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_prepared_transaction_answers_concurrent_transactions(state: TransactionState) -> None:
    for ids in ((7, 4), (7, 6), (8, 5)):
        for step in (
            lambda ids=ids: init(metadata(state), ids),
            lambda ids=ids: add(metadata(state), ids),
            lambda ids=ids: end(metadata(state), ids, commit=True),
        ):
            assert outcome(step) is ConcurrentTransactions
    assert outcome(lambda: end(metadata(state), (7, 4), commit=True, version=0)) is ProducerFenced
    assert outcome(lambda: end(metadata(state), (8, 5), commit=True, version=0)) is InvalidProducerIdMapping


def test_end_v2_of_a_completed_v1_transaction() -> None:
    current = metadata(COMPLETE_COMMIT, version=0)
    assert outcome(lambda: end(current, commit=True)) is InvalidTxnState
    assert end(current, commit=False).answer == (7, 6)


# InitProducerId


def test_new_transactional_id() -> None:
    decision = init(None)
    assert decision.answer == (NEW_PRODUCER_ID, 0)
    assert stored(decision) == TransactionMetadata("payments", NEW_PRODUCER_ID, 0, 30_000, EMPTY, NOW, previous_producer_id=NEW_PRODUCER_ID)
    assert init(None, (3, 9)).answer == (NEW_PRODUCER_ID, 0)


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_next_owner_gets_the_next_epoch_and_may_retry(state: TransactionState) -> None:
    current = metadata(state)
    assert init(current).answer == (7, 6)
    assert stored(init(current)).last_producer_epoch == -1
    first = init(current, (7, 5))
    assert first.answer == (7, 6)
    assert init(stored(first), (7, 5)).answer == (7, 6)
    assert stored(first)._replace(timeout_ms=0) == stored(init(stored(first), (7, 5)))._replace(timeout_ms=0)
    assert (stored(first).state, stored(first).timeout_ms, stored(first).start_timestamp_ms) == (EMPTY, 30_000, -1)


@pytest.mark.parametrize("expected", [(8, 5), (7, 4), (7, 6), (8, MAX_EPOCH - 1)])
def test_wrong_expected_producer_is_fenced(expected: tuple[int, int]) -> None:
    assert outcome(lambda: init(metadata(EMPTY), expected)) is ProducerFenced


def test_successor_fences_the_retry_of_an_earlier_owner() -> None:
    first = stored(init(metadata(EMPTY), (7, 5)))
    assert outcome(lambda: init(stored(init(first)), (7, 5))) is ProducerFenced


@pytest.mark.parametrize("expected", [None, (7, MAX_EPOCH - 1)])
def test_exhausted_epochs_allocate_a_new_producer_id(expected: tuple[int, int] | None) -> None:
    current = metadata(COMPLETE_COMMIT, epoch=MAX_EPOCH - 1)
    decision = init(current, expected)
    assert decision.answer == (NEW_PRODUCER_ID, 0)
    assert stored(decision).previous_producer_id == 7
    if expected:
        assert init(stored(decision), expected).answer == (NEW_PRODUCER_ID, 0)
    else:
        assert outcome(lambda: init(stored(decision), (7, MAX_EPOCH - 1))) is ProducerFenced


def test_second_to_last_epoch_is_bumped_once() -> None:
    decision = init(metadata(EMPTY, epoch=MAX_EPOCH - 2), (7, MAX_EPOCH - 2))
    assert decision.answer == (7, MAX_EPOCH - 1)
    assert init(stored(decision), (7, MAX_EPOCH - 2)).answer == (7, MAX_EPOCH - 1)


# Fencing


@pytest.mark.parametrize(("broker", "last", "version"), [(2, 5, 2), (1, -1, 0), (0, -1, 0)])
def test_open_transaction_is_aborted_first(broker: int, last: int, version: int) -> None:
    decision = init(metadata(ONGOING, version=0), broker=broker)
    after = stored(decision)
    assert (decision.error, decision.answer) == (ConcurrentTransactions, NO_IDS)
    assert (after.state, after.ids, after.partitions) == (PREPARE_ABORT, (7, 6), PARTITIONS)
    assert (after.last_producer_epoch, after.client_transaction_version, after.timeout_ms) == (last, version, 60_000)
    done = complete(after, now_ms=NOW)
    assert init(done).answer == (7, 7)
    assert outcome(lambda: add(done, (7, 5))) is ProducerFenced
    if broker == 2:
        assert init(done, (7, 5)).answer == (7, 6)
        assert outcome(lambda: end(done, (7, 5), commit=True)) is InvalidTxnState
        assert end(done, (7, 5), commit=False) == (None, (7, 6), None)
    else:
        assert outcome(lambda: init(done, (7, 5))) is ProducerFenced
    assert outcome(lambda: end(done, (7, 5), commit=True, version=0)) is ProducerFenced


def test_fencing_at_the_last_epoch_allocates_a_new_producer_id() -> None:
    after = fenced(metadata(ONGOING, epoch=MAX_EPOCH - 1))
    assert (after.ids, after.next_producer_id) == ((7, MAX_EPOCH), NEW_PRODUCER_ID)
    done = complete(after, now_ms=NOW)
    assert (done.ids, done.state) == ((NEW_PRODUCER_ID, 0), COMPLETE_ABORT)
    assert end(done, (7, MAX_EPOCH - 1), commit=False) == (None, (NEW_PRODUCER_ID, 0), None)
    assert init(done).answer == (NEW_PRODUCER_ID, 1)
    assert init(done, (7, MAX_EPOCH - 1)).answer == (NEW_PRODUCER_ID, 0)


def test_fencing_at_the_last_epoch_before_transaction_version_2() -> None:
    decision = init(metadata(ONGOING, epoch=MAX_EPOCH - 1, version=0), broker=1)
    done = complete(stored(decision), now_ms=NOW)
    assert done.ids == (7, MAX_EPOCH)
    assert outcome(lambda: end(done, (7, MAX_EPOCH - 1), commit=False)) is ProducerFenced
    assert init(done, broker=1).answer == (NEW_PRODUCER_ID, 0)


# AddPartitions


def test_added_partitions_accumulate_and_keep_the_start_time() -> None:
    first = stored(add(metadata(COMPLETE_COMMIT), partitions=frozenset({("a", 0)})))
    assert (first.start_timestamp_ms, first.last_update_timestamp_ms, first.partitions) == (NOW, NOW, frozenset({("a", 0)}))
    second = stored(add(first._replace(start_timestamp_ms=3), partitions=frozenset({("b", 1)})))
    assert (second.start_timestamp_ms, second.partitions) == (3, frozenset({("a", 0), ("b", 1)}))
    assert add(second, partitions=frozenset({("b", 1)})) == (None, NO_IDS, None)


def test_verification() -> None:
    expected = frozenset({("orders", 0), ("other", 0)})
    ids = ProducerIdAndEpoch(7, 5)
    assert verify_partitions(metadata(ONGOING), ids, expected) == {("orders", 0): None, ("other", 0): TransactionAbortable}
    assert set(verify_partitions(metadata(EMPTY), ids, expected).values()) == {TransactionAbortable}
    for current, error in (
        (None, InvalidProducerIdMapping),
        (metadata(ONGOING, producer_id=8), InvalidProducerIdMapping),
        (metadata(ONGOING, epoch=6), ProducerFenced),
        (metadata(PREPARE_COMMIT), ConcurrentTransactions),
    ):
        with pytest.raises(error):
            verify_partitions(current, ids, expected)


# EndTxn


@pytest.mark.parametrize("commit", [True, False])
def test_end_v1_keeps_the_epoch(commit: bool) -> None:
    decision = end(metadata(ONGOING, version=0), commit=commit, version=0)
    after = stored(decision)
    assert (decision.answer, after.ids, after.partitions, after.client_transaction_version) == (NO_IDS, (7, 5), PARTITIONS, 0)
    done = complete(after, now_ms=NOW + 5)
    assert (done.ids, done.partitions, done.start_timestamp_ms, done.last_update_timestamp_ms) == ((7, 5), frozenset(), NOW - 20, NOW + 5)


@pytest.mark.parametrize("commit", [True, False])
def test_end_v2_bumps_the_epoch_and_may_be_retried(commit: bool) -> None:
    decision = end(metadata(ONGOING), commit=commit)
    after = stored(decision)
    assert (decision.answer, after.ids, after.last_producer_epoch) == ((7, 6), (7, 6), 5)
    assert outcome(lambda: end(after, commit=commit)) is ConcurrentTransactions
    done = complete(after, now_ms=NOW)
    assert end(done, commit=commit) == (None, (7, 6), None)
    assert outcome(lambda: end(done, commit=not commit)) is InvalidTxnState
    following = stored(add(done, (7, 6)))
    assert outcome(lambda: end(following, commit=commit)) is ProducerFenced


@pytest.mark.parametrize("commit", [True, False])
def test_end_v2_at_the_last_epoch_allocates_a_new_producer_id(commit: bool) -> None:
    old = (7, MAX_EPOCH - 1)
    decision = end(metadata(ONGOING, epoch=MAX_EPOCH - 1), old, commit=commit)
    after = stored(decision)
    assert decision.answer == (NEW_PRODUCER_ID, 0)
    assert (after.ids, after.next_producer_id) == ((7, MAX_EPOCH), NEW_PRODUCER_ID)
    assert outcome(lambda: end(after, old, commit=commit)) is ConcurrentTransactions
    done = complete(after, now_ms=NOW)
    assert (done.ids, done.previous_producer_id, done.next_producer_id) == ((NEW_PRODUCER_ID, 0), 7, -1)
    assert end(done, old, commit=commit) == (None, (NEW_PRODUCER_ID, 0), None)
    assert outcome(lambda: end(done, old, commit=not commit)) is InvalidTxnState
    following = stored(add(done, (NEW_PRODUCER_ID, 0)))
    assert outcome(lambda: end(following, old, commit=commit)) is InvalidProducerIdMapping


def test_abort_of_an_empty_transaction_bumps_the_epoch() -> None:
    after = stored(end(metadata(EMPTY), commit=False))
    assert (after.state, after.ids, after.start_timestamp_ms, after.partitions) == (PREPARE_ABORT, (7, 6), NOW, frozenset())


# Requests


def test_invalid_requests_are_refused() -> None:
    assert expected_ids(-1, -1) is None
    assert expected_ids(4, 0) == (4, 0)
    for ids in ((4, -1), (-1, 0)):
        with pytest.raises(InvalidRequest):
            expected_ids(*ids)
    assert check_transactional_id("payments") == "payments"
    for transactional_id in ("", None):
        with pytest.raises(InvalidRequest):
            check_transactional_id(transactional_id)
    check_timeout(900_000, 900_000)
    for timeout_ms in (0, -1, 900_001):
        with pytest.raises(InvalidTransactionTimeout):
            check_timeout(timeout_ms, 900_000)


def test_state_names_match_kafka() -> None:
    assert [each.kafka_name for each in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
