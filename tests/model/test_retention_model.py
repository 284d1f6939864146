"""A log under retention, with a clock that is advanced, jumps and goes back, against a plain list of its records.

Whatever happened, the log is the end of the list from its log start on, look-ups by time find what a search through that list finds,
and a check deletes exactly the segments that the rules name: no record too many, none too few.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import TimestampOffset
from minibroker.storage.files import RealFiles
from tests.support.log_batches import batch_of, read_values
from tests.support.soak import examples

SECOND = 1000
NEVER = 1 << 60


class RetentionMachine(RuleBasedStateMachine):
    """`records` holds value and timestamp by offset."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock()
        self.records: list[tuple[bytes, int]] = []
        self.retention_ms, self.retention_bytes = -1, -1

    @initialize(
        segment_bytes=st.sampled_from([150, 400, 1 << 30]),
        segment_ms=st.sampled_from([10 * SECOND, NEVER]),
        index_interval_bytes=st.sampled_from([0, 150, 4096]),
        timestamp_type=st.sampled_from(["CreateTime", "CreateTime", "LogAppendTime"]),
        has_background=st.booleans(),
    )
    def open_new(self, has_background: bool, **config: Any) -> None:
        config["message_timestamp_type"] = config.pop("timestamp_type")
        self.config = LogConfig(file_delete_delay_ms=0, message_timestamp_after_max_ms=NEVER, retention_ms=-1, **config)
        self.background = InlineBackground() if has_background else None
        self.open(clean_shutdown=False)

    def open(self, **arguments: Any) -> None:
        self.log = PartitionLog.open(
            self.folder / "orders-0", config=self.config, files=RealFiles(), clock=self.clock, background=self.background, **arguments
        )

    @rule(age_ms=st.sampled_from([0, 1, SECOND, 5 * SECOND, 60 * SECOND, -SECOND, -60 * SECOND]), count=st.integers(1, 3))
    def append(self, age_ms: int, count: int) -> None:
        now_ms = self.clock.now_ms()
        values = [b"%d" % (len(self.records) + index) for index in range(count)]
        self.log.append(batch_of(*values, timestamp=now_ms - age_ms))
        is_stamped = self.config.message_timestamp_type == "LogAppendTime"
        self.records += [(value, now_ms if is_stamped else now_ms - age_ms + index) for index, value in enumerate(values)]

    @rule()
    def append_without_timestamp(self) -> None:
        value = b"%d" % len(self.records)
        self.log.append(batch_of(value, timestamp=-1))
        self.records.append((value, self.clock.now_ms() if self.config.message_timestamp_type == "LogAppendTime" else -1))

    @rule(delta_ms=st.sampled_from([1, SECOND, 10 * SECOND, 100 * SECOND]))
    def time_passes(self, delta_ms: int) -> None:
        self.clock.advance(delta_ms)

    @rule(delta_ms=st.sampled_from([-3600 * SECOND, -SECOND, SECOND, 3600 * SECOND]))
    def the_clock_is_set(self, delta_ms: int) -> None:
        self.clock.jump(delta_ms)

    @rule(retention_ms=st.sampled_from([-1, 1, SECOND, 30 * SECOND]), retention_bytes=st.sampled_from([-1, 0, 40, 500, 2000]))
    def limit(self, retention_ms: int, retention_bytes: int) -> None:
        self.retention_ms, self.retention_bytes = retention_ms, retention_bytes
        self.config = self.config._replace(retention_ms=retention_ms, retention_bytes=retention_bytes)
        self.log.update_config(self.config)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.log.advance_log_start_offset(data.draw(st.integers(self.log.log_start_offset, len(self.records))))

    @rule()
    def check(self) -> None:
        before = [(segment.base_offset, segment.size) for segment in self.log.segments]
        start = self.log.log_start_offset
        expected = self.expected_start(before)
        self.log.retention.enforce(self.clock.now_ms())
        assert self.log.log_start_offset == max(expected, start)
        first = self.log.segments.nth(0).base_offset
        assert first == expected or first == start == len(self.records)  # all was deleted, and the segment that grew has rolled
        assert self.log.retention.enforce(self.clock.now_ms()) == 0

    def expected_start(self, segments: list[tuple[int, int]]) -> int:
        """Base offset of the first segment that is to stay, by the records alone."""
        ends = [base_offset for base_offset, _ in segments[1:]] + [len(self.records)]
        gone = 0
        while gone + 1 < len(segments) and ends[gone] <= self.log.log_start_offset:
            gone += 1
        while gone < len(segments) and segments[gone][1]:
            rest = sum(size for _, size in segments[gone + 1 :])
            newest = max(timestamp for _, timestamp in self.records[segments[gone][0] : ends[gone]])
            is_over = 0 <= newest < self.clock.now_ms() - self.retention_ms and self.retention_ms >= 0  # the file's own time is in 2026
            if not (0 <= self.retention_bytes <= rest or is_over):
                break
            gone += 1
        return segments[gone][0] if gone < len(segments) else len(self.records)

    @rule()
    def stop_and_start(self) -> None:
        start = self.log.log_start_offset
        self.log.close()
        self.open(clean_shutdown=True, recovery_point=len(self.records), log_start_offset=start)

    @rule()
    def kill_and_start(self) -> None:
        start, recovery_point = self.log.log_start_offset, self.log.flusher.recovery_point
        self.log._release("killed")
        self.open(recovery_point=recovery_point, log_start_offset=start)

    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        start = self.log.log_start_offset
        kept = [TimestampOffset(timestamp, start + index, 0) for index, (_, timestamp) in enumerate(self.records[start:])]
        times = sorted({each.timestamp for each in kept if each.timestamp >= 0} | {self.clock.now_ms()})
        target = data.draw(st.sampled_from(times)) + data.draw(st.sampled_from([-1, 0, 1]))
        assert self.log.timestamps.offset_for_timestamp(target) == next((each for each in kept if each.timestamp >= target), None)
        largest = max(kept, key=lambda each: each.timestamp, default=None)
        assert self.log.timestamps.max_timestamp_offset() == (largest if largest and largest.timestamp >= 0 else None)

    @invariant()
    def the_log_is_the_end_of_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        start = self.log.log_start_offset
        assert self.log.log_end_offset == self.log.high_watermark == len(self.records)
        assert read_values(self.log) == {start + index: value for index, (value, _) in enumerate(self.records[start:])}
        assert not list(self.folder.rglob("*.deleted"))

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log._release("over")
        shutil.rmtree(self.folder)


TestRetentionMachine = RetentionMachine.TestCase
TestRetentionMachine.settings = examples(stateful_step_count=30)
