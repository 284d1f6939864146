"""A partition's log against a plain list: whatever happens in whatever order, it holds what was appended and nothing else."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minibroker.clock import ManualClock
from minibroker.errors import OffsetOutOfRange, OutOfOrderSequenceNumber
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel, TimestampOffset
from minibroker.records.any_format import decode_records, split_batches
from minibroker.storage.files import RealFiles
from tests.support.log_batches import NOW_MS, batch_of, idempotent_batch, read_values
from tests.support.soak import examples

PRODUCER_ID = 77


class LogMachine(RuleBasedStateMachine):
    """`records` holds value and timestamp by offset; `kept_from` is the first offset that must still be readable."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.records: list[tuple[bytes, int]] = []
        self.batch_starts: list[int] = []
        self.sequence = 0
        self.sequences: dict[int, int] = {}  #: the sequence before each idempotent batch, by its offset
        self.start = 0

    @initialize(
        segment_bytes=st.sampled_from([200, 700, 5000, 1 << 30]),
        index_interval_bytes=st.sampled_from([0, 100, 4096]),
        max_open_files=st.sampled_from([1, 3, 100]),
    )
    def open_new(self, segment_bytes: int, index_interval_bytes: int, max_open_files: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes, file_delete_delay_ms=0)
        self.files = RealFiles(max_open_files=max_open_files)
        self.open(clean_shutdown=False)

    def open(self, **arguments: Any) -> None:
        self.log = PartitionLog.open(
            self.folder / "orders-0", config=self.config, files=self.files, clock=ManualClock(), log_start_offset=self.start, **arguments
        )

    def note(self, base_offset: int, values: list[bytes], timestamp: int) -> None:
        assert base_offset == len(self.records)
        self.batch_starts.append(base_offset)
        self.records += [(value, timestamp + index) for index, value in enumerate(values)]

    @rule(values=st.lists(st.binary(max_size=20), min_size=1, max_size=4), shift_ms=st.integers(-50, 50))
    def append(self, values: list[bytes], shift_ms: int) -> None:
        timestamp = NOW_MS + shift_ms
        self.note(self.log.append(batch_of(*values, timestamp=timestamp)).base_offset, values, timestamp)

    @rule(values=st.lists(st.binary(max_size=20), min_size=1, max_size=3))
    def append_idempotent(self, values: list[bytes]) -> None:
        data = idempotent_batch(PRODUCER_ID, self.sequence, *values)
        again = bytearray(data)
        appended = self.log.append(data)
        self.note(appended.base_offset, values, NOW_MS)
        assert self.log.append(memoryview(again)) == appended._replace(duplicate=True)
        self.sequences[appended.base_offset] = self.sequence
        self.sequence += len(values)

    @rule(gap=st.integers(1, 5))
    @precondition(lambda self: self.sequence > 0)
    def a_gap_is_refused(self, gap: int) -> None:
        with pytest.raises(OutOfOrderSequenceNumber):
            self.log.append(idempotent_batch(PRODUCER_ID, self.sequence + gap))

    @rule()
    def flush(self) -> None:
        self.log.flusher.flush()
        assert self.log.flusher.recovery_point == len(self.records)

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self.open(clean_shutdown=True, recovery_point=len(self.records))

    @rule(knows_recovery_point=st.booleans())
    def kill_and_start(self, knows_recovery_point: bool) -> None:
        recovery_point = self.log.flusher.recovery_point if knows_recovery_point else 0
        self.log._release("killed")
        self.open(recovery_point=recovery_point)

    @rule(data=st.data())
    @precondition(lambda self: len(self.batch_starts) > 0 and self.batch_starts[-1] >= self.start)
    def kill_in_the_last_append(self, data: st.DataObject) -> None:
        """The last batch is torn off at any byte, as if the kill had come during its write."""
        active = self.log.segments.active
        last = self.batch_starts[-1]
        header = active.find(last)
        if header is None or self.log.flusher.recovery_point > last:
            return
        cut = data.draw(st.integers(0, header.size - 1))
        self.log._release("killed")
        with Path(active.log.path).open("r+b") as file:
            file.truncate(header.position + cut)
        self.open()
        del self.records[self.batch_starts.pop() :]
        self.sequence = self.sequences.pop(last, self.sequence)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, len(self.records)))
        self.log.advance_log_start_offset(self.start)

    @rule(data=st.data(), max_bytes=st.sampled_from([1, 70, 200, 1000, 1 << 20]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(-1, len(self.records) + 1))
        if not self.start <= offset <= len(self.records):
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, max_bytes, isolation=IsolationLevel.READ_COMMITTED)
            return
        got = self.log.read(offset, max_bytes, isolation=IsolationLevel.READ_COMMITTED)
        if offset == len(self.records):
            assert not got
            return
        batches = list(split_batches(got))
        assert batches[0].base_offset == max(start for start in self.batch_starts if start <= offset)
        assert len(batches) == 1 or len(got) <= max_bytes
        for batch in batches:
            assert batch.check_crc()
            for record in decode_records(batch):
                assert self.records[record.offset] == (record.value, record.timestamp)

    @rule(data=st.data())
    def find_by_time(self, data: st.DataObject) -> None:
        target = data.draw(st.integers(NOW_MS - 55, NOW_MS + 60))
        kept = [TimestampOffset(time, offset, 0) for offset, (_, time) in enumerate(self.records) if offset >= self.start]
        expected = next((each for each in kept if each.timestamp >= target), None)
        assert self.log.timestamps.offset_for_timestamp(target) == expected

    @invariant()
    def offsets_are_in_order(self) -> None:
        if hasattr(self, "log"):
            log = self.log
            assert self.start == log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
            assert log.log_end_offset == len(self.records)
            assert log.flusher.recovery_point <= log.log_end_offset

    def teardown(self) -> None:
        if hasattr(self, "log"):
            values = read_values(self.log)
            assert values == {offset: value for offset, (value, _) in enumerate(self.records) if offset >= self.start}
            self.log.close()
            assert len(self.files.handles) == 0
        shutil.rmtree(self.folder)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = examples(150, stateful_step_count=40)
