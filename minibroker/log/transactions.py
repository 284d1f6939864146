"""The transactions of one log that have begun and not ended: they hold back what a read_committed reader may see.

    open         from the first batch of a producer's transaction up to its marker; at most one a producer
    completed    its marker, commit or abort, was appended: an abort that had records goes into `.txnindex`

Invariant: transactions are kept in the order of their first offsets, so the oldest one is the first.

An aborted transaction's entry names the last stable offset that its marker leaves: where the oldest of the others begins, or the offset
behind the marker. A look-up in `.txnindex` ends at the first entry whose last stable offset reaches the end of what is asked for: no
later one can speak of it. Source: ProducerStateManager (ongoingTxns, CompletedTxn) of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minibroker.storage.transaction_index import AbortedTxn


class CompletedTransaction(NamedTuple):
    """Its first record's offset and its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class OpenTransaction(NamedTuple):
    """A transaction that holds the last stable offset back."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class OpenTransactions:
    """First offsets by producer id, oldest first."""

    __slots__ = ("first_offsets",)

    def __init__(self) -> None:
        self.first_offsets: dict[int, int] = {}  #: for reading

    def load(self, found: Iterable[tuple[int, int]]) -> None:
        """Begin anew with pairs of producer id and first offset, in any order."""
        self.first_offsets.clear()
        self.first_offsets.update(sorted(found, key=lambda pair: pair[1]))

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Its first batch was appended; offsets grow from one to the next."""
        self.first_offsets[producer_id] = first_offset

    def end(self, completed: CompletedTransaction) -> AbortedTxn | None:
        """Its marker was appended: the entry of an abort."""
        del self.first_offsets[completed.producer_id]
        if not completed.is_aborted:
            return None
        oldest = self.oldest
        last_stable_offset = completed.last_offset + 1 if oldest is None else oldest
        return AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)

    @property
    def oldest(self) -> int | None:
        """The first unstable offset: nothing from here on is certain."""
        return next(iter(self.first_offsets.values()), None)
