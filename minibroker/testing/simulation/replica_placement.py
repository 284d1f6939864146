"""Which brokers have the replicas of each topic.

`spread` places the replicas of a new topic as Apache Kafka's StripedReplicaPlacer does. Leaders go
round all brokers and change the rack with each partition. Replicas of a partition are in different
racks as long as there are any. The followers are others in each round. Kafka starts at a random
broker. `spread` starts at a broker that follows from the topic's name, so that tests can rely on
the leaders. While brokers are stopped, the first replica is one that runs, and in each rack the
brokers that run come first.

Replicas of other topics are in `minibroker-replicas.json` in the first log directory:

    {"version": 1, "topics": {"<topic id>": [[1, 2], [2, 3]]}}        replicas of each partition, the preferred leader first

The file does not locate data: the metadata log has one broker, which has all of them. Apache Kafka
ignores the file, and so does minibroker with one broker.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Final
from uuid import UUID
from zlib import crc32

from minibroker.storage.files import Files, read_all, replace_file

ASSIGNMENTS_FILE: Final = "minibroker-replicas.json"
_VERSION: Final = 1
_LOG = logging.getLogger(__name__)

Assignment = list[list[int]]  #: replicas of each partition


def spread(
    name: str, indexes: range, replication_factor: int, racks: Mapping[int, str | None], alive: Collection[int] | None = None
) -> list[list[int]]:
    """Return the replicas of the partitions `indexes` of a topic, the preferred leader first.

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
    """Return all brokers, neighbours in different racks where possible."""
    by_rack: dict[str, list[int]] = {}
    for node_id in sorted(racks):
        by_rack.setdefault(racks[node_id] or "", []).append(node_id)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [node_id for node_id in chain.from_iterable(rounds) if node_id is not None]


def _order(ring: list[int], start: int, index: int, racks: Mapping[int, str | None]) -> list[int]:
    """Return all brokers in the order in which they get replicas of a partition."""
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
    """Put the first broker that runs first, and within each rack the brokers that run."""
    first = next(node_id for node_id in order if node_id in alive)
    order = [first, *(node_id for node_id in order if node_id != first)]
    of_rack: dict[str | None, list[int]] = {}
    for node_id in sorted(order, key=lambda node_id: node_id not in alive):
        of_rack.setdefault(racks[node_id], []).append(node_id)
    return [of_rack[racks[node_id]].pop(0) for node_id in order]


class ReplicaAssignments:
    """The file with the replicas of topics that do not follow from their names."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{ASSIGNMENTS_FILE}"
        self._of: dict[UUID, Assignment] = self._read()

    def get(self, topic_id: UUID) -> Assignment | None:
        """Return the replicas of a topic; None if they follow from its name."""
        return self._of.get(topic_id)

    def put(self, topic_id: UUID, assignment: Sequence[Sequence[int]]) -> None:
        """Write the replicas of a topic."""
        self._of[topic_id] = [list(replicas) for replicas in assignment]
        self._write()

    def remove(self, topic_ids: Sequence[UUID]) -> None:
        """Remove deleted topics."""
        known = [self._of.pop(topic_id, None) for topic_id in topic_ids]
        if any(each is not None for each in known):
            self._write()

    def _read(self) -> dict[UUID, Assignment]:
        try:
            found = json.loads(read_all(self._files, self._path))
            return {UUID(topic_id): [list(map(int, each)) for each in replicas] for topic_id, replicas in found["topics"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _LOG.warning("%s cannot be read, replicas are spread again: %s", self._path, error)
            return {}

    def _write(self) -> None:
        content = {"version": _VERSION, "topics": {str(topic_id): replicas for topic_id, replicas in self._of.items()}}
        try:
            replace_file(self._files, self._path, json.dumps(content).encode(), sync=False)
        except OSError as error:
            _LOG.warning("%s cannot be written, a restart will spread replicas again: %s", self._path, error)
