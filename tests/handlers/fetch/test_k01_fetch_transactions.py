"""Fetch under read_committed: its end, the aborted transactions of any range, and when a parked one is woken."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from unittest.mock import Mock

import pytest

from minibroker.records.any_format import split_batches
from minibroker.records.builder import build_batch
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.records.record import Record
from minibroker.schemas import k01_fetch as schema
from minibroker.storage.file_slice import LEAST_SIZE, FileSlice
from tests.support.broker_in_memory import BrokerInMemory, frame_of, records
from tests.support.committed_records import committed_batches
from tests.support.compiled import skip_if_compiled

LIMIT = 1 << 20
SEEDS = range(4)
PRODUCERS = range(3)


class Log:
    """orders-0, written by transactions; `committed` is what a reader must find: first values of batches by offset."""

    def __init__(self, **configs: str) -> None:
        self.broker = BrokerInMemory(topics={"orders": 1})
        self.broker.cluster.configs.alter_topic("orders", {name.replace("_", "."): value for name, value in configs.items()})
        self.partition = self.broker.cluster.partition("orders", 0)
        self.producers = [self.broker.cluster.metadata.allocate_producer_id() for _ in PRODUCERS]
        self.committed: dict[int, int] = {}  #: offset -> records
        self._sequences = dict.fromkeys(self.producers, 0)
        self._open: dict[int, dict[int, int]] = {}

    def write(self, producer: int, count: int = 1) -> int:
        sequence = self._sequences[producer]
        self._sequences[producer] += count
        batch = records(count, producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        offset = self.broker.append("orders", 0, batch).base_offset
        self._open.setdefault(producer, {})[offset] = count
        return offset

    def plain(self) -> int:
        offset = self.broker.append("orders", 0, records(1)).base_offset
        self.committed[offset] = 1
        return offset

    def end(self, producer: int, ends: ControlType) -> None:
        self.partition.end_transaction(EndTransactionMarker(ends, 0), producer_id=producer, producer_epoch=0, transaction_version=0)
        written = self._open.pop(producer, {})
        if ends is ControlType.COMMIT:
            self.committed |= written

    def request(self, offset: int, *, max_bytes: int = LIMIT, wait_ms: int = 0, min_bytes: int = 1, isolation: int = 1) -> schema.Request:
        partition = schema.Partition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
        topics = [schema.Topic(topic="orders", partitions=[partition])]
        return schema.Request(max_wait_ms=wait_ms, min_bytes=min_bytes, isolation_level=isolation, topics=topics)

    def fetch(self, offset: int, max_bytes: int = LIMIT) -> schema.PartitionResult:
        return result_of(self.broker.ask(self.request(offset, max_bytes=max_bytes), 12))


def result_of(response: schema.Response) -> schema.PartitionResult:
    ((result,),) = [topic.partitions for topic in response.responses]
    assert result.error_code == 0
    return result


def visible(result: schema.PartitionResult) -> dict[int, int]:
    """Counts of records by the first offset of their batch."""
    return {batch.base_offset: batch.record_count for batch in committed_batches(result)}


def end_of(result: schema.PartitionResult, offset: int) -> int:
    return max((batch.next_offset for batch in split_batches(result.records or b"")), default=offset)


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    yield log
    log.broker.cluster.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("after", ["as it is", "stopped", "killed"])
def test_read_committed_returns_exactly_the_committed_records(seed: int, after: str) -> None:
    """Small segments, so that transactions span them, and markers lie in others than their records."""
    rng = Random(seed)
    log = Log(segment_bytes="300", index_interval_bytes="1")
    for _ in range(60):
        producer = rng.choice(log.producers)
        step = rng.choice(("write", "write", "commit", "abort", "plain"))
        if step == "write":
            log.write(producer, rng.randint(1, 3))
        elif step == "plain":
            log.plain()
        else:
            log.end(producer, ControlType.COMMIT if step == "commit" else ControlType.ABORT)
    broker = log.broker
    if after != "as it is":
        log.broker = log.broker.restart(clean=after == "stopped")
    stable_offset = log.broker.cluster.partition("orders", 0).log.last_stable_offset
    assert stable_offset > 20
    for offset in range(stable_offset):
        for max_bytes in (1, 150, 400, LIMIT):
            result = log.fetch(offset, max_bytes)
            end_offset = end_of(result, offset)
            begins = next(batch.base_offset for batch in split_batches(result.records or b""))
            assert begins <= offset < end_offset <= stable_offset == result.last_stable_offset
            assert visible(result) == {at: count for at, count in log.committed.items() if begins <= at < end_offset}
    log.broker.cluster.close()
    del broker


def test_fetch_stops_at_the_first_open_transaction(log: Log) -> None:
    first, second = log.producers[:2]
    log.plain()
    log.write(first)
    log.plain()
    log.write(second)
    log.end(second, ControlType.COMMIT)
    result = log.fetch(0)
    assert (end_of(result, 0), result.last_stable_offset, result.high_watermark) == (1, 1, 5)
    for offset in (1, 3, 5):
        assert end_of(log.fetch(offset), offset) == offset  # nothing yet, and no error
    log.end(first, ControlType.ABORT)
    result = log.fetch(1)
    assert (result.last_stable_offset, list(visible(result))) == (6, [2, 3])


def test_abort_is_reported_to_a_reader_starting_inside_it(log: Log) -> None:
    producer = log.producers[0]
    first = log.write(producer)
    for _ in range(3):
        log.write(producer)
    log.end(producer, ControlType.ABORT)
    log.plain()
    for offset in range(first, first + 5):
        result = log.fetch(offset).aborted_transactions
        assert result == [schema.AbortedTransaction(producer_id=producer, first_offset=first)]
    assert log.fetch(first + 5).aborted_transactions == []


def test_abort_after_the_returned_records_is_not_reported(log: Log) -> None:
    log.plain()
    log.write(log.producers[0])
    log.end(log.producers[0], ControlType.ABORT)
    assert log.fetch(0, max_bytes=1).aborted_transactions == []
    assert len(log.fetch(0).aborted_transactions or ()) == 1


def test_aborted_transactions_do_not_disable_sendfile(log: Log) -> None:
    log.write(log.producers[0])
    log.end(log.producers[0], ControlType.ABORT)
    large = build_batch([Record(0, log.broker.clock.now_ms(), None, bytes(LEAST_SIZE))])
    log.broker.append("orders", 0, bytes(large))
    answer = log.broker.dispatcher.dispatch(log.broker.connection, frame_of(log.request(0, max_bytes=2 * LEAST_SIZE), 12))
    assert isinstance(answer, list)
    chunks: list[object] = [*answer]
    assert any(isinstance(chunk, FileSlice) and len(chunk) > LEAST_SIZE for chunk in chunks)
    assert len(log.fetch(0, max_bytes=2 * LEAST_SIZE).aborted_transactions or ()) == 1


class TestWaiting:
    @pytest.mark.parametrize("min_bytes", [1, 100, 150])
    @pytest.mark.parametrize("ends", [ControlType.COMMIT, ControlType.ABORT])
    def test_end_of_a_transaction_completes_the_fetch(self, log: Log, ends: ControlType, min_bytes: int) -> None:
        log.write(log.producers[0])
        pending = log.broker.begin(log.request(0, wait_ms=500, min_bytes=min_bytes), 12)
        log.write(log.producers[0], 20)
        log.broker.clock.advance(1)
        assert not pending.is_done
        log.end(log.producers[0], ends)
        log.broker.clock.advance(0)
        assert list(visible(result_of(pending.answer()))) == ([0, 1] if ends is ControlType.COMMIT else [])

    def test_records_after_an_open_transaction_do_not_count_for_min_bytes(self, log: Log) -> None:
        size = len(records(1))
        log.write(log.producers[0])
        pending = log.broker.begin(log.request(0, wait_ms=500, min_bytes=3 * size), 12)
        for _ in range(20):
            log.plain()
        log.broker.clock.advance(499)
        assert not pending.is_done
        log.broker.clock.advance(1)
        assert end_of(result_of(pending.answer()), 0) == 0

    def test_min_bytes_counts_newly_stable_records(self, log: Log) -> None:
        """The end of one transaction lets the reader see up to the next one that is open: too little."""
        first, second = log.producers[:2]
        log.write(first)
        log.write(second, 5)
        pending = log.broker.begin(log.request(0, wait_ms=500, min_bytes=200), 12)
        log.end(first, ControlType.COMMIT)
        log.broker.clock.advance(1)
        assert not pending.is_done
        log.end(second, ControlType.COMMIT)
        log.broker.clock.advance(0)
        assert list(visible(result_of(pending.answer()))) == [0, 1]

    def test_appends_of_an_open_transaction_are_not_even_read(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        skip_if_compiled()
        reads = Mock(wraps=log.partition.log.slice)
        monkeypatch.setattr(log.partition.log, "slice", reads)
        log.write(log.producers[0])
        pending = log.broker.begin(log.request(0, wait_ms=500), 12)
        for _ in range(5):
            log.write(log.producers[0])
            log.broker.clock.advance(0)
        assert (pending.is_done, reads.call_count) == (False, 1)

    def test_without_transactions_every_append_counts(self, log: Log) -> None:
        pending = log.broker.begin(log.request(0, wait_ms=500, min_bytes=3 * len(records(1))), 12)
        for done in (False, False, True):
            log.plain()
            log.broker.clock.advance(0)
            assert pending.is_done is done

    def test_read_uncommitted_does_not_wait_for_transactions(self, log: Log) -> None:
        pending = log.broker.begin(log.request(0, wait_ms=500, isolation=0), 12)
        log.write(log.producers[0])
        log.broker.clock.advance(0)
        assert result_of(pending.answer()).aborted_transactions is None
        assert end_of(result_of(pending.answer()), 0) == 1
