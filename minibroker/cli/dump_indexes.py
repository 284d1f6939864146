"""Dump and check the small files beside a segment: `.index`, `.timeindex`, `.txnindex`, `.snapshot`, leader-epoch-checkpoint.

An entry of an index is checked against the batches of the segment beside it: it must name the last offset of a batch, and its
position or its largest timestamp. A running Kafka has zeros at the end of an index; they are not entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from minibroker.cli.dump_items import Item, problem
from minibroker.errors import CorruptLogError, KafkaError
from minibroker.storage import producer_snapshot, transaction_index
from minibroker.storage.batch_scan import BatchHeader, read_headers
from minibroker.storage.checkpoint_file import LeaderEpochCheckpoint
from minibroker.storage.files import READ_ONLY, FileHandle, HandlePool, RealFiles
from minibroker.storage.indexes import IndexFile, OffsetIndex, TimeIndex
from minibroker.storage.log_file_names import parse_file_name

ANY_SIZE = 2**31 - 1


def dump_offset_index(path: Path, *, show: bool, verify: bool) -> Iterator[Item]:
    """Dump the entries of an `.index`: `show` yields them, `verify` looks them up in the segment."""
    index = OffsetIndex(RealFiles(), str(path), _base_offset(path), ANY_SIZE)
    entries = index.entries()
    yield from _whole(path, index)
    previous = None
    for number, entry in enumerate(entries):
        if show:
            yield {"type": "offset_index_entry", "offset": entry.offset, "position": entry.position}
        if previous is not None and (entry.offset <= previous.offset or entry.position <= previous.position):
            yield problem(str(path), f"entry {number} (offset {entry.offset}) is not above the entry before it", number * 8)
        previous = entry
    if verify and entries:
        batches, broken = _headers_at(path, {entry.offset for entry in entries}, {entry.position for entry in entries})
        by_position = {header.position: header for header in batches}
        for number, entry in enumerate(entries):
            found = by_position.get(entry.position)
            if found is None and not (broken and entry.position >= broken["position"]):
                yield problem(str(path), f"no batch of the segment starts at its position {entry.position}", number * 8)
            elif found is not None and found.last_offset != entry.offset:
                yield problem(str(path), f"index offset {entry.offset}, log offset {found.last_offset}", number * 8)
        if broken:
            yield broken


def dump_time_index(path: Path, *, show: bool, verify: bool) -> Iterator[Item]:
    """Dump the entries of a `.timeindex`: `show` yields them, `verify` looks them up in the segment."""
    index = TimeIndex(RealFiles(), str(path), _base_offset(path), ANY_SIZE)
    entries = index.entries()
    yield from _whole(path, index)
    previous = None
    for number, entry in enumerate(entries):
        if show:
            yield {"type": "time_index_entry", "timestamp": entry.timestamp, "offset": entry.offset}
        if previous is not None and (entry.timestamp <= previous.timestamp or entry.offset <= previous.offset):
            yield problem(str(path), f"entry {number} (timestamp {entry.timestamp}) is not above the entry before it", number * 12)
        previous = entry
    if verify and entries:
        batches, broken = _headers_at(path, {entry.offset for entry in entries}, set())
        by_offset = {header.last_offset: header for header in batches}
        for number, entry in enumerate(entries):
            found = by_offset.get(entry.offset)
            if found is None and not broken:
                yield problem(str(path), f"no batch of the segment ends with its offset {entry.offset}", number * 12)
            elif found is not None and found.max_timestamp != entry.timestamp:
                yield problem(str(path), f"index timestamp {entry.timestamp}, log timestamp {found.max_timestamp}", number * 12)
        if broken:
            yield broken


def dump_transaction_index(path: Path) -> Iterator[Item]:
    """Dump the entries of a `.txnindex`."""
    try:
        entries = transaction_index.decode(path.read_bytes(), str(path))
    except CorruptLogError as error:
        yield problem(str(path), str(error).removeprefix(f"{path}: "))
        return
    for entry in entries:
        yield {"type": "aborted_transaction", "version": transaction_index.VERSION, **entry._asdict()}


def dump_producer_snapshot(path: Path) -> Iterator[Item]:
    """Dump the producers of a `.snapshot`."""
    try:
        entries = producer_snapshot.decode(path.read_bytes())
    except CorruptLogError as error:
        yield problem(str(path), str(error))
        return
    for entry in entries:
        has_batch = entry.last_sequence >= 0 or entry.last_offset >= 0
        first_sequence = (entry.last_sequence - entry.offset_delta) & 0x7FFFFFFF if entry.last_sequence >= 0 else -1
        yield {
            "type": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_first_offset": None if entry.current_txn_first_offset < 0 else entry.current_txn_first_offset,
            "timestamp": entry.timestamp,
            "first_sequence": first_sequence if has_batch else None,
            "last_sequence": entry.last_sequence if has_batch else None,
            "last_offset": entry.last_offset,
            "offset_delta": entry.offset_delta,
        }


def dump_leader_epochs(path: Path) -> Iterator[Item]:
    """Dump the epochs of a leader-epoch-checkpoint."""
    checkpoint = LeaderEpochCheckpoint(RealFiles(), str(path))
    try:
        checkpoint.load()
    except CorruptLogError as error:
        yield problem(str(path), str(error).removeprefix(f"{path}: "))
    for epoch, start_offset in checkpoint.entries:
        yield {"type": "leader_epoch", "epoch": epoch, "start_offset": start_offset}


def check_sanity(path: Path) -> Iterator[Item]:
    """Check an index for --index-sanity-check: complete entries in ascending order, none below the base offset."""
    dump = dump_offset_index if path.suffix == ".index" else dump_time_index
    problems = list(dump(path, show=False, verify=False))
    yield from problems or [{"type": "note", "note": f"{path} passed sanity check."}]


def _whole(path: Path, index: IndexFile) -> Iterator[Item]:
    if path.stat().st_size % index.ENTRY.size:
        yield problem(str(path), f"{path.stat().st_size} bytes are not a whole number of entries of {index.ENTRY.size} bytes")


def _headers_at(index_path: Path, offsets: set[int], positions: set[int]) -> tuple[list[BatchHeader], Item | None]:
    """Return the segment's batches that entries refer to, and where the segment cannot be read."""
    path = index_path.with_suffix(".log")
    if not path.exists():
        return [], problem(str(path), "the segment of the index is missing", 0)
    handle = FileHandle(HandlePool(RealFiles(), 1), str(path), READ_ONLY)
    found = []
    last = None
    try:
        for last in read_headers(RealFiles(), handle, 0, path.stat().st_size):
            if last.last_offset in offsets or last.position in positions:
                found.append(last)
    except KafkaError:
        broken_at = 0 if last is None else last.position + last.size
        return found, problem(str(path), "no record batch", broken_at)
    finally:
        handle.close()
    return found, None


def _base_offset(path: Path) -> int:
    parsed = parse_file_name(path.name)
    return 0 if parsed is None else parsed[0]
