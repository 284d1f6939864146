"""The settings of both brokers."""

from __future__ import annotations

from typing import Final

#: The same for both: few partitions of internal topics, and what differs by default.
SETTINGS: Final = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.min.session.timeout.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "log.initial.task.delay.ms": "100000000",
    **{f"group.{kind}.min.heartbeat.interval.ms": "1000" for kind in ("consumer", "share", "streams")},
    **{f"group.{kind}.heartbeat.interval.ms": "1000" for kind in ("consumer", "share", "streams")},
    **{f"group.{kind}.assignment.interval.ms": "0" for kind in ("consumer", "share", "streams")},
}
