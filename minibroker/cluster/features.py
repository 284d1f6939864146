"""Features: levels of behaviour that a cluster has agreed on, as records of its metadata log (KIP-584).

    metadata.version      how records of the metadata log are written
    transaction.version   0 as before KIP-890; 1 the same with the tagged fields of TransactionLogValue v1; 2 Produce and
                          TxnOffsetCommit add their partitions themselves, and the end of each transaction bumps the producer epoch

A new metadata log begins with the newest level of each; one that Apache Kafka or an older minibroker began keeps its levels, and a feature
that it does not name is at level 0. Clients act upon the levels that ApiVersions tells them, so it tells of these features only.
Sources: KIP-584, MetadataVersion, TransactionVersion of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minibroker.cluster.metadata_frame import METADATA_VERSION, METADATA_VERSION_FEATURE, MIN_METADATA_VERSION
from minibroker.errors import ConfigurationError

TRANSACTION_VERSION_FEATURE: Final = "transaction.version"
TRANSACTION_VERSION: Final = 2
_TRANSACTION_VERSION_SINCE: Final = 24  #: metadata.version 4.0-IV2: Kafka finalizes no level of it by itself in older clusters


class Levels(NamedTuple):
    """What can be served of a feature, both included."""

    lowest: int
    highest: int


SERVED: Final = {
    METADATA_VERSION_FEATURE: Levels(MIN_METADATA_VERSION, METADATA_VERSION),
    TRANSACTION_VERSION_FEATURE: Levels(0, TRANSACTION_VERSION),
}


def default_levels(metadata_version: int = METADATA_VERSION) -> dict[str, int]:
    """With what a new metadata log begins; metadata.version first, as Kafka wants it."""
    levels = {METADATA_VERSION_FEATURE: metadata_version}
    if metadata_version >= _TRANSACTION_VERSION_SINCE:
        levels[TRANSACTION_VERSION_FEATURE] = TRANSACTION_VERSION
    return levels


def problems_of(features: Mapping[str, int]) -> list[str]:
    """Features that are at a level which cannot be served, each in a few words."""
    found = [(name, features.get(name, 0), levels) for name, levels in SERVED.items()]
    return [
        f"{name} {level}: {levels.lowest} to {levels.highest} can be served"
        for name, level, levels in found
        if not levels.lowest <= level <= levels.highest
    ]


def check_levels(features: Mapping[str, int]) -> None:
    """Whether a metadata log with these finalized features can be served: ConfigurationError."""
    for problem in problems_of(features):
        raise ConfigurationError(f"the metadata log has {problem}")
