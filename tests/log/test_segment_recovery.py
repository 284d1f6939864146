"""One pass over a segment gives what telling every batch, one after the other, gives: producers, epochs, offsets."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from minibroker.log.producer_state import ProducerState
from minibroker.log.segment_recovery import SegmentRecovery
from minibroker.records.any_format import split_batches
from minibroker.records.batch import assign_offsets
from minibroker.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from minibroker.storage.checkpoint_file import LeaderEpochCheckpoint
from minibroker.storage.files import RealFiles
from minibroker.storage.segment import Segment
from tests.support.log_batches import batch_of

LIMIT = 1 << 31


def some_log(seed: int) -> bytes:
    """Producers with and without transactions, epochs that rise, leader epochs, batches of nobody."""
    rng = random.Random(seed)
    epochs, sequences = dict.fromkeys(range(4), 0), dict.fromkeys(range(4), 0)
    data = bytearray()
    offset = leader_epoch = 0
    for _ in range(200):
        producer_id = rng.randrange(-1, 4)
        values = [rng.randbytes(rng.randrange(50)) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.05 and producer_id >= 0:
            epochs[producer_id] += 1
            sequences[producer_id] = 0
        leader_epoch += rng.random() < 0.02
        if producer_id < 0:
            batch = batch_of(*values)
        elif producer_id == 3 and rng.random() < 0.3:
            marker = EndTransactionMarker(rng.choice([ControlType.ABORT, ControlType.COMMIT]), 1)
            batch = memoryview(build_end_transaction_batch(marker, timestamp=rng.randrange(9000), producer_id=3, producer_epoch=epochs[3]))
        else:
            batch = batch_of(
                *values,
                producer_id=producer_id,
                producer_epoch=epochs[producer_id],
                base_sequence=sequences[producer_id],
                is_transactional=producer_id == 3,
            )
            sequences[producer_id] += len(values)
        assign_offsets(batch, offset, leader_epoch)
        offset = next(split_batches(batch)).next_offset
        data += batch
    return bytes(data)


def recovery_of(tmp_path: Path, data: bytes, producers: ProducerState) -> tuple[SegmentRecovery, Segment, LeaderEpochCheckpoint]:
    files = RealFiles()
    (tmp_path / "00000000000000000000.log").write_bytes(data)
    segment = Segment(files, str(tmp_path), 0, size=len(data), index_interval_bytes=500, index_max_bytes=1 << 20)
    epochs = LeaderEpochCheckpoint(files, f"{tmp_path}/leader-epoch-checkpoint")
    recovery = SegmentRecovery(
        segment, files, expected_offset=0, limit_offset=LIMIT, may_have_gaps=False, epochs=epochs, producers=producers
    )
    recovery.run()
    return recovery, segment, epochs


@pytest.mark.parametrize("seed", range(8))
def test_recovered_state_matches_every_batch(seed: int, tmp_path: Path) -> None:
    data = some_log(seed)
    expected, got = ProducerState(1000), ProducerState(1000)
    epochs: list[tuple[int, int]] = []
    for batch in split_batches(data):
        if batch.partition_leader_epoch > (epochs[-1][0] if epochs else -1):
            epochs.append((batch.partition_leader_epoch, batch.base_offset))
        if batch.producer_id >= 0:
            expected.update(batch, batch.base_offset)
    recovery, segment, checkpoint = recovery_of(tmp_path, data, got)
    assert (recovery.size, recovery.problem, recovery.next_offset) == (len(data), None, batch.next_offset)
    assert got.to_snapshot() == expected.to_snapshot()
    assert {key: producer.batches for key, producer in got.producers.items()} == {
        key: producer.batches for key, producer in expected.producers.items()
    }
    assert checkpoint.entries == epochs
    indexes = segment.offset_index.entries(), segment.time_index.entries(), segment.largest_timestamp(), segment.first_timestamp
    segment.rebuild_indexes()
    assert indexes == (segment.offset_index.entries(), segment.time_index.entries(), segment.largest_timestamp(), segment.first_timestamp)
    assert len(indexes[0]) > 10


def test_state_is_recovered_up_to_a_bad_batch(tmp_path: Path) -> None:
    data = bytearray(some_log(3))
    batches = list(split_batches(data))
    size = sum(batch.size for batch in batches[:120])
    expected, got = ProducerState(1000), ProducerState(1000)
    for batch in batches[:120]:
        if batch.producer_id >= 0:
            expected.update(batch, batch.base_offset)
    data[size + 40] ^= 1
    recovery, segment, _ = recovery_of(tmp_path, bytes(data), got)
    assert (recovery.size, recovery.next_offset) == (size, batches[120].base_offset)
    assert recovery.problem == "the CRC of the batch is wrong"
    assert got.to_snapshot() == expected.to_snapshot()
    assert max(entry.position for entry in segment.offset_index.entries()) < size
