"""Every figure of the loads: its unit, and in which direction it is better.

Names are without the place after ` @ `. A figure that explains others (how large, how often) has no better direction.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from loads.declaration import AT


class Better(Enum):
    """In which direction a figure is better."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class Figure(NamedTuple):
    """Unit and direction of a figure."""

    name: str
    unit: str
    better: Better


def better(figure: str) -> Better:
    """Return the meaning of a figure or of a point of a curve; an undeclared one has no direction."""
    found = FIGURES.get(figure.split(AT, maxsplit=1)[0])
    return found.better if found else Better.NEITHER


def _table(direction: Better, *figures: tuple[str, str]) -> dict[str, Figure]:
    return {name: Figure(name, unit, direction) for name, unit in figures}


FIGURES: dict[str, Figure] = {
    **_table(
        Better.HIGHER,
        ("requests/s", "requests/s"),
        ("MB/s", "MB/s"),
        ("opened connections/s", "connections/s"),
        ("requests/s beside them", "requests/s"),
        ("requests/s of all", "requests/s"),
        ("earliest requests/s", "requests/s"),
        ("latest requests/s", "requests/s"),
        ("by timestamp requests/s", "requests/s"),
        ("transactions/s", "transactions/s"),
        ("commits/s", "commits/s"),
        ("recovery MB/s", "MB/s"),
        ("check MB/s", "MB/s"),
        ("records/s", "records/s"),
        ("fetched records/s", "records/s"),
    ),
    **_table(
        Better.LOWER,
        ("cold start ms", "ms"),
        ("idle memory MB", "MB"),
        ("CPU us/request", "us"),
        ("CPU s/GB", "s/GB"),
        ("acknowledged p50 us", "us"),
        ("acknowledged p99 us", "us"),
        ("acknowledged p99.9 us", "us"),
        ("delivered p50 us", "us"),
        ("delivered p99 us", "us"),
        ("delivered p99.9 us", "us"),
        ("delivered to all p50 us", "us"),
        ("delivered to all p99 us", "us"),
        ("kB/connection", "kB"),
        ("CPU us/request beside them", "us"),
        ("CPU us/request of all", "us"),
        ("create s", "s"),
        ("create CPU s", "s"),
        ("one record to each s", "s"),
        ("kB/partition", "kB"),
        ("earliest CPU us/request", "us"),
        ("latest CPU us/request", "us"),
        ("by timestamp CPU us/request", "us"),
        ("produce CPU us/request", "us"),
        ("fetch CPU us/request", "us"),
        ("ListOffsets CPU us/request", "us"),
        ("produce and poll CPU us/record", "us"),
        ("compaction s/GB", "s/GB"),
        ("compaction CPU s/GB", "s/GB"),
        ("compaction peak memory MB", "MB"),
        ("compaction memory added MB", "MB"),
        ("GB left of 1", "GB"),
        ("acknowledged p50 us under compaction", "us"),
        ("acknowledged p99 us under compaction", "us"),
        ("acknowledged max us under compaction", "us"),
        ("compaction s/GB under produce", "s/GB"),
        ("recovered after s", "s"),
        ("recovery CPU s", "s"),
        ("start after a stop s", "s"),
        ("start after a stop CPU s", "s"),
        ("start after SIGKILL s", "s"),
        ("start after SIGKILL CPU s", "s"),
        ("check s", "s"),
        ("CPU us/transaction", "us"),
        ("EndTxn p50 us", "us"),
        ("EndTxn p99 us", "us"),
        ("asked again/transaction", "requests"),
        ("memory MB", "MB"),
        ("first group ms", "ms"),
        ("first message p50 us", "us"),
        ("first message p99 us", "us"),
        ("CPU us/group", "us"),
        ("rebalance of 20 p50 us", "us"),
        ("rebalance of 20 p99 us", "us"),
        ("CPU us/rebalance", "us"),
        ("CPU us/commit", "us"),
        ("first message, confluent-kafka p50 ms", "ms"),
        ("first message, kafka-python p50 ms", "ms"),
        ("acknowledged p50 ms", "ms"),
        ("acknowledged p99 ms", "ms"),
        ("until assigned ms", "ms"),
        ("until both have partitions s", "s"),
        ("first count, classic group ms", "ms"),
        ("first count, streams group ms", "ms"),
        ("wall s", "s"),
        ("CPU s", "s"),
        ("a read p50 ms", "ms"),
        ("CPU ms/read", "ms"),
        ("trigger of 50,000 p50 ms", "ms"),
        ("new record to end of batch p50 ms", "ms"),
        ("new record to end of batch max ms", "ms"),
    ),
    **_table(
        Better.NEITHER,
        ("client CPU us/request", "us"),
        ("client CPU s/GB", "s/GB"),
        ("background requests/s", "requests/s"),
    ),
}
