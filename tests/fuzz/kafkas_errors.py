"""Requests that Apache Kafka 4.3.1 answers with UNKNOWN_SERVER_ERROR, and so does this broker; any other such answer is a finding.

What the broker does not do on purpose leaves a traceback in its log besides, which is a finding of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minibroker.coordinator.group.classic.consumer_protocol import read_subscription
from minibroker.errors import WireError
from tests.fuzz.excluded import decoded


def _isolation(request: Any) -> bool:
    """An isolation level that does not exist."""
    return request.isolation_level not in (0, 1)


def _list_offsets(request: Any) -> bool:
    """The same, or a negative number of offsets in version 0."""
    return _isolation(request) or any(each.max_num_offsets < 0 for topic in request.topics for each in topic.partitions)


def _write_txn_markers(request: Any) -> bool:
    """A marker of a producer that cannot exist."""
    return any(marker.producer_id < 0 or marker.producer_epoch < 0 for marker in request.markers)


def _join_group(request: Any) -> bool:
    """A classic member whose metadata are not a consumer's joins a group of the new protocol."""
    try:
        for each in request.protocols[:1]:
            read_subscription(each.metadata)
    except WireError:
        return True
    return False


def _share_state(request: Any) -> bool:
    """Any client may write the state of a share partition, with batches that contradict each other."""
    return True


_KAFKAS: dict[int, Callable[[Any], bool]] = {
    1: _isolation,
    2: _list_offsets,
    11: _join_group,
    27: _write_txn_markers,
    78: _share_state,
    79: _share_state,
    90: _share_state,
}


def is_kafkas_answer(frame: bytes) -> bool:
    """Whether UNKNOWN_SERVER_ERROR is the right answer to a frame, given without its size."""
    api_key = int.from_bytes(frame[:2], signed=True)
    request = decoded(frame)
    return request is not None and api_key in _KAFKAS and _KAFKAS[api_key](request)
