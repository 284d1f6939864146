"""What became of the records of a share group: available, acquired, acknowledged or archived, and how often each was delivered."""

from __future__ import annotations

from typing import Any, Final

from minibroker.console.pace import paced
from minibroker.console.page import Visit
from minibroker.coordinator.share_partition.share_partition import SharePartition
from minibroker.security.acl import Operation, ResourceType

_PARTITIONS_SHOWN: Final = 50
_RUNS_SHOWN: Final = 100  #: of one partition


async def share_partitions_of(visit: Visit, group_id: str) -> list[dict[str, Any]]:
    """Return the records in flight of each partition that a group has read since the broker started."""
    found = []
    served = visit.services.coordinators.share_partitions.served_of(group_id)
    async for partition in paced(served[:_PARTITIONS_SHOWN], every=1):
        topic = visit.image.topics_by_id.get(partition.key.topic_id)
        if topic is not None and visit.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            found.append({"topic": topic.name, "partition": partition.key.partition, **_runs(partition, visit.host.now_ms())})
    return sorted(found, key=lambda each: (each["topic"], each["partition"]))


def _runs(partition: SharePartition, now_ms: int) -> dict[str, Any]:
    records = partition.records
    runs = [run for batch in records.batches for run in batch.runs]
    return {
        "start_offset": records.start_offset,
        "next_offset": records.next_offset,
        "run_count": len(runs),
        "runs": [
            {
                "first_offset": run.first_offset,
                "last_offset": run.last_offset,
                "state": run.state.name.lower(),
                "delivery_count": run.delivery_count,
                "member_id": run.member_id or None,
                "lock_left_ms": max(run.lock_expires_ms - now_ms, 0) if run.lock_expires_ms else None,
            }
            for run in runs[:_RUNS_SHOWN]
        ],
    }
