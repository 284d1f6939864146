"""Random members of a share group take, acknowledge, release, renew, go, are slow; the broker dies. A simple model knows each offset alone.

Held: one member at most has a record; what was accepted or rejected is never delivered again; what was released is, until it was delivered
as often as it may be; nothing is passed over; the start offset is below everything that is not done with; a restart knows what was said.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minibroker.coordinator.share_partition.acknowledging import RELEASE, RENEW, Acknowledgement
from minibroker.coordinator.share_state.records import RecordState
from minibroker.errors import InvalidRecordState, InvalidRequest, KafkaStorageError
from tests.coordinator.share_partition.machine import LOCK_MS, Machine
from tests.support.soak import examples

MEMBERS = ("a", "b", "c")
LIMIT = 4  #: of deliveries
LOCKS = 25

members = st.sampled_from(MEMBERS)
kinds = st.sampled_from([0, 1, 1, RELEASE, RELEASE, 3, RENEW])


class Known:
    """What the model says of one offset."""

    def __init__(self) -> None:
        self.delivery_count = 0
        self.owner: str | None = None
        self.lock_ms = 0
        self.is_done = False


class ShareGroup(RuleBasedStateMachine):
    """The machine beside the model."""

    @initialize(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=6))
    def begin(self, sizes: list[int]) -> None:
        self.machine = Machine(*sizes, delivery_count_limit=LIMIT, max_locks=LOCKS)
        self.known: dict[int, Known] = {}
        self.persisted: dict[int, tuple[int, bool]] = {}  #: delivery count, and whether it is done, as far as that was said
        self.log_start_offset = 0

    def of(self, offset: int) -> Known:
        return self.known.setdefault(offset, Known())

    def release(self, offset: int) -> None:
        known = self.of(offset)
        known.owner = None
        known.is_done = known.delivery_count >= LIMIT
        self.persisted[offset] = (known.delivery_count, known.is_done)

    @rule(size=st.integers(1, 7), hole=st.sampled_from([0, 0, 0, 3]))
    def produce(self, size: int, hole: int) -> None:
        self.machine.produce(size, hole=hole)

    @rule(member=members, count=st.integers(1, 12), batches=st.integers(1, 4), is_strict=st.booleans(), batch_size=st.integers(1, 8))
    def acquire(self, member: str, count: int, batches: int, is_strict: bool, batch_size: int) -> None:
        fetch_offset = self.machine.share.records.next_fetch_offset()
        can_acquire = self.machine.share.can_acquire()
        found = self.machine.acquire(member, count, batches=batches, is_strict=is_strict, batch_size=batch_size)
        first_offset = next((batch.first_offset for batch in self.machine.log if batch.last_offset >= fetch_offset), fetch_offset)
        for offset, known in self.known.items() if can_acquire else ():
            if fetch_offset <= offset < first_offset and known.owner is None:
                known.is_done = True  # there is no such record
        assert found == sorted(found)
        taken = 0
        for each in found:
            assert each.first_offset <= each.last_offset
            for offset in range(each.first_offset, each.last_offset + 1):
                known = self.of(offset)
                assert (known.owner, known.is_done) == (None, False)
                assert offset >= self.log_start_offset
                known.delivery_count += 1
                assert known.delivery_count == each.delivery_count <= LIMIT
                known.owner, known.lock_ms = member, self.machine.clock.now_ms() + LOCK_MS
                taken += 1
        assert taken <= count or not is_strict
        in_log = {offset for batch in self.machine.log for offset in range(batch.first_offset, batch.last_offset + 1)}
        assert not found or any(offset in in_log for each in found for offset in range(each.first_offset, each.last_offset + 1))

    @rule(
        member=members,
        first=st.integers(0, 60),
        types=st.lists(kinds, min_size=1, max_size=9),
        is_broken=st.sampled_from([False] * 5 + [True]),
    )
    def acknowledge(self, member: str, first: int, types: list[int], is_broken: bool) -> None:
        offsets = range(first, first + len(types))
        start_offset = self.machine.share.records.start_offset
        self.machine.is_log_broken = is_broken
        try:
            self.machine.share.acknowledge(member, [Acknowledgement(first, offsets[-1], types)])
        except KafkaStorageError:
            assert is_broken
            return
        except (InvalidRecordState, InvalidRequest):
            above = [offset for offset in offsets if offset >= start_offset]
            assert any(offset not in self.known or self.known[offset].owner != member for offset in above)
            return
        finally:
            self.machine.is_log_broken = False
        for offset, kind in zip(offsets, types, strict=True):
            if offset < start_offset or offset not in self.known:
                continue
            known = self.known[offset]
            assert known.owner == member
            if kind == RENEW:
                known.lock_ms = self.machine.clock.now_ms() + LOCK_MS
            elif kind == RELEASE:
                self.release(offset)
            else:
                known.owner, known.is_done = None, True
                self.persisted[offset] = (known.delivery_count, True)

    @rule(member=members)
    def go(self, member: str) -> None:
        self.machine.share.release(member)
        for offset, known in self.known.items():
            if known.owner == member:
                self.release(offset)

    @rule(milliseconds=st.sampled_from([1_000, 10_000, LOCK_MS]))
    def wait(self, milliseconds: int) -> None:
        self.machine.clock.advance(milliseconds)
        for offset, known in self.known.items():
            if known.owner is not None and known.lock_ms <= self.machine.clock.now_ms():
                self.release(offset)

    @rule()
    def crash(self) -> None:
        self.machine.crash()
        known, self.known = self.known, {}
        for offset, (count, is_done) in self.persisted.items():
            self.of(offset).delivery_count = count
            self.of(offset).is_done = is_done
        for offset in known:
            if offset < self.machine.share.records.start_offset:
                self.of(offset).is_done = True

    @precondition(lambda self: len(self.machine.log) > 2)
    @rule()
    def retention(self) -> None:
        del self.machine.log[0]
        self.log_start_offset = self.machine.log[0].first_offset
        self.machine.share.begin_at(self.log_start_offset)
        for offset in list(self.known):
            if offset < self.log_start_offset:
                self.known[offset].owner, self.known[offset].is_done = None, True

    @invariant()
    def the_machine_says_the_same(self) -> None:
        records = self.machine.share.records
        ends = [(batch.first_offset, batch.last_offset) for batch in records.batches]
        assert all(before[1] < after[0] for before, after in pairwise(ends))
        assert records.start_offset <= records.next_offset
        assert records.batches or records.start_offset == records.next_offset
        for run in records.runs():
            for offset in range(run.first_offset, run.last_offset + 1):
                known = self.of(offset)
                assert (known.owner or "", known.delivery_count) == (run.member_id, run.delivery_count)
                assert known.is_done == run.state.is_terminal
        for offset, known in self.known.items():
            if not known.is_done and known.delivery_count and offset >= self.log_start_offset:
                assert offset >= records.start_offset
        first = next((run.first_offset for run in records.runs() if run.state is RecordState.AVAILABLE), records.next_offset)
        assert records.next_fetch_offset() == first
        assert records.delivery_complete_count == sum(run.record_count for run in records.runs() if run.state.is_terminal)

    @invariant()
    def what_is_persisted_is_true(self) -> None:
        state = self.machine.state
        for batch in state.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                assert self.persisted[offset] == (batch.delivery_count, batch.delivery_state != 0)
        assert all(
            self.persisted.get(offset, (0, True))[1] for offset in range(self.log_start_offset, state.start_offset) if offset in self.known
        )


ShareGroup.TestCase.settings = examples(120, stateful_step_count=40)
TestShareGroup = ShareGroup.TestCase
