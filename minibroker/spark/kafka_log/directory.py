"""Find the partitions in log directories, and read from their files which transactions are open or aborted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from minibroker.errors import CorruptLogError, CorruptMessage, KafkaError
from minibroker.records.any_format import decode_records, read_batch
from minibroker.records.control import ControlType, parse_control_key
from minibroker.spark.failures import OptionError
from minibroker.spark.kafka_log.folder import PartitionFolder, SegmentFile, TransactionScan
from minibroker.spark.kafka_log.options import AbortedRange, ReadOptions
from minibroker.storage import producer_snapshot
from minibroker.storage.batch_scan import TransactionalHeader, read_transactional
from minibroker.storage.checkpoint_file import LOG_START_OFFSET, OffsetCheckpoint
from minibroker.storage.directory_files import META_PROPERTIES
from minibroker.storage.files import Files, read_all
from minibroker.storage.log_file_names import LOG, SNAPSHOT, TRANSACTION_INDEX, file_name, parse_file_name, parse_folder_name
from minibroker.storage.transaction_index import TransactionIndex

logger = logging.getLogger(__name__)


def open_folders(files: Files, options: ReadOptions) -> list[PartitionFolder]:
    """Return the requested partitions, sorted by topic and number; OptionError for a missing directory or topic."""
    found = {}
    for path in options.paths:
        for topic, partition, directory, log_start_offset in _partitions(files, path):
            if options.wants(topic, partition):
                found[topic, partition] = PartitionFolder(
                    files, directory, topic, partition, log_start_offset=log_start_offset, is_permissive=options.is_permissive
                )
    named = options.assigned or frozenset()
    missing = {f"{topic}-{partition}" for topic, partition in named if (topic, partition) not in found}
    missing |= (options.topics or frozenset()) - {topic for topic, _ in found}
    if missing:
        raise OptionError(f"{', '.join(sorted(missing))}: no such topic or partition in {', '.join(options.paths)}")
    return [found[key] for key in sorted(found)]


def _partitions(files: Files, path: str) -> Iterator[tuple[str, int, str, int]]:
    """Yield topic, partition, folder and log start offset of each partition in a log directory, or of the partition folder `path`."""
    try:
        names = files.names(path)
    except FileNotFoundError:
        raise OptionError(f"{path} does not exist") from None
    except NotADirectoryError:
        raise OptionError(f"{path} is a file; kafka-log reads a broker's log directory") from None
    folder = path.rpartition("/")[2]
    if _holds_segments(names):
        directory = path[: -len(folder) - 1]
        try:
            topic, partition = parse_folder_name(folder)
        except ValueError:
            raise OptionError(f"{path} holds segments, but its name is not topic-partition") from None
        yield topic, partition, path, _log_start_offsets(files, directory).get((topic, partition), 0)
        return
    partitions = []
    for name in names:
        try:
            partitions.append((*parse_folder_name(name), f"{path}/{name}"))
        except ValueError:
            continue  # checkpoints, folders of deleted partitions
    if META_PROPERTIES not in names:  # other folders have such names too: /etc has dbus-1
        partitions = [each for each in partitions if _has_segments(files, each[2])]
    if not partitions and META_PROPERTIES not in names:
        raise OptionError(
            f"{path} is not a Kafka log directory: it has neither {META_PROPERTIES} nor a folder topic-partition with segments"
        )
    starts = _log_start_offsets(files, path)
    for topic, partition, directory in partitions:
        yield topic, partition, directory, starts.get((topic, partition), 0)


def _holds_segments(names: Iterable[str]) -> bool:
    return any((parsed := parse_file_name(name)) and parsed[1] == LOG for name in names)


def _has_segments(files: Files, directory: str) -> bool:
    try:
        return _holds_segments(files.names(directory))
    except OSError:  # a file, or no permission
        return False


def _log_start_offsets(files: Files, directory: str) -> dict[tuple[str, int], int]:
    """Return the checkpoint of log start offsets; empty if it is missing or damaged: the first segments apply then."""
    try:
        return OffsetCheckpoint(files, f"{directory}/{LOG_START_OFFSET}").read()
    except CorruptLogError:
        return {}


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
