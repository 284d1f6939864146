"""Steps as records: what Apache Kafka 4.3.1 wrote reads back to the byte, and is what our state machine would have written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.coordinator.stored_topic import partition_of
from minibroker.coordinator.transaction.records import (
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
    _value,
    decode,
    encode,
    replay,
)
from minibroker.coordinator.transaction.states import Decision, add_partitions, complete, end_transaction, expire, fence, init_producer_id
from minibroker.errors import WireError
from minibroker.records.record import Record
from minibroker.schemas.internal.transaction_records import TransactionLogKey, TransactionLogValue
from minibroker.storage.record_frame import TRANSACTION_STATE
from tests.storage.test_record_frame import segments, stored

SEGMENTS = sorted(name for name in segments() if name.startswith("__transaction_state"))
each_segment = pytest.mark.parametrize("segment", SEGMENTS)


def records_of(segment: str) -> list[Record]:
    return [each.record for each in stored(segment)]


def steps(segment: str) -> Iterator[tuple[TransactionMetadata | None, TransactionMetadata, int]]:
    """Each step of each id: from, to, and the version of its record."""
    states: dict[str, TransactionMetadata] = {}
    for record in records_of(segment):
        decoded = decode(record.key, record.value)
        assert decoded is not None
        transactional_id, after = decoded
        assert after is not None
        yield states.get(transactional_id), after, int.from_bytes((record.value or b"")[:2], "big")
        states[transactional_id] = after


@each_segment
def test_kafka_records_round_trip(segment: str) -> None:
    same = 0
    for record in records_of(segment):
        decoded = decode(record.key, record.value)
        assert decoded is not None
        transactional_id, metadata = decoded
        assert metadata is not None
        found = TRANSACTION_STATE.decode(record.key, record.value)
        assert found is not None
        key, value = encode(metadata, transaction_version=found.version * 2)
        assert key == record.key
        assert value is not None
        assert decode(key, value) == (transactional_id, metadata)
        assert len(value) == len(record.value or b"")
        partitions = [(each.topic, number) for each in found.value.transaction_partitions or () for number in each.partition_ids]
        if partitions == sorted(partitions):  # Kafka's order is that of a hash set
            assert value == record.value
            same += 1
    assert same > 20


def decided(before: TransactionMetadata | None, after: TransactionMetadata) -> TransactionMetadata | None:
    """What our state machine makes of the request that must have led from `before` to `after`."""
    now_ms = after.last_update_timestamp_ms
    if before is None or after.state is TransactionState.EMPTY:
        return _taken_over(before, after).after
    if after.state is TransactionState.ONGOING:
        return add_partitions(
            before,
            before.ids,
            after.partitions - before.partitions,
            now_ms=now_ms,
            client_transaction_version=after.client_transaction_version,
        ).after
    if after.state.is_prepared and not after.client_transaction_version and before.ids != after.ids:  # at transaction.version 0 or 1
        return fence(before, now_ms=now_ms, transaction_version=1, allocate_producer_id=lambda: -1)
    if after.state.is_prepared:
        return end_transaction(
            before,
            before.ids,
            commit=after.state is TransactionState.PREPARE_COMMIT,
            now_ms=now_ms,
            client_transaction_version=after.client_transaction_version,
            allocate_producer_id=lambda: 0,
        ).after
    return complete(before, now_ms=now_ms)


def _taken_over(before: TransactionMetadata | None, after: TransactionMetadata) -> Decision:
    arguments: dict[str, Any] = {
        "now_ms": after.last_update_timestamp_ms,
        "transaction_version": 2,
        "allocate_producer_id": lambda: after.producer_id,
    }
    expected = None
    if before is not None and before.ids == after.ids:  # a retry
        expected = ProducerIdAndEpoch(before.producer_id, before.producer_epoch - 1)
        before = before._replace(last_producer_epoch=before.producer_epoch - 1)
    return init_producer_id(before, after.transactional_id, after.timeout_ms, expected, **arguments)


@each_segment
def test_kafka_steps_match_the_state_machine(segment: str) -> None:
    for before, after, version in steps(segment):
        ours = decided(before, after)
        assert ours is not None
        assert decode(*encode(ours, transaction_version=version)) == (after.transactional_id, after)


def test_golden_steps_cover_every_kind() -> None:
    kinds = {(after.state, after.client_transaction_version) for segment in SEGMENTS for _, after, _ in steps(segment)}
    assert kinds >= {(state, version) for state in list(TransactionState)[:6] for version in (0, 2)} - {
        (TransactionState.PREPARE_ABORT, 0),
        (TransactionState.COMPLETE_ABORT, 0),
    }


@each_segment
def test_partition_of_each_id_matches_kafka(segment: str) -> None:
    partition = int(segment.split("/", maxsplit=1)[0].rpartition("-")[2])
    for _, after, _ in steps(segment):
        assert partition_of(after.transactional_id, len(SEGMENTS)) == partition


METADATA = TransactionMetadata(
    transactional_id="payments",
    producer_id=7,
    producer_epoch=32_767,
    timeout_ms=60_000,
    state=TransactionState.PREPARE_COMMIT,
    last_update_timestamp_ms=9,
    start_timestamp_ms=3,
    partitions=frozenset({("b", 0), ("a", 2), ("a", 1)}),
    previous_producer_id=7,
    next_producer_id=8,
    last_producer_epoch=32_766,
    client_transaction_version=2,
)


_ID = st.integers(-1, 2**63 - 1)
_MS = st.integers(-1, 2**63 - 1)


@given(
    st.builds(
        TransactionMetadata,
        transactional_id=st.text(min_size=1, max_size=5) | st.just("i" * 32_767),
        producer_id=_ID,
        producer_epoch=st.integers(-1, 32_767),
        timeout_ms=st.integers(0, 2**31 - 1),
        state=st.sampled_from(sorted(set(TransactionState) - {TransactionState.DEAD})),
        last_update_timestamp_ms=_MS,
        start_timestamp_ms=_MS,
        partitions=st.frozensets(st.tuples(st.text(max_size=3) | st.just("t" * 200), st.integers(0, 2**31 - 1)), max_size=20),
        previous_producer_id=_ID,
        next_producer_id=_ID,
        client_transaction_version=st.sampled_from([0, 2]),
    )
)
def test_fast_encoding_of_a_state_matches_the_codec(metadata: TransactionMetadata) -> None:
    key = TransactionLogKey(transactional_id=metadata.transactional_id)
    expected = TRANSACTION_STATE.encode_key(key), TRANSACTION_STATE.encode_value(key, _value(metadata), 1)
    assert encode(metadata, transaction_version=2) == expected


def test_stored_fields_by_transaction_version() -> None:
    assert decode(*encode(METADATA, transaction_version=1)) == ("payments", METADATA._replace(last_producer_epoch=-1))
    oldest = METADATA._replace(last_producer_epoch=-1, previous_producer_id=-1, next_producer_id=-1, client_transaction_version=0)
    assert decode(*encode(METADATA, transaction_version=0)) == ("payments", oldest)


def test_last_record_of_an_id_is_its_state() -> None:
    done = complete(METADATA, now_ms=10)
    other = METADATA._replace(transactional_id="other")
    tombstone = encode(expire(done), transaction_version=2)
    assert tombstone == (TRANSACTION_STATE.encode_key(TransactionLogKey(transactional_id="payments")), None)
    log = [encode(each, transaction_version=2) for each in (METADATA, other, done)]
    assert replay(log) == {"payments": done._replace(last_producer_epoch=-1), "other": other._replace(last_producer_epoch=-1)}
    assert set(replay([*log, tombstone])) == {"other"}
    assert set(replay([*log, tombstone, (b"\0\x63 a newer Kafka's", b"\0\0"), log[0]])) == {"payments", "other"}
    assert set(replay([tombstone])) == set()


@pytest.mark.parametrize(
    ("status", "partitions", "words"), [(8, [], "state 8"), (-1, [], "state -1"), (1, None, "Ongoing without partitions")]
)
def test_invalid_state_is_refused(status: int, partitions: list[Any] | None, words: str) -> None:
    key = TransactionLogKey(transactional_id="payments")
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=status,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=-1,
    )
    with pytest.raises(WireError, match=words):
        decode(TRANSACTION_STATE.encode_key(key), TRANSACTION_STATE.encode_value(key, value, 1))
