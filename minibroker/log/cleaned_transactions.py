"""Transactions as compaction passes over them: which batches are void, which markers have nothing left to mark.

    a batch of an aborted transaction    is void: none of its records stays
    an abort or commit marker            may go once no batch of its transaction is left in the log; the pass that took the last one
                                         out still keeps it, and a delete horizon then gives readers time to see it
    the abort marker that stays          keeps its entry in `.txnindex`: `retained` collects them for the segment being written

Aborted transactions come from the `.txnindex` files, known before the walk begins. Source: CleanedTransactionMetadata of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from minibroker.records.control import ControlType
from minibroker.storage.transaction_index import AbortedTxn


class CleanedTransactions:
    """The state of one walk, in offset order."""

    __slots__ = ("_aborted", "_ongoing_aborted", "_ongoing_committed", "retained")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._aborted = sorted(set(aborted), key=lambda entry: entry.first_offset, reverse=True)
        self._ongoing_aborted: dict[int, tuple[AbortedTxn, bool]] = {}  #: by producer id; whether a batch of it was seen
        self._ongoing_committed: set[int] = set()
        self.retained: list[AbortedTxn] = []

    def _pass_to(self, offset: int) -> None:
        while self._aborted and self._aborted[-1].first_offset <= offset:
            entry = self._aborted.pop()
            self._ongoing_aborted.setdefault(entry.producer_id, (entry, False))

    def on_batch(self, producer_id: int, last_offset: int) -> bool:
        """A transactional batch; whether it is void."""
        self._pass_to(last_offset)
        ongoing = self._ongoing_aborted.get(producer_id)
        if ongoing is None:
            self._ongoing_committed.add(producer_id)
            return False
        self._ongoing_aborted[producer_id] = (ongoing[0], True)
        return True

    def on_marker(self, producer_id: int, last_offset: int, control_type: ControlType | None) -> bool:
        """A control batch, None for one that has lost its record; whether nothing needs it any more."""
        self._pass_to(last_offset)
        if control_type is None:
            return True
        if control_type is ControlType.ABORT:
            entry, was_seen = self._ongoing_aborted.pop(producer_id, (None, False))
            if entry is not None and was_seen:
                self.retained.append(entry)
            return not was_seen
        if control_type is ControlType.COMMIT:
            was_seen = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not was_seen
        return False
