"""The transactional ids of one partition of `__transaction_state`, and the step of each that is not persisted yet.

A step has two halves. `prepare` takes what `states` decided, while its record is on the way to the log; until then the id answers
CONCURRENT_TRANSACTIONS. Then either `apply`: it is the state now; or `give_up`: the write failed, and nothing ever happened.

Invariant: an id has one step under way at most. Source: pendingState of Kafka's TransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from minibroker.coordinator.transaction.metadata import TransactionMetadata, TransactionState
from minibroker.errors import ConcurrentTransactions


class Transactions:
    """States by transactional id."""

    __slots__ = ("_pending", "_states")

    def __init__(self, states: Mapping[str, TransactionMetadata] | None = None) -> None:
        self._states = dict(states or {})  #: what the log says
        self._pending: dict[str, TransactionMetadata] = {}  #: what the log is being told

    def __len__(self) -> int:
        return len(self._states)

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        """The state that is persisted, whatever is under way: for DescribeTransactions and for verifying partitions."""
        return self._states.get(transactional_id)

    def settled(self, transactional_id: str) -> TransactionMetadata | None:
        """The state to decide upon.

        Raises:
            ConcurrentTransactions: a step is under way.
        """
        if transactional_id in self._pending:
            raise ConcurrentTransactions
        return self._states.get(transactional_id)

    def all(self) -> list[TransactionMetadata]:
        """Every state that is persisted."""
        return list(self._states.values())

    def all_settled(self) -> Iterator[TransactionMetadata]:
        """Those without a step under way: for the scans of `timeouts`. A copy, so that steps may be taken meanwhile."""
        if not self._pending:  # as almost always; there may be 100,000
            return iter(self.all())
        return iter([each for each in self._states.values() if each.transactional_id not in self._pending])

    def unfinished(self) -> Iterator[TransactionMetadata]:
        """Those whose markers are still to be written, as a start finds them."""
        return (each for each in self.all_settled() if each.state.is_prepared)

    def prepare(self, after: TransactionMetadata) -> None:
        """A record of `after` goes to the log.

        Raises:
            ConcurrentTransactions: another step is under way.
        """
        if after.transactional_id in self._pending:
            raise ConcurrentTransactions
        self._pending[after.transactional_id] = after

    def apply(self, transactional_id: str) -> TransactionMetadata:
        """The record is in the log."""
        after = self._pending.pop(transactional_id)
        if after.state is TransactionState.DEAD:
            self._states.pop(transactional_id, None)
        else:
            self._states[transactional_id] = after
        return after

    def give_up(self, transactional_id: str) -> None:
        """The record is not in the log, and never will be."""
        del self._pending[transactional_id]
