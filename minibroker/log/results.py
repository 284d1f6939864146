"""What a log answers, and the one choice its readers have."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class IsolationLevel(IntEnum):
    """How far a reader may see: a follower passes None and sees the log end."""

    READ_UNCOMMITTED = 0  #: up to the high watermark
    READ_COMMITTED = 1  #: up to the last stable offset


class Appended(NamedTuple):
    """One accepted append, or the earlier one that it repeats."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int  #: -1 when records keep the time of their creation
    log_start_offset: int
    duplicate: bool = False  #: nothing was written: this producer had sent the same batch before


class TimestampOffset(NamedTuple):
    """A record by its timestamp; leader_epoch is that of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


class EpochEndOffset(NamedTuple):
    """The largest known epoch up to the one asked for, and where it ends; both -1 when there is none."""

    leader_epoch: int
    end_offset: int


class AbortedTransaction(NamedTuple):
    """Records of producer_id from first_offset up to its abort marker do not count."""

    producer_id: int
    first_offset: int
