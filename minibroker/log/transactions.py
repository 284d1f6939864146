"""The open transactions of a log, which limit how far a read_committed consumer reads.

    open         from the first batch of a producer's transaction up to its marker; at most one per producer
    completed    its marker, commit or abort, was appended: an abort that had records goes into `.txnindex`

Invariant: transactions are kept in the order of their first offsets, so the oldest one is the first.

The entry of an aborted transaction has the last stable offset after its marker: the first offset of the oldest open transaction, or the
offset after the marker. A look-up in `.txnindex` stops at the first entry whose last stable offset reaches the end of the requested range:
no later entry can affect it. Source: ProducerStateManager (ongoingTxns, CompletedTxn) of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minibroker.storage.transaction_index import AbortedTxn


class CompletedTransaction(NamedTuple):
    """The offsets of its first record and of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class OpenTransaction(NamedTuple):
    """A transaction that has not ended."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class OpenTransactions:
    """First offsets by producer id, oldest first."""

    __slots__ = ("first_offsets",)

    def __init__(self) -> None:
        self.first_offsets: dict[int, int] = {}  #: for reading

    def load(self, found: Iterable[tuple[int, int]]) -> None:
        """Replace all by pairs of producer id and first offset, in any order."""
        self.first_offsets.clear()
        self.first_offsets.update(sorted(found, key=lambda pair: pair[1]))

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add a transaction whose first batch was appended; offsets grow from one call to the next."""
        self.first_offsets[producer_id] = first_offset

    def end(self, completed: CompletedTransaction) -> AbortedTxn | None:
        """Remove a transaction whose marker was appended. Returns the entry of an abort."""
        del self.first_offsets[completed.producer_id]
        if not completed.is_aborted:
            return None
        oldest = self.oldest
        last_stable_offset = completed.last_offset + 1 if oldest is None else oldest
        return AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)

    @property
    def oldest(self) -> int | None:
        """The first offset of the oldest open transaction; None if none is open."""
        return next(iter(self.first_offsets.values()), None)
