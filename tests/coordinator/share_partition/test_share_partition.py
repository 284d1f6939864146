"""A share partition cell by cell: who gets which records, what becomes of them, and what a restart knows."""

from __future__ import annotations

import pytest

from minibroker.coordinator.share_partition.acknowledging import Acknowledgement
from minibroker.coordinator.share_partition.acquiring import Acquired, Extent
from minibroker.coordinator.share_state.records import StateBatch
from minibroker.errors import InvalidRecordState, InvalidRequest, KafkaStorageError
from tests.coordinator.share_partition.machine import LOCK_MS, Machine

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


# Acquiring


def test_records_are_acquired_by_one_member() -> None:
    machine = Machine(3, 3, 3)
    assert machine.acquire("a", 3) == [Acquired(0, 2, 1)]
    assert machine.acquire("b", 500) == [Acquired(3, 8, 1)]
    assert machine.acquire("c", 500) == []


def test_acquisition_limit_is_rounded_up_to_a_batch() -> None:
    assert Machine(3, 3, 3).acquire("a", 4) == [Acquired(0, 5, 1)]


def test_strict_acquisition_limit_is_exact() -> None:
    machine = Machine(3, 3, 3)
    assert machine.acquire("a", 4, is_strict=True) == [Acquired(0, 3, 1)]
    assert machine.acquire("b", 4, is_strict=True) == [Acquired(4, 7, 1)]


def test_acquired_ranges_of_a_batch_size_end_at_batch_boundaries() -> None:
    assert Machine(3, 3, 3, 3).acquire("a", batch_size=4) == [Acquired(0, 5, 1), Acquired(6, 11, 1)]
    assert Machine(3, 3, 3, 3).acquire("a", 500, batch_size=4, is_strict=True) == [Acquired(0, 11, 1)]


def test_number_of_in_flight_records_is_limited() -> None:
    machine = Machine(4, 4, 4, max_locks=6)
    assert machine.offsets() == [*range(8)]  # a batch is not divided
    assert machine.offsets() == []
    machine.acknowledge(2, 2, RELEASE)
    assert machine.offsets() == [2]  # not new, so it may be had
    assert machine.offsets() == []
    machine.acknowledge(0, 3, ACCEPT)
    assert machine.offsets() == [*range(8, 12)]


def test_released_records_are_acquired_first() -> None:
    machine = Machine(10, 10)
    machine.acquire("a", 10)
    machine.acknowledge(0, 9, *[ACCEPT, RELEASE] * 5)
    assert machine.acquire("b", 3) == [
        Acquired(1, 1, 2), Acquired(3, 3, 2), Acquired(5, 5, 2), Acquired(7, 7, 2), Acquired(9, 9, 2)
    ]  # fmt: skip
    assert machine.acquire("b", 3) == [Acquired(10, 19, 1)]


def test_compacted_records_are_skipped() -> None:
    machine = Machine(3, 3, 3)
    machine.acquire("a", batches=1)
    machine.acquire("a", batches=1)
    machine.acknowledge(0, 5, RELEASE)
    machine.compact(0)
    assert machine.acquire("a") == [Acquired(3, 5, 2), Acquired(6, 8, 1)]
    machine.acknowledge(3, 8, ACCEPT)
    assert machine.share.records.start_offset == 9


def test_gap_in_the_log_is_skipped() -> None:
    machine = Machine(3)
    machine.produce(3, hole=5)
    assert machine.acquire("a", batches=1) == [Acquired(0, 2, 1)]
    assert machine.acquire("a", batches=1) == [Acquired(8, 10, 1)]
    machine.acknowledge(0, 2, ACCEPT)
    assert machine.share.records.start_offset == 8
    machine.acknowledge(8, 10, ACCEPT)
    assert machine.share.records.start_offset == 11


def test_aborted_records_are_not_delivered() -> None:
    machine = Machine(3, 3, 3)
    machine.acquire()
    machine.share.archive_aborted([Extent(0, 2), Extent(6, 8)])
    assert (machine.share.records.start_offset, machine.updates) == (3, [])
    with pytest.raises(InvalidRecordState):
        machine.acknowledge(6, 8, ACCEPT)
    machine.acknowledge(3, 5, ACCEPT)
    assert machine.share.records.start_offset == 9
    assert machine.state.delivery_complete_count == 6


def test_log_start_offset_advances() -> None:
    machine = Machine(5, 5)
    machine.acquire("a", batches=1)
    machine.share.begin_at(3)
    assert machine.share.records.start_offset == 3
    machine.acknowledge(0, 4, ACCEPT)  # what is below is passed over
    assert machine.share.records.start_offset == 5
    machine.share.begin_at(8)
    assert machine.offsets(batches=2) == [8, 9]


