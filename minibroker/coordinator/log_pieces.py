"""The log of a partition of a coordinator's topic, read a piece at a time: a turn of the loop reads one, and serves everything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minibroker.cluster.partition import Partition
from minibroker.errors import CorruptMessage
from minibroker.records.batch import RecordBatch, split_batches

READ_BYTES: Final = 64 * 1024  #: at one time: 800 committed offsets, which are 20 ms with all that is done with them


def read_pieces(partition: Partition) -> Iterator[tuple[int, list[RecordBatch]]]:
    """Its size in bytes and the batches of each piece; KafkaError, CorruptMessage where a byte is wrong."""
    if partition.is_unopened:
        return
    offset = partition.log.log_start_offset
    while offset < partition.log.log_end_offset:
        data = partition.log.read(offset, READ_BYTES, isolation=None)
        batches = list(split_batches(data))
        for batch in batches:
            if not batch.check_crc():  # of a log that was closed cleanly nobody has looked at it
                raise CorruptMessage(f"the batch at offset {batch.base_offset} is damaged")
        if not batches:
            return  # compaction left nothing behind this offset
        yield len(data), batches
        offset = batches[-1].next_offset
