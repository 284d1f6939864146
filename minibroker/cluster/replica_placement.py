"""Which brokers get the replicas of a new topic: in turn, with racks as different as may be.

As Apache Kafka's StripedReplicaPlacer: leaders go round all brokers and change the rack with each partition, replicas of a partition are in
different racks as long as there are any, and each time round the followers are others. Where Kafka begins at random, this begins at a
place that the topic's name says: a topic is always led by the same brokers, so tests may rely on it. While brokers are stopped, the first
replica is one that runs, and in each rack those that run come first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain, zip_longest
from zlib import crc32


def spread(
    name: str, indexes: range, replication_factor: int, racks: Mapping[int, str | None], alive: Collection[int] | None = None
) -> list[list[int]]:
    """Replicas of the partitions `indexes` of a topic, the preferred leader first.

    `racks` has the rack of each broker's id; `alive` are those that run, None: all.
    """
    ring = _alternating(racks)
    start = crc32(name.encode())
    period = len(ring) * max(len(ring) - 1, 1)  # partitions after which the orders repeat
    orders = [_order(ring, start, index, racks) for index in range(min(period, indexes.stop))]
    if alive:
        orders = [_alive_first(order, racks, alive) for order in orders]
    return [orders[index % period][:replication_factor] for index in indexes]


def _alternating(racks: Mapping[int, str | None]) -> list[int]:
    """All brokers, neighbours in different racks as far as that goes."""
    by_rack: dict[str, list[int]] = {}
    for node_id in sorted(racks):
        by_rack.setdefault(racks[node_id] or "", []).append(node_id)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [node_id for node_id in chain.from_iterable(rounds) if node_id is not None]


def _order(ring: list[int], start: int, index: int, racks: Mapping[int, str | None]) -> list[int]:
    """All brokers, as they would get replicas of a partition."""
    first = (start + index) % len(ring)
    turn = ring[first:] + ring[:first]
    others = turn[1:]
    shift = index // len(ring) % len(others) if others else 0
    others = others[shift:] + others[:shift]
    chosen, seen = [turn[0]], {racks[turn[0]]}
    for node_id in others:
        if racks[node_id] not in seen:
            seen.add(racks[node_id])
            chosen.append(node_id)
    return chosen + [node_id for node_id in others if node_id not in chosen]


def _alive_first(order: list[int], racks: Mapping[int, str | None], alive: Collection[int]) -> list[int]:
    """The racks in the same order, but for that of the first who is alive."""
    first = next(node_id for node_id in order if node_id in alive)
    order = [first, *(node_id for node_id in order if node_id != first)]
    of_rack: dict[str | None, list[int]] = {}
    for node_id in sorted(order, key=lambda node_id: node_id not in alive):
        of_rack.setdefault(racks[node_id], []).append(node_id)
    return [of_rack[racks[node_id]].pop(0) for node_id in order]