# Acknowledging


def test_acknowledged_records_are_not_delivered_again() -> None:
    machine = Machine(4)
    machine.acquire()
    machine.acknowledge(0, 3, ACCEPT, RELEASE, REJECT, GAP)
    assert machine.persisted() == (StateBatch(0, 0, 2, 1), StateBatch(1, 1, 0, 1), StateBatch(2, 3, 4, 1))
    assert machine.acquire("b") == [Acquired(1, 1, 2)]
    machine.acknowledge(1, 1, ACCEPT, member="b")
    assert machine.share.records.start_offset == 4
    assert machine.acquire("b") == []
    assert machine.share.records.record_count == 0


def test_only_the_owner_may_acknowledge() -> None:
    machine = Machine(4, 4)
    machine.acquire("a", 4)
    with pytest.raises(InvalidRecordState, match="Member is not the owner of batch record"):
        machine.acknowledge(0, 3, ACCEPT, member="b")
    machine.acknowledge(0, 0, RELEASE)
    with pytest.raises(InvalidRecordState, match="Member is not the owner of offset"):
        machine.acknowledge(1, 3, ACCEPT, member="b")
    with pytest.raises(InvalidRecordState, match="The offset is not acquired"):
        machine.acknowledge(0, 3, ACCEPT)
    machine.acknowledge(1, 3, RELEASE)
    with pytest.raises(InvalidRecordState):
        machine.acknowledge(1, 3, ACCEPT)


def test_offsets_not_in_flight_are_refused() -> None:
    machine = Machine(4, 4)
    with pytest.raises(InvalidRecordState, match="not found in the cache"):
        machine.acknowledge(0, 3, ACCEPT)
    machine.acquire("a", 4)
    with pytest.raises(InvalidRequest, match="The first offset in request is past acquired records"):
        machine.acknowledge(4, 5, ACCEPT)
    with pytest.raises(InvalidRequest, match="The last offset in request is past acquired records"):
        machine.acknowledge(3, 4, ACCEPT)
    with pytest.raises(InvalidRequest, match=r"Invalid acknowledge type: \[5\]"):
        machine.acknowledge(0, 3, 5)


def test_acknowledgement_is_atomic() -> None:
    machine = Machine(4, 4)
    machine.acquire("a", 4)
    machine.acquire("b", 4)
    with pytest.raises(InvalidRecordState):
        machine.share.acknowledge("a", [Acknowledgement(0, 3, [ACCEPT]), Acknowledgement(4, 7, [ACCEPT])])
    assert machine.updates == []
    machine.is_log_broken = True
    with pytest.raises(KafkaStorageError):
        machine.acknowledge(0, 3, ACCEPT)
    machine.is_log_broken = False
    machine.acknowledge(0, 3, ACCEPT)
    assert machine.share.records.start_offset == 4


def test_acknowledgement_spanning_several_batches() -> None:
    machine = Machine(4, 4)
    machine.acquire("a", 4)
    machine.acquire("a", 4)
    machine.share.acknowledge("a", [Acknowledgement(0, 1, [RELEASE]), Acknowledgement(2, 5, [ACCEPT]), Acknowledgement(6, 7, [REJECT])])
    assert machine.persisted() == (StateBatch(0, 1, 0, 1), StateBatch(2, 5, 2, 1), StateBatch(6, 7, 4, 1))


def test_persisted_start_offset_is_from_before_the_write() -> None:
    """As Kafka does it: it moves behind the write."""
    machine = Machine(4, 4)
    machine.acquire()
    machine.acknowledge(0, 1, ACCEPT)
    machine.acknowledge(4, 5, ACCEPT)
    assert [(each.start_offset, each.delivery_complete_count) for each in machine.updates] == [(0, 2), (2, 2)]


# Deliveries


def test_record_is_archived_at_the_delivery_count_limit() -> None:
    machine = Machine(1, delivery_count_limit=3)
    for count in (1, 2, 3):
        assert machine.acquire() == [Acquired(0, 0, count)]
        machine.acknowledge(0, 0, RELEASE)
    assert machine.acquire() == []
    assert machine.share.records.start_offset == 1
    assert machine.persisted() == (StateBatch(0, 0, 4, 3),)


