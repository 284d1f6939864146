"""Metadata records about the metadata log itself: transactions over several batches, and records without content.

All of them know v0 only, and that is flexible.
"""

from __future__ import annotations

from minibroker.wire.schema import Int8, String, field, struct


@struct
class NoOpRecord:
    """Moves the log on while nothing happens, so that followers see an idle controller alive (KIP-835)."""


@struct
class BeginTransactionRecord:
    """What follows counts only once its EndTransactionRecord is there (KIP-868)."""

    name: String | None = field(tag=0, default=None)  #: for readers


@struct
class EndTransactionRecord:
    """All since BeginTransactionRecord counts."""


@struct
class AbortTransactionRecord:
    """Nothing since BeginTransactionRecord counts."""

    reason: String | None = field(tag=0, default=None)  #: for readers


@struct
class ZkMigrationStateRecord:
    """How far a move from ZooKeeper has come; logs begun under Kafka 3 have it, Kafka 4 only reads it."""

    zk_migration_state: Int8  #: 0 none, 1 migration, 2 pre-migration, 3 post-migration
