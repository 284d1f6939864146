"""Read from a partition's files where committed readers stop, and which transactions were aborted."""

from __future__ import annotations

import logging

from minibroker.errors import CorruptLogError, CorruptMessage, KafkaError
from minibroker.records.any_format import decode_records, read_batch
from minibroker.records.control import ControlType, parse_control_key
from minibroker.spark.kafka_log.folder import PartitionFolder, SegmentFile, TransactionScan
from minibroker.spark.kafka_log.options import AbortedRange
from minibroker.storage import producer_snapshot
from minibroker.storage.batch_scan import TransactionalHeader, read_transactional
from minibroker.storage.files import read_all
from minibroker.storage.log_file_names import SNAPSHOT, TRANSACTION_INDEX, file_name
from minibroker.storage.transaction_index import TransactionIndex

logger = logging.getLogger(__name__)


def last_stable_offset(folder: PartitionFolder) -> int:
    """Return the first offset of the oldest open transaction, or the log's end."""
    return min(_scanned(folder).ongoing.values(), default=folder.end.offset)


def _scanned(folder: PartitionFolder) -> TransactionScan:
    """Scan transactions up to the log's end, from the end of an earlier scan or from the newest snapshot of producers."""
    scan = folder.transactions or _newest_snapshot(folder)
    if scan.offset < folder.end.offset:
        ongoing, aborted = dict(scan.ongoing), list(scan.aborted)
        for segment in folder.segments_from(scan.offset):
            position = 0
            if scan.offset > segment.base_offset:
                position = scan.position if scan.base_offset == segment.base_offset else segment.start_for(scan.offset)
            try:
                for header in read_transactional(folder.files, segment.handle, position, folder.end_of(segment)):
                    if header.base_offset < scan.offset:
                        continue
                    if not header.is_control:
                        ongoing.setdefault(header.producer_id, header.base_offset)
                    elif header.producer_id in ongoing:
                        first_offset = ongoing.pop(header.producer_id)
                        if _is_abort(folder, segment, header):
                            aborted.append(AbortedRange(header.producer_id, first_offset, header.base_offset))
            except CorruptMessage as error:
                folder.damaged(str(error))
        scan = TransactionScan(folder.end.offset, ongoing, tuple(aborted), folder.segments[-1].base_offset, folder.end.position)
    folder.transactions = scan
    return scan


def _is_abort(folder: PartitionFolder, segment: SegmentFile, header: TransactionalHeader) -> bool:
    batch = read_batch(folder.files.read_at(segment.handle.opened(), header.size, header.position))
    try:
        return any(parse_control_key(record.key) is ControlType.ABORT for record in decode_records(batch))
    except KafkaError as error:
        folder.damaged(f"{segment.path}: {error} in the marker at position {header.position}")
        return False


def _newest_snapshot(folder: PartitionFolder) -> TransactionScan:
    """Return the newest readable snapshot of producers; without one, the log's start, where no transaction is open."""
    for offset in reversed(folder.snapshot_offsets):
        if not folder.log_start_offset <= offset <= folder.end.offset:
            continue
        path = f"{folder.directory}/{file_name(offset, SNAPSHOT)}"
        try:
            entries = producer_snapshot.decode(read_all(folder.files, path))
        except (CorruptLogError, FileNotFoundError) as error:
            logger.warning("%s: %s; using an older snapshot", path, error)
            continue
        ongoing = {each.producer_id: each.current_txn_first_offset for each in entries if each.current_txn_first_offset >= 0}
        return TransactionScan(offset, ongoing)
    return TransactionScan(folder.log_start_offset, {})


def aborted_ranges(folder: PartitionFolder, start_offset: int, end_offset: int) -> tuple[AbortedRange, ...]:
    """Return the aborted transactions that overlap [start_offset, end_offset). CorruptLogError for an unreadable index.

    They come from the transaction indexes and from the markers at the log's end, since a broker writes a marker
    before its index entry.
    """
    found = {each for each in _scanned(folder).aborted if each.last_offset >= start_offset and each.first_offset < end_offset}
    for segment in folder.segments_from(start_offset):
        path = f"{folder.directory}/{file_name(segment.base_offset, TRANSACTION_INDEX)}"
        entries, is_complete = TransactionIndex(folder.files, path, segment.base_offset).collect(start_offset, end_offset)
        found |= {AbortedRange(each.producer_id, each.first_offset, each.last_offset) for each in entries}
        if is_complete:
            break
    return tuple(sorted(found, key=lambda each: each.first_offset))