def test_repeatedly_delivered_records_are_split() -> None:
    """KIP-1206's worst case: one bad record in a batch of a hundred must not take the others with it."""
    machine = Machine(100, 10, delivery_count_limit=5)
    for _ in range(3):
        found = machine.acquire("a", 100)
        assert found[0].last_offset == 99
        machine.acknowledge(0, 99, RELEASE)
    assert machine.acquire("a") == [Acquired(0, 49, 4)]
    assert machine.acquire("b") == [Acquired(50, 99, 4)]
    machine.acknowledge(0, 49, RELEASE)
    machine.acknowledge(50, 99, ACCEPT, member="b")
    assert machine.acquire("a") == [Acquired(0, 0, 5)]
    assert machine.acquire("b") == [Acquired(1, 1, 5)]
    assert machine.share.records.next_fetch_offset() == 2


# Time and members


def test_acquisition_lock_times_out() -> None:
    machine = Machine(2, 2)
    machine.acquire("a", 2)
    machine.clock.advance(10_000)
    machine.acquire("b", 2)
    machine.clock.advance(LOCK_MS - 10_000)
    assert machine.woken == 1
    assert machine.acquire("c") == [Acquired(0, 1, 2)]
    with pytest.raises(InvalidRecordState):
        machine.acknowledge(0, 1, ACCEPT)
    machine.acknowledge(2, 3, ACCEPT, member="b")
    machine.acknowledge(0, 1, ACCEPT, member="c")
    assert machine.share.records.start_offset == 4


def test_clock_set_back_at_most_doubles_the_lock_duration() -> None:
    machine = Machine(2, 2)
    machine.acquire("a", 2)
    machine.clock.advance(10_000)
    machine.clock.jump(-86_400_000)
    machine.acquire("b", 2)
    machine.clock.advance(LOCK_MS)
    assert machine.offsets("c") == [0, 1, 2, 3]
    machine.clock.jump(-86_400_000)
    machine.clock.advance(2 * LOCK_MS)
    assert machine.offsets("d") == [0, 1, 2, 3]


def test_acquisition_lock_times_out_even_if_it_cannot_be_persisted() -> None:
    machine = Machine(2)
    machine.acquire("a")
    machine.is_log_broken = True
    machine.clock.advance(LOCK_MS)
    assert machine.acquire("b") == [Acquired(0, 1, 2)]


def test_renewed_lock_restarts_its_timeout() -> None:
    machine = Machine(4)
    machine.acquire("a")
    machine.clock.advance(20_000)
    machine.acknowledge(1, 2, RENEW)
    assert machine.updates == []
    machine.clock.advance(10_000)
    assert machine.offsets("b") == [0, 3]
    machine.clock.advance(20_000)
    assert machine.offsets("c") == [1, 2]


def test_renewal_is_refused_if_disabled() -> None:
    machine = Machine(4, may_renew=False)
    machine.acquire("a")
    with pytest.raises(InvalidRecordState, match="Renewing acquisition locks is not enabled"):
        machine.acknowledge(0, 3, RENEW)


def test_leaving_member_releases_its_records() -> None:
    machine = Machine(2, 2)
    machine.acquire("a", 2)
    machine.acquire("b", 2)
    machine.share.release("a")
    assert machine.persisted() == (StateBatch(0, 1, 0, 1),)
    assert machine.acquire("b") == [Acquired(0, 1, 2)]


# Restarts


def test_acknowledgements_survive_a_restart() -> None:
    machine = Machine(4, 4, 4)
    machine.acquire("a", 4)
    machine.acquire("a", 4)
    machine.acquire("b", 4)
    machine.acknowledge(4, 7, ACCEPT, RELEASE, ACCEPT, RELEASE)
    machine.crash()
    # 0 to 3 and 8 to 11 were somebody's: nobody knows of their delivery any more
    assert machine.acquire("c", 4, batches=3) == [Acquired(0, 3, 1)]
    assert machine.acquire("c", 2, batches=3) == [Acquired(5, 5, 2), Acquired(7, 7, 2)]
    assert machine.acquire("c", 9, batches=3) == [Acquired(8, 11, 1)]


def test_unacknowledged_records_are_delivered_as_new_after_a_restart() -> None:
    machine = Machine(4, 4, 4)
    machine.acquire("a", 12)
    machine.acknowledge(10, 10, ACCEPT)
    machine.crash()
    assert machine.acquire("b", 1, batches=1) == [Acquired(0, 3, 1)]
    assert machine.acquire("b", 2, is_strict=True) == [Acquired(4, 5, 1)]
    assert machine.acquire("b", 500) == [Acquired(6, 9, 1), Acquired(11, 11, 1)]
    machine.acknowledge(0, 9, ACCEPT, member="b")
    assert machine.share.records.start_offset == 11


def test_start_offset_survives_a_restart() -> None:
    machine = Machine(4)
    machine.acquire()
    machine.acknowledge(0, 3, ACCEPT)
    machine.crash()
    assert machine.share.records.start_offset == 4
    assert machine.acquire() == []
