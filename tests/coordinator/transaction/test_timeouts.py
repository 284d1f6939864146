"""Which ids time does something to, at the millisecond."""

from __future__ import annotations

import pytest

from minibroker.coordinator.transaction.records import TransactionMetadata, TransactionState
from minibroker.coordinator.transaction.states import expired, timed_out


def metadata(state: TransactionState) -> TransactionMetadata:
    return TransactionMetadata("payments", 7, 5, 1_000, state, last_update_timestamp_ms=700, start_timestamp_ms=500)


@pytest.mark.parametrize("state", TransactionState)
def test_only_ongoing_transactions_time_out_from_their_start(state: TransactionState) -> None:
    found = [len(list(timed_out([metadata(state)], now_ms=now_ms))) for now_ms in (500, 1_500, 1_501)]
    assert found == ([0, 0, 1] if state is TransactionState.ONGOING else [0, 0, 0])


@pytest.mark.parametrize("state", TransactionState)
def test_only_idle_ids_expire_from_their_last_update(state: TransactionState) -> None:
    found = [len(list(expired([metadata(state)], now_ms=now_ms, expiration_ms=2_000))) for now_ms in (700, 2_699, 2_700)]
    idle = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    assert found == ([0, 0, 1] if state in idle else [0, 0, 0])
