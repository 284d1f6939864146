"""All loads in the order in which they run, one module per theme, each with its LOADS."""

from __future__ import annotations

from loads import (
    clients,
    compaction,
    connections,
    fetch,
    groups,
    growth,
    latency,
    members,
    offsets,
    partitions,
    produce,
    restart,
    spark,
    start,
    transactions,
)
from loads.declaration import Load

LOADS: dict[str, Load] = {
    load.name: load
    for theme in (
        start,
        produce,
        fetch,
        offsets,
        latency,
        connections,
        partitions,
        growth,
        compaction,
        restart,
        transactions,
        groups,
        members,
        clients,
        spark,
    )
    for load in theme.LOADS
}
