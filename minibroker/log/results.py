"""Results of appends and look-ups, and the isolation level of reads."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class IsolationLevel(IntEnum):
    """How far a consumer reads. A follower passes None and reads up to the log end."""

    READ_UNCOMMITTED = 0  #: up to the high watermark
    READ_COMMITTED = 1  #: up to the last stable offset


class Appended(NamedTuple):
    """An append, or the earlier append of the same batch."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int  #: -1 if records keep their CreateTime
    log_start_offset: int
    duplicate: bool = False  #: nothing was written: the producer sent the same batch before


class TimestampOffset(NamedTuple):
    """A record that was found by time, with the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


class EpochEndOffset(NamedTuple):
    """The largest known epoch up to the requested one, and its end offset; both -1 if there is none."""

    leader_epoch: int
    end_offset: int


class AbortedTransaction(NamedTuple):
    """The records of producer_id from first_offset up to its abort marker are aborted."""

    producer_id: int
    first_offset: int
