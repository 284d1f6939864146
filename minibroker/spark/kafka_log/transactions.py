"""What the files of a partition say about transactions: how far committed readers may go, and what was aborted."""

from __future__ import annotations

import logging

from minibroker.errors import CorruptLogError, CorruptMessage
from minibroker.spark.kafka_log.folder import PartitionFolder
from minibroker.spark.kafka_log.ranges import AbortedRange
from minibroker.storage import producer_snapshot
from minibroker.storage.batch_scan import read_transactional
from minibroker.storage.files import read_all
from minibroker.storage.log_file_names import SNAPSHOT, TRANSACTION_INDEX, file_name
from minibroker.storage.transaction_index import TransactionIndex

logger = logging.getLogger(__name__)


def last_stable_offset(folder: PartitionFolder) -> int:
    """The first offset of the oldest transaction that is open, or the log's end.

    The newest snapshot of producers that can be read tells what was open at its offset; batches behind it tell the rest.
    """
    offset, ongoing = _newest_snapshot(folder)
    for segment in folder.segments_from(offset):
        position = segment.start_for(offset) if offset > segment.base_offset else 0
        try:
            for header in read_transactional(folder.files, segment.handle, position, folder.end_of(segment)):
                if header.base_offset < offset:
                    continue
                if header.is_control:
                    ongoing.pop(header.producer_id, None)
                else:
                    ongoing.setdefault(header.producer_id, header.base_offset)
        except CorruptMessage as error:
            folder.damaged(str(error))
    return min(ongoing.values(), default=folder.end.offset)


def _newest_snapshot(folder: PartitionFolder) -> tuple[int, dict[int, int]]:
    """Its offset and the first offsets of open transactions by producer; where the log starts, and nothing, when there is none."""
    for offset in reversed(folder.snapshot_offsets):
        if not folder.log_start_offset <= offset <= folder.end.offset:
            continue
        path = f"{folder.directory}/{file_name(offset, SNAPSHOT)}"
        try:
            entries = producer_snapshot.decode(read_all(folder.files, path))
        except (CorruptLogError, FileNotFoundError) as error:
            logger.warning("%s: %s; an older one is used", path, error)
            continue
        return offset, {each.producer_id: each.current_txn_first_offset for each in entries if each.current_txn_first_offset >= 0}
    return folder.log_start_offset, {}


def aborted_ranges(folder: PartitionFolder, start_offset: int, end_offset: int) -> tuple[AbortedRange, ...]:
    """The aborted transactions that touch [start_offset, end_offset). CorruptLogError when an index cannot be read."""
    found = []
    for segment in folder.segments_from(start_offset):
        path = f"{folder.directory}/{file_name(segment.base_offset, TRANSACTION_INDEX)}"
        entries, is_complete = TransactionIndex(folder.files, path, segment.base_offset).collect(start_offset, end_offset)
        found += [AbortedRange(each.producer_id, each.first_offset, each.last_offset) for each in entries]
        if is_complete:
            break
    return tuple(found)
