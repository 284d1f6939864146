"""What `storage check` says of records of `__share_group_state`."""

from __future__ import annotations

from uuid import UUID

from minibroker.coordinator.record_checking import check_share_state
from minibroker.coordinator.share_state.records import StateKey, state_tombstone
from minibroker.records.record import Record
from minibroker.storage.record_frame import SHARE_GROUP_STATE

KEY = StateKey("workers", UUID(int=1), 0)  # partition 47 of 50


def test_records_of_share_partitions() -> None:
    good = Record(0, 1, SHARE_GROUP_STATE.encode_key(state_tombstone(KEY).key), None)
    assert KEY.coordinator_key == "workers:AAAAAAAAAAAAAAAAAAAAAQ:0"
    assert check_share_state(47, 50, good) is None
    assert check_share_state(0, None, good) is None
    assert "belongs in partition 47 of 50" in str(check_share_state(46, 50, good))
    assert "no record of a share partition" in str(check_share_state(47, 50, good._replace(value=b"\0\7")))
