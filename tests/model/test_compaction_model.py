"""A compacted log against a dictionary, while the clock goes on, rounds end early, and the broker stops or dies.

Whoever reads from the start to the end knows the newest value of every key. Every record that is there is one that was written, at its
offset. Of what was compacted there is one record a key, and none of a tombstone whose time is over. A transaction is open from its first
record to its marker and never again, whatever compaction took of it; nothing from the oldest open one on is compacted; a reader who leaves
out what `aborted_transactions` lists sees no aborted record.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from minibroker.clock import ManualClock
from minibroker.log.batch_filter import BYTES_A_KEY
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records
from minibroker.records.compression import Compression
from minibroker.records.control import ControlType, read_marker
from minibroker.storage.files import RealFiles
from tests.support.compacting import COMPACT, KeyValue, end_transaction, keyed_batch, left_in, sent
from tests.support.log_batches import read_batches
from tests.support.soak import examples

DELETE_RETENTION_MS = 1000
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e" * 60, b"f" * 61])
VALUES = st.one_of(st.none(), st.binary(max_size=2), st.just(b"v" * 90))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5)
CODECS = st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4])


class CompactedLog(RuleBasedStateMachine):
    """The log, and what it must hold."""

    @initialize(segment_bytes=st.sampled_from([1000, 1500, 4000]))
    def open_first(self, segment_bytes: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._clock = ManualClock()
        self._config = LogConfig(
            cleanup_policy=COMPACT,
            segment_bytes=segment_bytes,
            index_interval_bytes=1,
            delete_retention_ms=DELETE_RETENTION_MS,
            file_delete_delay_ms=0,
        )
        self._dirty = 0
        self._written: dict[int, KeyValue] = {}
        self._void: set[int] = set()
        self._sequences: dict[int, int] = {}
        self._last_sent: dict[int, tuple[list[KeyValue], int, int]] = {}
        self._producer_id = 100
        self._transactions: dict[int, list[int]] = {}  #: offsets of the records of open ones, by producer id
        self._met_ms: dict[int, int] = {}  #: when a compaction first met the tombstone at an offset
        self._open(clean=False)

    def _open(self, *, clean: bool) -> None:
        self._log = PartitionLog.open(
            Path(self._folder.name) / "orders-0",
            config=self._config,
            files=RealFiles(),
            clock=self._clock,
            clean_shutdown=clean,
            producer_id_expiration_ms=2**60,
        )

    def teardown(self) -> None:
        if hasattr(self, "_log"):
            self._log.close()
            self._folder.cleanup()

    def _append(self, pairs: list[KeyValue], **options: Any) -> int:
        base_offset = self._log.append(keyed_batch(*pairs, timestamp=self._clock.now_ms(), **options)).base_offset
        self._written.update({base_offset + index: pair for index, pair in enumerate(pairs)})
        return base_offset

    @rule(pairs=PAIRS, codec=CODECS)
    def produce(self, pairs: list[KeyValue], codec: Compression) -> None:
        self._append(pairs, compression=codec)

    @rule(pairs=PAIRS, producer_id=st.integers(1, 3))
    def produce_idempotently(self, pairs: list[KeyValue], producer_id: int) -> None:
        """The next batch follows the last one, whatever was compacted."""
        sequence = self._sequences.get(producer_id, 0)
        self._append(pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        self._sequences[producer_id] = sequence + len(pairs)
        self._last_sent[producer_id] = (pairs, sequence, self._clock.now_ms())

    @rule(pairs=PAIRS, ends=st.sampled_from([ControlType.ABORT, ControlType.COMMIT]))
    def produce_in_a_transaction(self, pairs: list[KeyValue], ends: ControlType) -> None:
        self._producer_id += 1
        base_offset = self._append(pairs, is_transactional=True, producer_id=self._producer_id, producer_epoch=0, base_sequence=0)
        if ends is ControlType.ABORT:
            self._void.update(range(base_offset, base_offset + len(pairs)))
        end_transaction(self._log, self._producer_id, ends)

    @rule(pairs=PAIRS, producer_id=st.integers(11, 13))
    def write_into_a_transaction(self, pairs: list[KeyValue], producer_id: int) -> None:
        sequence = self._sequences.get(producer_id, 0)
        producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        base_offset = self._append(pairs, is_transactional=True, **producer)
        self._sequences[producer_id] = sequence + len(pairs)
        self._transactions.setdefault(producer_id, []).extend(range(base_offset, base_offset + len(pairs)))

    @precondition(lambda self: self._transactions)
    @rule(ends=st.sampled_from([ControlType.ABORT, ControlType.COMMIT]), data=st.data())
    def end_a_transaction(self, ends: ControlType, data: st.DataObject) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self._transactions)))
        offsets = self._transactions.pop(producer_id)
        if ends is ControlType.ABORT:
            self._void.update(offsets)
        end_transaction(self._log, producer_id, ends)

    @rule()
    def roll(self) -> None:
        if self._log.segments.active.size:
            self._log._roll()

    @rule(milliseconds=st.sampled_from([1, 400, 1000]))
    def wait(self, milliseconds: int) -> None:
        self._clock.advance(milliseconds)

    @precondition(lambda self: self._log.log_end_offset > self._dirty)
    @rule(keys=st.sampled_from([1, 3, 1000]), meanwhile=st.lists(PAIRS, max_size=3))
    def compact(self, keys: int, meanwhile: list[list[KeyValue]]) -> None:
        now_ms = self._clock.now_ms()
        if not self._log.compaction.cleanable(self._dirty, now_ms).dirty_bytes:
            self.roll()
        if not self._log.compaction.cleanable(self._dirty, now_ms).dirty_bytes:
            assert self._transactions  # it is held back
            return
        plan = self._log.compaction.plan(self._dirty, now_ms, offset_map_bytes=keys * BYTES_A_KEY)
        assert plan is not None
        for pairs in meanwhile:
            self._append(pairs)
        compacted = sent(sent(plan).run(RealFiles()))
        assert self._log.compaction.swap_in(compacted)
        assert compacted.next_dirty_offset <= self._log.last_stable_offset
        assert compacted.next_dirty_offset > self._dirty
        self._dirty = compacted.next_dirty_offset
        self._check_values()
        self._check_compacted(now_ms)

    def _check_compacted(self, now_ms: int) -> None:
        below = {offset: pair for offset, pair in self._records().items() if offset < self._dirty}
        assert len({key for key, _ in below.values()}) == len(below)
        assert not [offset for offset in left_in(self._log) if offset < self._dirty and offset in self._void]
        for offset, (_, value) in below.items():
            if value is None:
                assert now_ms < self._met_ms.setdefault(offset, now_ms) + DELETE_RETENTION_MS or self._may_be_met_anew(offset)

    def _may_be_met_anew(self, offset: int) -> bool:
        """A batch gets its horizon when it is written anew, so the clock of a tombstone is that of its batch."""
        for batch in read_batches(self._log, offset)[:1]:
            return batch.has_delete_horizon and batch.base_timestamp > self._clock.now_ms()
        return False

    @rule(clean=st.booleans(), forgets=st.booleans())
    def restart(self, *, clean: bool, forgets: bool) -> None:
        self._log.close(clean=clean)
        self._open(clean=clean)
        if forgets:
            self._dirty = 0  # the checkpoint was lost
        self._check_values()
        for producer_id, (pairs, sequence, timestamp) in self._last_sent.items():
            batch = keyed_batch(*pairs, timestamp=timestamp, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            assert self._log.append(batch).duplicate

    def _records(self) -> dict[int, KeyValue]:
        """What a reader gets that leaves out aborted records and markers."""
        markers = {batch.base_offset for batch in read_batches(self._log) if batch.is_control}
        return {offset: pair for offset, pair in left_in(self._log).items() if offset not in self._void | markers}

    def _check_committed(self) -> None:
        """What a consumer makes of it who asks for committed records only, as clients do: by the list, up to the next marker."""
        stable = self._log.last_stable_offset
        aborted = sorted(self._log.aborted_transactions(0, stable - 1), key=lambda each: each.first_offset)
        ongoing: set[int] = set()
        for batch in read_batches(self._log):
            if batch.base_offset >= stable:
                break
            while aborted and aborted[0].first_offset <= batch.last_offset:
                ongoing.add(aborted.pop(0).producer_id)
            if batch.is_control:
                marker = read_marker(batch)
                if marker is not None and marker.control_type is ControlType.ABORT:
                    ongoing.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in ongoing:
                assert {record.offset for record in decode_records(batch)} <= self._void
            else:
                assert not {record.offset for record in decode_records(batch)} & self._void

    def _check_values(self) -> None:
        """Every key has its newest value, and transactions are as they were."""
        assert {each.producer_id: each.first_offset for each in self._log.producers.list_open_transactions()} == {
            producer_id: offsets[0] for producer_id, offsets in self._transactions.items()
        }
        assert self._log.last_stable_offset == min((each[0] for each in self._transactions.values()), default=self._log.log_end_offset)
        self._check_committed()
        found = self._records()
        assert found.items() <= self._written.items()
        newest = {key: value for offset, (key, value) in self._written.items() if offset not in self._void}
        read = dict(found.values())
        assert {key: value for key, value in read.items() if value is not None} == {
            key: value for key, value in newest.items() if value is not None
        }


Test: Callable[..., object] = CompactedLog.TestCase
CompactedLog.TestCase.settings = examples(
    60, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
