"""What time does to transactional ids: an open transaction is aborted, an id that nobody uses is forgotten.

Kafka looks every 10 s (transaction.abort.timed.out.transaction.cleanup.interval.ms) and every hour
(transaction.remove.expired.transaction.cleanup.interval.ms): so do those who call this, by a timer of their clock.

Source: TransactionStateManager.timedOutTransactions, shouldExpire of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minibroker.coordinator.transaction.metadata import TransactionMetadata, TransactionState

_ONGOING = TransactionState.ONGOING


def timed_out(metadata: Iterable[TransactionMetadata], *, now_ms: int) -> Iterator[TransactionMetadata]:
    """Those whose transaction is open for longer than its time-out: `states.fence` them."""
    return (each for each in metadata if each.state is _ONGOING and each.start_timestamp_ms + each.timeout_ms < now_ms)


def expired(metadata: Iterable[TransactionMetadata], *, now_ms: int, expiration_ms: int) -> Iterator[TransactionMetadata]:
    """Those with nothing open that took no step for transactional.id.expiration.ms: `states.expire` them."""
    return (each for each in metadata if each.state.is_idle and each.last_update_timestamp_ms <= now_ms - expiration_ms)
