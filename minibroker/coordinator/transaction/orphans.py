"""Orphans: open transactions in logs that no transactional id knows of, because a power loss took the coordinator's record.

No client would ever end them, and read_committed readers would wait forever. A start ends them:

    the id ended it by KIP-890's protocol (its epoch shows that it was this transaction)     with the same outcome
    anything else                                                                             abort, with the next epoch

The next epoch fences a producer that is still alive in that partition, so that it cannot take its
lost half for the whole. Kafka leaves such transactions open, for an operator and
`kafka-transactions.sh find-hanging` (KIP-664).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from minibroker.cluster.partition import Partition
from minibroker.coordinator.transaction.marking import end_in
from minibroker.coordinator.transaction.records import (
    EPOCH_BUMP_VERSION,
    MAX_EPOCH,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
)
from minibroker.coordinator.transaction.states import is_repeated_end
from minibroker.errors import KafkaError
from minibroker.log.producer_state import OpenTransaction
from minibroker.records.control import ControlType, EndTransactionMarker

_COORDINATOR_EPOCH: Final = 0  #: or the one that the partition knows; no coordinator has this epoch

_LOG = logging.getLogger(__name__)


class Orphan(NamedTuple):
    """An orphan, and the marker to end it."""

    partition: Partition
    first_offset: int
    ids: ProducerIdAndEpoch  #: of the marker
    commit: bool
    transaction_version: int

    def end(self) -> None:
        """Write the marker, if that transaction is still open."""
        log = self.partition.online_log
        if log is None or log.producers.first_open_offset(self.ids.producer_id) != self.first_offset:
            return
        what = "committed" if self.commit else "aborted"
        _LOG.warning(
            "%s: a transaction of producer id %d, open from offset %d on, that no transactional id knows of, is %s",
            log.name,
            self.ids.producer_id,
            self.first_offset,
            what,
        )
        marker = EndTransactionMarker(ControlType.COMMIT if self.commit else ControlType.ABORT, _COORDINATOR_EPOCH)
        try:
            end_in(self.partition, self.ids, marker, transaction_version=self.transaction_version)
        except KafkaError as error:
            _LOG.warning("%s: it stays open until the next start: %s", log.name, error)


def find_orphans(partitions: Iterable[Partition], known: Iterable[TransactionMetadata]) -> Iterator[Orphan]:
    """Find orphans in the logs that are online. `known` must have every transactional id."""
    by_producer_id: dict[int, TransactionMetadata] = {}
    for metadata in known:
        by_producer_id[metadata.producer_id] = metadata
        by_producer_id.setdefault(metadata.previous_producer_id, metadata)
    for partition in partitions:
        if partition.online_log is not None:
            for found in partition.online_log.producers.list_open_transactions():
                owner = by_producer_id.get(found.producer_id)
                if owner is None or not _is_known(owner, partition, found):
                    yield _orphan(owner, partition, found)


def _is_known(owner: TransactionMetadata, partition: Partition, found: OpenTransaction) -> bool:
    """Whether the owner ends it later, or is ending it now."""
    is_of_this_epoch = owner.producer_id == found.producer_id and found.producer_epoch <= owner.producer_epoch
    return is_of_this_epoch and (partition.topic, partition.index) in owner.partitions


def _orphan(owner: TransactionMetadata | None, partition: Partition, found: OpenTransaction) -> Orphan:
    ids = ProducerIdAndEpoch(found.producer_id, found.producer_epoch)
    commit = owner is not None and owner.state is TransactionState.COMPLETE_COMMIT and is_repeated_end(owner, ids)
    if found.producer_epoch == MAX_EPOCH:
        return Orphan(partition, found.first_offset, ids, commit, 0)
    fencing = ids._replace(producer_epoch=found.producer_epoch + 1)
    return Orphan(partition, found.first_offset, fencing, commit, EPOCH_BUMP_VERSION)
