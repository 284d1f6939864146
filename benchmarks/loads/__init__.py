"""All loads, in the order in which they run: a module a theme, each with its LOADS."""

from __future__ import annotations

from loads import clients, compaction, connections, fetch, groups, latency, members, offsets, produce, restart, spark, start, transactions
from loads.declaration import Load

LOADS: dict[str, Load] = {
    load.name: load
    for theme in (start, connections, produce, fetch, offsets, latency, compaction, restart, transactions, groups, members, clients, spark)
    for load in theme.LOADS
}
