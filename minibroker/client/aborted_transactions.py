"""Which batches of a fetch are of no effect: brokers send them all, and tell beside them which transactions were aborted (KIP-98)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from minibroker.records.batch import RecordBatch
from minibroker.records.control import ControlType, parse_control_key
from minibroker.records.record import decode_records
from minibroker.schemas import k01_fetch


class AbortedInFetch:
    """Tells for the batches of one partition's answer, in order; those that are not transactional may be left out.

    A transaction listed as aborted begins at its first_offset and ends at its producer's next ABORT marker.
    """

    def __init__(self, transactions: Iterable[k01_fetch.AbortedTransaction]) -> None:
        self._to_come = deque(sorted(transactions, key=lambda transaction: transaction.first_offset))
        self._producer_ids: set[int] = set()  #: whose transaction is open, and will be aborted

    @property
    def is_over(self) -> bool:
        """Whether no batch from here on is of an aborted transaction."""
        return not self._to_come and not self._producer_ids

    def __call__(self, batch: RecordBatch) -> bool:
        """Whether a batch's records were aborted; False for a marker."""
        while self._to_come and self._to_come[0].first_offset <= batch.last_offset:
            self._producer_ids.add(self._to_come.popleft().producer_id)
        if batch.is_control:
            if batch.producer_id in self._producer_ids and _is_abort(batch):
                self._producer_ids.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._producer_ids


def _is_abort(batch: RecordBatch) -> bool:
    return any(parse_control_key(record.key) is ControlType.ABORT for record in decode_records(batch))
