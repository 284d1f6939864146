"""Compare the producers and transactions of a segment with its `.txnindex` and its producer snapshots.

The snapshot at the start of the segment has the transactions that are open there. Without it, earlier transactions are unknown, and fewer
checks are possible. Compaction removes batches that those files still contain, so missing batches count only if no offset is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from minibroker.errors import CorruptLogError, KafkaError
from minibroker.log.findings import ERROR, WARNING, Findings
from minibroker.log.producer_state import ProducerState
from minibroker.records.any_format import decode_records
from minibroker.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, RecordBatch
from minibroker.records.control import ControlType, parse_control_key
from minibroker.storage import producer_snapshot, transaction_index
from minibroker.storage.files import Files, read_all
from minibroker.storage.log_file_names import LOG, SNAPSHOT, TRANSACTION_INDEX, file_name

#: Position and size of a batch.
Place = tuple[int, int]


class _Aborted(NamedTuple):
    """An aborted transaction, from its marker and the batches before it in this segment."""

    producer_id: int
    first_offset: int | None  #: None: none of its batches is here
    is_certain: bool  #: it did not start before this segment
    last_stable_offset: int  #: the lowest first offset of the other open transactions, as far as this segment shows


class ProducerCheck:
    """Checks the batches of producers. Call `note` for each batch.

    Args:
        log_path: of the segment.
        read_batch: reads a batch of it again.
        snapshots: offsets of the producer snapshots after its base offset, up to the next segment's.
        is_first: there is no earlier segment, so every transaction starts in this one or later.
        is_stale: the next start rebuilds `.txnindex`, so that an error in it is only a warning.
    """

    def __init__(
        self,
        files: Files,
        log_path: str,
        read_batch: Callable[[int, int], RecordBatch],
        snapshots: Sequence[int],
        findings: Findings,
        *,
        is_first: bool,
        is_stale: bool,
    ) -> None:
        self._files = files
        self._log_path = log_path
        self._read_batch = read_batch
        self._snapshots = sorted(snapshots)
        self._findings = findings
        self._severity = WARNING if is_stale else ERROR  #: of problems of `.txnindex`
        self._data: dict[int, Place] = {}  #: the last data batch of each producer
        self._markers: dict[int, Place] = {}  #: its last control batch, if that is later
        self._begun: dict[int, int] = {}  #: first offset of a transaction, as far as it is in this segment
        self._is_certain = is_first  #: whether all transactions that are open here are known
        self._known: set[int] = set()  #: producers whose transactions are all known
        self._aborted: dict[int, _Aborted] = {}  #: by the offset of their markers
        self._disagreements: list[tuple[str, str]] = []  #: path and words
        self._begin()

    def _begin(self) -> None:
        """Load the transactions that are open at the start of the segment."""
        with suppress(CorruptLogError, FileNotFoundError):  # the check of the previous segment reports its problem
            for entry in producer_snapshot.decode(read_all(self._files, self._log_path.removesuffix(LOG) + SNAPSHOT)):
                if entry.current_txn_first_offset >= 0:
                    self._begun[entry.producer_id] = entry.current_txn_first_offset
            self._is_certain = True

    @property
    def next_snapshot(self) -> int:
        """The next snapshot: `compare` has to be called before the first batch at or after it."""
        return self._snapshots[0] if self._snapshots else 1 << 63

    def note(self, position: int, size: int, base_offset: int, attributes: int, producer_id: int) -> None:
        """Note one batch of a producer, whose CRC is right."""
        if attributes & CONTROL_FLAG:
            self._end_transaction((position, size), base_offset, producer_id)
            return
        self._data[producer_id] = position, size
        if producer_id in self._markers:
            del self._markers[producer_id]
        if attributes & TRANSACTIONAL_FLAG:
            self._begun.setdefault(producer_id, base_offset)

    def _end_transaction(self, place: Place, offset: int, producer_id: int) -> None:
        self._markers[producer_id] = place
        try:
            kinds = [parse_control_key(record.key) for record in decode_records(self._read_batch(*place))]
        except KafkaError as error:
            words = f"the control batch at offset {offset} cannot be decoded: {error}"
            self._findings.add(ERROR, self._log_path, words, place[0], kind="control batches that cannot be decoded")
            return
        first_offset = self._begun.pop(producer_id, None)
        if ControlType.ABORT in kinds:
            is_certain = self._is_certain or producer_id in self._known
            last_stable_offset = min(self._begun.values(), default=offset + 1)
            self._aborted[offset] = _Aborted(producer_id, first_offset, is_certain, last_stable_offset)
        self._known.add(producer_id)

    def compare(self, offset: int) -> None:
        """Compare the snapshots up to `offset` with the batches before them."""
        while self._snapshots and self._snapshots[0] <= offset:
            self._compare(self._snapshots.pop(0))

    def _compare(self, offset: int) -> None:
        path, entries = self._read(offset)
        if path is None:
            return
        for entry in entries:
            self._compare_producer(path, entry)
        listed = {entry.producer_id for entry in entries}
        for producer_id, first_offset in self._begun.items():
            if producer_id not in listed:
                words = f"the open transaction of producer {producer_id}, from offset {first_offset} on, is missing"
                self._disagreements.append((path, words))

    def _read(self, offset: int) -> tuple[str | None, list[producer_snapshot.ProducerEntry]]:
        """Return a snapshot's path, if it can be read, and its plausible entries."""
        path = f"{self._log_path.rpartition('/')[0]}/{file_name(offset, SNAPSHOT)}"
        try:
            entries = producer_snapshot.decode(read_all(self._files, path))
        except CorruptLogError as error:
            self._findings.add(ERROR, path, str(error))
            return None, []
        for entry in entries:
            if entry.last_offset >= offset:
                words = f"producer {entry.producer_id} has the last offset {entry.last_offset}, after the snapshot's offset"
                self._findings.add(ERROR, path, words, kind="offsets after the snapshot")
        return path, [entry for entry in entries if entry.last_offset < offset]

    def _compare_producer(self, path: str, entry: producer_snapshot.ProducerEntry) -> None:
        places = [places[entry.producer_id] for places in (self._data, self._markers) if entry.producer_id in places]
        if not places:
            return
        state = ProducerState(0)
        for place in places:
            batch = self._read_batch(*place)
            state.update(batch, batch.base_offset)
        producer = state.producers.get(entry.producer_id)
        if producer is None:
            return  # a control batch that has lost its record
        values = [("epoch", producer.producer_epoch, entry.producer_epoch)]
        if producer.batches:
            values.append(("last sequence", producer.last_sequence, entry.last_sequence))
            values.append(("last offset", producer.batches[-1].last_offset, entry.last_offset))
        if entry.producer_id in self._markers:
            values.append(("coordinator epoch", producer.coordinator_epoch, entry.coordinator_epoch))
        if self._is_certain or entry.producer_id in self._known:
            values.append(("first offset of a transaction", self._begun.get(entry.producer_id, -1), entry.current_txn_first_offset))
        for name, expected, found in values:
            if expected != found:
                self._disagreements.append((path, f"producer {entry.producer_id} has {name} {found}, but {expected} in the log"))

    def finish(self, end_offset: int, *, has_gaps: bool) -> None:
        """Finish the check after the segment was read up to `end_offset`."""
        self.compare(end_offset)
        for offset in self._snapshots:
            self._read(offset)  # its batches are not in this segment any more
        entries = self._read_aborted()
        if not has_gaps:
            for path, words in self._disagreements:
                self._findings.add(ERROR, path, words, kind="producers that disagree with the log")
        self._compare_aborted(entries, has_gaps=has_gaps)

    @property
    def _index_path(self) -> str:
        return self._log_path.removesuffix(LOG) + TRANSACTION_INDEX

    def _read_aborted(self) -> list[transaction_index.AbortedTxn]:
        try:
            entries = transaction_index.decode(read_all(self._files, self._index_path), self._index_path)
        except CorruptLogError as error:
            self._findings.add(self._severity, self._index_path, str(error).removeprefix(f"{self._index_path}: "))
            self._aborted.clear()
            return []
        except FileNotFoundError:
            return []
        for number, entry in enumerate(entries):
            if entry.first_offset > entry.last_offset or entry.last_stable_offset > entry.last_offset + 1:
                self._wrong(number, entry, "contradicts itself")
        return entries

    def _compare_aborted(self, entries: list[transaction_index.AbortedTxn], *, has_gaps: bool) -> None:
        """Compare the entries of `.txnindex`. If offsets are missing, existing markers must still agree with their entries."""
        for number, entry in enumerate(entries):
            found = self._aborted.get(entry.last_offset)
            if found is None:
                if not has_gaps:
                    self._wrong(number, entry, "no abort marker is at its last offset")
            elif found.producer_id != entry.producer_id:
                self._wrong(number, entry, f"the abort marker at its last offset is of producer {found.producer_id}")
            elif _disagrees(entry.first_offset, found.first_offset, is_certain=found.is_certain and not has_gaps):
                self._wrong(number, entry, f"the transaction starts at offset {found.first_offset}")
            elif _disagrees(entry.last_stable_offset, found.last_stable_offset, is_certain=self._is_certain and not has_gaps):
                self._wrong(number, entry, f"has last stable offset {entry.last_stable_offset}, but it was {found.last_stable_offset}")
        indexed = {entry.last_offset for entry in entries}
        for offset, found in self._aborted.items():
            if found.first_offset is not None and offset not in indexed and not has_gaps:
                words = f"the aborted transaction of producer {found.producer_id}, offsets {found.first_offset} to {offset}, is missing"
                self._findings.add(self._severity, self._index_path, f"{words}: it reads as committed", kind="missing entries")

    def _wrong(self, number: int, entry: transaction_index.AbortedTxn, words: str) -> None:
        where = f"entry {number} (producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset})"
        position = number * transaction_index.ENTRY_SIZE
        self._findings.add(self._severity, self._index_path, f"{where}: {words}", position, kind="wrong entries")


def _disagrees(found: int, expected: int | None, *, is_certain: bool) -> bool:
    """Whether an offset differs from the expected one; if that is not certain, whether it is higher."""
    return expected is not None and (found != expected if is_certain else found > expected)
