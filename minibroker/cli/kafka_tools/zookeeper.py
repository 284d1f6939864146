"""zookeeper-server-start: start scripts for images with ZooKeeper call it. There is nothing to start: the broker keeps its own metadata."""

from __future__ import annotations

from collections.abc import Sequence


def run(_arguments: Sequence[str]) -> int:
    """Done."""
    print("no ZooKeeper is needed: minibroker keeps its own metadata")
    return 0
