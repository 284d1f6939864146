"""One log with transactions against a plain model, through rolls, flushes, deletions, a held high watermark, stops and deaths.

A reader of committed records gets exactly what the model says, from wherever it begins; the last stable offset never goes back and never
passes an open transaction; the lists of aborted transactions are exact for any range; the log's producers know what is open.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minibroker.clock import ManualClock
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.control import ControlType
from minibroker.storage.files import RealFiles
from tests.support.compacting import end_transaction
from tests.support.log_batches import batch_of, idempotent_batch
from tests.support.soak import examples
from tests.support.transactional_logs import committed_values

PRODUCERS = st.integers(1, 4)
LOST = st.sampled_from(["", "*.snapshot", "*.txnindex", "*.index"])


class TransactionalLog(RuleBasedStateMachine):
    """The log, and what is known of it."""

    @initialize(segment_bytes=st.sampled_from([300, 1000, 1 << 20]))
    def open_first(self, segment_bytes: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=100, file_delete_delay_ms=0)
        self._values: dict[int, bytes] = {}  #: of records that count, or will if they are committed
        self._open: dict[int, list[int]] = {}  #: offsets of the records of open transactions
        self._aborted: list[tuple[int, int, int]] = []  #: producer id, first offset, offset of the marker
        self._producers: dict[int, tuple[int, int]] = {}  #: epoch and next sequence
        self._count = self._start = self._synced = self._stable = 0
        self._held_at: int | None = None
        self._reopen(clean=False)

    def _reopen(self, *, clean: bool) -> None:
        self._log = PartitionLog.open(
            Path(self._folder.name) / "orders-0",
            config=self._config,
            files=RealFiles(),
            clock=ManualClock(),
            clean_shutdown=clean,
            recovery_point=self._synced,
            log_start_offset=self._start,
        )

    def teardown(self) -> None:
        if hasattr(self, "_log"):
            self._log.close(clean=False)
            self._folder.cleanup()

    # What happens

    @rule(count=st.integers(1, 3))
    def write_plainly(self, count: int) -> None:
        offset = self._log.append(batch_of(*self._some_values(count))).base_offset
        self._values |= {offset + index: value for index, value in enumerate(self._some_values(count))}
        self._count += 1

    @rule(producer_id=PRODUCERS, count=st.integers(1, 3))
    def write_into_a_transaction(self, producer_id: int, count: int) -> None:
        epoch, sequence = self._producers.get(producer_id, (0, 0))
        values = self._some_values(count)
        batch = idempotent_batch(producer_id, sequence, *values, epoch=epoch, is_transactional=True)
        offset = self._log.append(batch).base_offset
        self._producers[producer_id] = epoch, sequence + count
        self._open.setdefault(producer_id, []).extend(range(offset, offset + count))
        self._values |= {offset + index: value for index, value in enumerate(values)}
        self._count += 1

    @rule(producer_id=PRODUCERS, ends=st.sampled_from([ControlType.ABORT, ControlType.COMMIT]), bumps=st.booleans())
    def end(self, producer_id: int, ends: ControlType, *, bumps: bool) -> None:
        epoch, sequence = self._producers.get(producer_id, (0, 0))
        if bumps:
            epoch, sequence = epoch + 1, 0
        marker = end_transaction(self._log, producer_id, ends, epoch=epoch)
        if producer_id in self._producers or bumps:
            self._producers[producer_id] = epoch, sequence
        offsets = self._open.pop(producer_id, [])
        if ends is ControlType.ABORT and offsets:
            self._aborted.append((producer_id, offsets[0], marker))
            for offset in offsets:
                del self._values[offset]

    @precondition(lambda self: self._log.segments.active.size)
    @rule()
    def roll(self) -> None:
        self._log._roll()

    @rule()
    def flush(self) -> None:
        self._log.flusher.flush()
        self._synced = self._log.flusher.recovery_point

    @rule()
    def hold_or_release(self) -> None:
        if self._held_at is None:
            self._held_at = self._log.high_watermark
            self._log.hold()
        else:
            self._held_at = None
            self._log.release()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self._start = data.draw(st.integers(self._log.log_start_offset, self._log.high_watermark))
        self._log.advance_log_start_offset(self._start)

    @rule(clean=st.booleans(), lost=LOST)
    def restart(self, *, clean: bool, lost: str) -> None:
        self._log.close(clean=clean)
        self._held_at = None
        if clean:
            self._synced = self._log.log_end_offset
        if lost and not (self._start and lost == "*.snapshot"):  # where an open transaction began may be known to a snapshot alone
            for path in Path(self._log.directory).glob(lost):
                path.unlink()
        self._reopen(clean=clean)

    def _some_values(self, count: int) -> list[bytes]:
        return [b"%d-%d" % (self._count, index) * 9 for index in range(count)]

    # What holds

    @invariant()
    def offsets_are_in_order(self) -> None:
        log = self._log
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert log.last_stable_offset >= self._stable
        self._stable = log.last_stable_offset
        if self._held_at is None:
            oldest = min((offsets[0] for offsets in self._open.values()), default=log.log_end_offset)
            assert log.last_stable_offset == max(oldest, log.log_start_offset)
        assert {each.producer_id: each.first_offset for each in log.producers.list_open_transactions()} == {
            producer_id: offsets[0] for producer_id, offsets in self._open.items()
        }

    @invariant()
    def readers_get_what_is_committed(self) -> None:
        log = self._log
        committed = {offset: value for offset, value in self._values.items() if offset < log.last_stable_offset}
        for begin in {log.log_start_offset, (log.log_start_offset + log.last_stable_offset) // 2}:
            found = committed_values(log, begin, 300)
            assert found == {offset: value for offset, value in committed.items() if offset >= begin}


Test: Callable[..., object] = TransactionalLog.TestCase
TransactionalLog.TestCase.settings = examples(
    40, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
