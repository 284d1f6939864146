"""The log of a partition of a coordinator's topic, read a piece at a time: a turn of the loop reads one, and serves everything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minibroker.cluster.partition import Partition
from minibroker.errors import CorruptMessage
from minibroker.log.partition_log import PartitionLog
from minibroker.records.batch import RecordBatch, split_batches

READ_BYTES: Final = 64 * 1024  #: at one time: 800 committed offsets, which are 20 ms with all that is done with them


def read_pieces(partition: Partition) -> Iterator[tuple[int, list[RecordBatch]]]:
    """Yield the batches of each piece and their size in bytes. The caller checks their CRC, as `check` does.

    Raises:
        KafkaError: The log cannot be read, or a batch has an impossible length.
    """
    if partition.is_unopened:
        return
    log = partition.log
    offset, size = log.log_start_offset, READ_BYTES
    while offset < log.log_end_offset:
        batches = list(split_batches(log.read(offset, size, isolation=None)))
        if not batches:
            return  # compaction left nothing behind this offset
        if batches[-1].check_crc():
            next_offset = batches[-1].next_offset
        elif len(batches) > 1:  # only the batch after a damaged one says where that is: read both in the next piece
            next_offset = batches.pop().base_offset
        else:
            segment = next(iter(log.segments.from_offset(offset)))
            if size < segment.size:
                size *= 2
                continue
            next_offset = _offset_after(log, offset)
        yield sum(batch.size for batch in batches), batches
        offset, size = next_offset, READ_BYTES


def _offset_after(log: PartitionLog, offset: int) -> int:
    """Where the next segment begins."""
    following = log.segments.after(next(iter(log.segments.from_offset(offset))))
    return log.log_end_offset if following is None else following.base_offset


def check(batch: RecordBatch) -> None:
    """Raise CorruptMessage if the CRC is wrong: a start after a clean stop does not look at batches."""
    if not batch.check_crc():
        raise CorruptMessage(f"the batch at offset {batch.base_offset} is damaged")
