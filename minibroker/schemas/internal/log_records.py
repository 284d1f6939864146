"""Metadata records about the metadata log itself: transactions over several batches, and records without content.

All of them have only v0, which is flexible.
"""

from __future__ import annotations

from minibroker.wire.schema import Int8, String, field, struct


@struct
class NoOpRecord:
    """Moves the log on while nothing happens, so that followers see an idle controller alive (KIP-835)."""


@struct
class BeginTransactionRecord:
    """Starts a transaction: later records take effect with its EndTransactionRecord (KIP-868)."""

    name: String | None = field(tag=0, default=None)  #: for readers


@struct
class EndTransactionRecord:
    """Ends a transaction: the records since BeginTransactionRecord take effect."""


@struct
class AbortTransactionRecord:
    """Aborts a transaction: the records since BeginTransactionRecord have no effect."""

    reason: String | None = field(tag=0, default=None)  #: for readers


@struct
class ZkMigrationStateRecord:
    """How far a move from ZooKeeper has come; logs begun under Kafka 3 have it, Kafka 4 only reads it."""

    zk_migration_state: Int8  #: 0 none, 1 migration, 2 pre-migration, 3 post-migration
