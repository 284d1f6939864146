"""Verify one segment without changing it: its batches, both indexes, aborted transactions, producer snapshots.

Segments are checked independently, also in several processes: `SegmentTask` and `SegmentReport` can be pickled. checking.py compares
segments with each other.

An entry of the offset index has the last offset and the position of a batch. (Kafka before 4 indexed several batches of one request
by the last offset of the last one: a look-up then starts a little early, so that is allowed.) An entry of the time index names the
largest timestamp so far and a batch that has it; the last one must be the segment's largest, because look-ups skip segments by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from minibroker.errors import CorruptMessage, KafkaError
from minibroker.log.findings import ERROR, WARNING, Finding, Findings
from minibroker.log.producer_checking import ProducerCheck
from minibroker.records.any_format import decode_records, read_batch
from minibroker.records.batch import LOG_OVERHEAD, RecordBatch
from minibroker.records.record import Record
from minibroker.storage.batch_scan import UNKNOWN_OFFSET, VerifiedBatch, read_verified
from minibroker.storage.files import READ_ONLY, Files
from minibroker.storage.indexes import NO_TIMESTAMP, IndexFile, OffsetIndex, TimeIndex
from minibroker.storage.log_file_names import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from minibroker.storage.segment import MAX_RELATIVE_OFFSET

_NEVER = 1 << 63
_ANY_SIZE = 1 << 40


class _IndexCheck:
    """The base of both checks. `is_stale`: the next start rebuilds the index, so a wrong entry is only a warning."""

    def __init__(self, files: Files, index: IndexFile, findings: Findings, *, is_stale: bool, is_needed: bool) -> None:
        self._findings = findings
        self._entry_size = index.ENTRY.size
        self._severity = WARNING if is_stale else ERROR
        self.path = index.path
        self._is_stale = is_stale
        index.loaded()
        self.is_there = True
        if index.is_damaged and files.exists(index.path):
            findings.add(
                self._severity, self.path, f"{files.size(self.path)} bytes are not a whole number of entries of {self._entry_size}"
            )
        elif index.is_damaged:
            self.is_there = False
            if is_needed:
                findings.add(WARNING, self.path, "is missing; it is rebuilt when it is needed")

    def wrong(self, number: int, words: str, kind: str = "wrong entries") -> None:
        """Report a wrong entry."""
        self._findings.add(self._severity, self.path, f"entry {number} {words}", number * self._entry_size, kind=kind)


class OffsetIndexCheck(_IndexCheck):
    """`at` has the entries by position. `see` is called for each batch with an entry, or when `awaits` is reached."""

    def __init__(self, files: Files, path: str, base_offset: int, log_size: int, findings: Findings, **options: bool) -> None:
        index = OffsetIndex(files, path, base_offset, _ANY_SIZE)
        super().__init__(files, index, findings, **options)
        self.at: dict[int, tuple[int, int]] = {}  #: position -> entry number, offset
        self.awaits = _NEVER  #: an offset that a batch must end with
        self._awaiting = 0  #: the number of that entry
        previous_offset = previous_position = -1
        for number, (offset, position) in enumerate(index.entries()):
            if offset <= previous_offset or position <= previous_position:
                words = f"(offset {offset}, position {position}) does not follow the one before it"
                self.wrong(number, words, "entries that do not follow")
            elif position >= log_size:
                self.wrong(number, f"(offset {offset}) points to {position}, after the end of the segment", "entries beyond the end")
            else:
                self.at[position] = number, offset
            previous_offset, previous_position = offset, position

    def see(self, position: int, last_offset: int) -> None:
        """Check a batch."""
        if last_offset >= self.awaits:
            if last_offset > self.awaits:
                self.wrong(self._awaiting, f"names offset {self.awaits}, which no batch ends with")
            self.awaits = _NEVER
        entry = self.at.pop(position, None)
        if entry is None:
            return
        number, offset = entry
        if offset < last_offset:
            self.wrong(number, f"names offset {offset}, but the batch that it points to ends with {last_offset}")
        elif offset > last_offset:
            self._awaiting, self.awaits = number, offset

    def finish(self) -> None:
        """Report the remaining entries, after all batches."""
        for position, (number, offset) in self.at.items():
            self.wrong(number, f"names offset {offset} at position {position}, where no batch starts")
        if self.awaits != _NEVER:
            self.wrong(self._awaiting, f"names offset {self.awaits}, after the end of the segment")


class TimeIndexCheck(_IndexCheck):
    """`see` is called for each batch that reaches the offset `awaits`."""

    def __init__(self, files: Files, path: str, base_offset: int, findings: Findings, **options: bool) -> None:
        index = TimeIndex(files, path, base_offset, _ANY_SIZE)
        super().__init__(files, index, findings, **options)
        good = []
        self._last_timestamp = NO_TIMESTAMP
        previous_offset = -1
        for number, (timestamp, offset) in enumerate(index.entries()):
            if timestamp <= self._last_timestamp or offset <= previous_offset:
                words = f"(timestamp {timestamp}, offset {offset}) does not follow the one before it"
                self.wrong(number, words, "entries that do not follow")
            else:
                good.append((number, timestamp, offset))
            self._last_timestamp, previous_offset = timestamp, offset
        self._entries: Iterator[tuple[int, int, int]] = iter(good)
        self._next()

    def _next(self) -> None:
        self._number, self._timestamp, self.awaits = next(self._entries, (0, 0, _NEVER))

    def see(self, base_offset: int, last_offset: int, timestamp: int, largest: int) -> None:
        """Check a batch, given its largest timestamp and the largest one up to its end."""
        while self.awaits <= last_offset:
            if self.awaits < base_offset:
                self.wrong(self._number, f"names offset {self.awaits}, which no batch has")
            elif not timestamp == self._timestamp == largest:
                words = (
                    f"has {self._timestamp} for offset {self.awaits}, but that batch has {timestamp}, and the largest up to it is {largest}"
                )
                self.wrong(self._number, words)
            self._next()

    def finish(self, largest: int) -> None:
        """Report the remaining entries, after all batches."""
        while self.awaits != _NEVER:
            self.wrong(self._number, f"names offset {self.awaits}, after the end of the segment")
            self._next()
        if self.is_there and not self._is_stale and self._last_timestamp < largest:
            words = f"ends with timestamp {self._last_timestamp}, but the segment has {largest}: look-ups by time miss records"
            self._findings.add(ERROR, self.path, words)


RecordCheck = Callable[[Record], str | None]  #: returns the problem of a record that is not a control record


class SegmentTask(NamedTuple):
    """A segment to check, and the expectations about it."""

    directory: str
    base_offset: int
    next_base_offset: int | None = None  #: of the next segment; None: it is the last one
    is_recovered: bool = False  #: the next start recovers it: its end may be torn, and its indexes are rebuilt
    needs_indexes: bool = True  #: a missing index is a finding
    snapshots: tuple[int, ...] = ()  #: offsets of the producer snapshots that belong to it
    is_first: bool = False  #: the first segment its log ever had
    deep: bool = False  #: decode every record
    record_check: RecordCheck | None = None  #: decode every record and check it with this function


class SegmentReport(NamedTuple):
    """The contents of a segment, and its findings."""

    base_offset: int
    size: int  #: bytes of the `.log`
    batch_count: int
    next_offset: int  #: after its last batch
    is_whole: bool  #: it consists of batches up to its end
    has_gaps: bool  #: offsets are missing between or within its batches
    first_gap: tuple[int, int, int] | None  #: the expected offset, the found one, and the position
    epochs: tuple[tuple[int, int], ...]  #: leader epochs with their first offset here
    findings: tuple[Finding, ...]


def check_segment(files: Files, task: SegmentTask) -> SegmentReport:
    """Read everything of a segment once. Unreadable parts are findings as well."""
    check = _SegmentCheck(files, task)
    try:
        check.run()
    except OSError as error:
        check.findings.add(ERROR, error.filename or check.path, f"cannot be read: {error.strerror or error}")
    return check.result()


class _SegmentCheck:
    """The state of one check."""

    def __init__(self, files: Files, task: SegmentTask) -> None:
        self._files = files
        self._task = task
        self.path = f"{task.directory}/{file_name(task.base_offset, LOG)}"
        self.findings = Findings()
        self._log = files.handles.handle(self.path, READ_ONLY)
        self._size = 0
        self._batch_count = 0
        self._position = 0  #: after the last batch
        self._next_offset = task.base_offset
        self._has_gaps = False
        self._first_gap: tuple[int, int, int] | None = None
        self._epochs: list[tuple[int, int]] = []
        self._largest = NO_TIMESTAMP

    def result(self) -> SegmentReport:
        """Return the report."""
        return SegmentReport(
            self._task.base_offset,
            self._size,
            self._batch_count,
            self._next_offset,
            self._position == self._size,
            self._has_gaps,
            self._first_gap,
            tuple(self._epochs),
            self.findings.all(),
        )

    def run(self) -> None:
        """Check the log together with its indexes, then the remaining index entries."""
        task = self._task
        self._size = self._files.size(self.path)
        options = {"is_stale": task.is_recovered, "is_needed": task.needs_indexes and self._size > 0}
        path = f"{task.directory}/{file_name(task.base_offset, OFFSET_INDEX)}"
        self._offset_index = OffsetIndexCheck(self._files, path, task.base_offset, self._size, self.findings, **options)
        path = f"{task.directory}/{file_name(task.base_offset, TIME_INDEX)}"
        self._time_index = TimeIndexCheck(self._files, path, task.base_offset, self.findings, **options)
        self._producers = ProducerCheck(
            self._files,
            self.path,
            self._read_batch,
            task.snapshots,
            self.findings,
            is_first=task.is_first,
            is_stale=task.is_recovered,
        )
        try:
            try:
                self._walk()
            except CorruptMessage as error:
                self._end_of_batches(error)
            else:
                self._offset_index.finish()
                self._time_index.finish(self._largest)
            self._producers.finish(self._next_offset, has_gaps=self._has_gaps)
        finally:
            self._log.close()

    def _read_batch(self, position: int, size: int) -> RecordBatch:
        return read_batch(self._files.read_at(self._log.opened(), size, position))

    # Batches

    def _walk(self) -> None:
        offset_index, time_index, producers = self._offset_index, self._time_index, self._producers
        indexed = offset_index.at
        epoch = -1
        decodes = self._task.deep or self._task.record_check is not None
        for batch in read_verified(self._files, self._log, 0, self._size):
            position, size, base_offset, last_offset, timestamp, leader_epoch, attributes, producer_id, count, is_right = batch
            if base_offset >= producers.next_snapshot:
                producers.compare(base_offset)
            if base_offset == self._next_offset and count == last_offset - base_offset + 1 and count > 0 and is_right:
                self._next_offset = last_offset + 1
            else:
                self._judge(batch)
            self._position = position + size
            self._batch_count += 1
            if not is_right:
                continue
            if leader_epoch != epoch:
                epoch = self._new_epoch(leader_epoch, base_offset, position)
            if timestamp > self._largest:  # noqa: PLR1730  a call of max costs as much as ten of these
                self._largest = timestamp
            if position in indexed or last_offset >= offset_index.awaits:
                offset_index.see(position, last_offset)
            if last_offset >= time_index.awaits:
                time_index.see(base_offset, last_offset, timestamp, self._largest)
            if producer_id >= 0:
                producers.note(position, size, base_offset, attributes, producer_id)
            if decodes and base_offset != UNKNOWN_OFFSET:
                self._decode(position, size)
        self._check_end()

    def _check_end(self) -> None:
        limit_offset = self._task.next_base_offset
        if limit_offset is None:
            limit_offset = self._task.base_offset + MAX_RELATIVE_OFFSET + 1
        if self._next_offset > limit_offset:
            words = f"reaches offset {self._next_offset - 1}, beyond {limit_offset - 1}, where it has to end"
            self.findings.add(ERROR, self.path, words)

    def _judge(self, batch: VerifiedBatch) -> None:
        """Check a batch that does not simply follow the previous one."""
        position, _, base_offset, last_offset, _, _, _, _, count, is_right = batch
        expected = self._next_offset
        if not is_right:
            words = f"the batch at offset {base_offset} has a wrong CRC"
            self.findings.add(ERROR, self.path, words, position, kind="a wrong CRC")
            if base_offset != expected or not base_offset <= last_offset <= base_offset + MAX_RELATIVE_OFFSET:
                return  # its other fields may be wrong as well
        elif base_offset == UNKNOWN_OFFSET:
            words = f"the message set at offset {last_offset} cannot be decompressed"
            self.findings.add(ERROR, self.path, words, position, kind="sets that cannot be decompressed")
        elif last_offset < base_offset or not 0 <= count <= last_offset - base_offset + 1:
            words = f"a batch with offsets {base_offset} to {last_offset} has {count} records"
            self.findings.add(ERROR, self.path, words, position, kind="impossible offsets")
            return
        elif base_offset < expected:
            words = f"offsets {base_offset} to {last_offset}, but {expected} is next"
            self.findings.add(ERROR, self.path, words, position, kind="offsets that go back")
            return
        else:
            self._has_gaps = True
            if base_offset > expected and self._first_gap is None:
                self._first_gap = expected, base_offset, position
        self._next_offset = last_offset + 1

    def _new_epoch(self, leader_epoch: int, base_offset: int, position: int) -> int:
        latest = self._epochs[-1][0] if self._epochs else -1
        if 0 <= leader_epoch < latest:
            words = f"leader epoch {leader_epoch} at offset {base_offset} follows {latest}"
            self.findings.add(ERROR, self.path, words, position, kind="leader epochs that go back")
        elif leader_epoch > latest:
            self._epochs.append((leader_epoch, base_offset))
        return leader_epoch

    def _decode(self, position: int, size: int) -> None:
        """Decode every record: its offset must be within the batch, after the previous one."""
        batch = self._read_batch(position, size)
        offset, count = batch.base_offset - 1, 0
        try:
            for record in decode_records(batch):
                if not offset < record.offset <= batch.last_offset:
                    raise CorruptMessage(f"offset {record.offset} follows {offset}")
                offset = record.offset
                count += 1
                if self._task.record_check is not None and not batch.is_control:
                    self._check_record(self._task.record_check, record, position)
            if count != batch.record_count:
                raise CorruptMessage(f"{count} records, but its header has {batch.record_count}")
        except KafkaError as error:
            words = f"the batch at offset {batch.base_offset} cannot be decoded: {error}"
            self.findings.add(ERROR, self.path, words, position, kind="a batch that cannot be decoded")

    def _check_record(self, check: RecordCheck, record: Record, position: int) -> None:
        problem = check(record)
        if problem is not None:
            words = f"the record at offset {record.offset} is wrong: {problem}"
            self.findings.add(ERROR, self.path, words, position, kind="records that their coordinator cannot use")

    def _end_of_batches(self, error: CorruptMessage) -> None:
        """Report a position without a batch: a tail that a crash left, or damage."""
        position = self._position
        rest = self._size - position
        head = self._files.read_at(self._log.opened(), LOG_OVERHEAD, position)
        is_tail = True
        if len(head) < LOG_OVERHEAD or LOG_OVERHEAD + int.from_bytes(head[8:12], "big", signed=True) > rest:
            words = f"the last batch is torn: it has only {rest} bytes"
        elif self._is_zero(position):
            words = f"{rest} bytes of zeros follow the last batch"
        else:
            is_tail = False
            reason = str(error).removeprefix(f"{self.path}: ").rpartition(": ")[2]
            words = f"no batch starts here, and the {rest} bytes up to the end cannot be read ({reason})"
        if is_tail and self._task.is_recovered and self._task.next_base_offset is None:
            self.findings.add(WARNING, self.path, f"{words}; the next start cuts them off", position)
        else:
            self.findings.add(ERROR, self.path, words, position)

    def _is_zero(self, position: int) -> bool:
        while chunk := self._files.read_at(self._log.opened(), 1 << 20, position):
            if chunk.strip(b"\0"):
                return False
            position += len(chunk)
        return True


def check_segments(files: Files, tasks: Sequence[SegmentTask]) -> list[tuple[str, SegmentReport]]:
    """Check several segments: the work for one process."""
    return [(task.directory, check_segment(files, task)) for task in tasks]
