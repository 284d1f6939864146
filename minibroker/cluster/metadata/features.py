"""Features: levels of behaviour that the metadata log of a cluster has finalized (KIP-584).

    metadata.version      how records of the metadata log are written
    kraft.version         0 the voters are in the configuration; 1 they are in the metadata log (KIP-853). Its level is in a control
                          record of the metadata log, not in a FeatureLevelRecord (quorum.py)
    transaction.version   0 as before KIP-890; 1 the same with the tagged fields of TransactionLogValue v1; 2 Produce and
                          TxnOffsetCommit add their partitions themselves, and the end of each transaction bumps the producer epoch
    group.version         0 classic groups only; 1 consumer groups of KIP-848
    share.version         0 no share groups; 1 those of KIP-932
    streams.version       0 no streams groups; 1 those of KIP-1071
    eligible.leader.replicas.version   0 the last replica in sync stays in the in-sync set; 1 it becomes eligible to lead (KIP-966)

A new metadata log starts with the newest level of each. One that Apache Kafka or an older minibroker created keeps its levels, and a
feature that it does not have is at level 0. Clients act upon the levels that ApiVersions reports, so it reports only these features.
Sources: KIP-584, MetadataVersion, TransactionVersion, EligibleLeaderReplicasVersion, FeatureControlManager of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from minibroker.cluster.metadata.frame import METADATA_VERSION, METADATA_VERSION_FEATURE, MIN_METADATA_VERSION
from minibroker.cluster.metadata.quorum import KRAFT_VERSION_MAX
from minibroker.errors import ConfigurationError, InvalidUpdateVersion

TRANSACTION_VERSION_FEATURE: Final = "transaction.version"
TRANSACTION_VERSION: Final = 2
GROUP_VERSION_FEATURE: Final = "group.version"
GROUP_VERSION: Final = 1
SHARE_VERSION_FEATURE: Final = "share.version"
SHARE_VERSION: Final = 1
STREAMS_VERSION_FEATURE: Final = "streams.version"
STREAMS_VERSION: Final = 1
ELIGIBLE_LEADERS_FEATURE: Final = "eligible.leader.replicas.version"
ELIGIBLE_LEADERS_VERSION: Final = 1
KRAFT_VERSION_FEATURE: Final = "kraft.version"
#: metadata.versions (4.1-IV0, 4.0-IV0, 4.2-IV0, 4.2-IV1, 4.0-IV2): in older clusters Kafka does not finalize these features by default.
#: The order is that of Kafka's formatter.
_SINCE: Final = {
    ELIGIBLE_LEADERS_FEATURE: 26,
    GROUP_VERSION_FEATURE: 22,
    SHARE_VERSION_FEATURE: 28,
    STREAMS_VERSION_FEATURE: 29,
    TRANSACTION_VERSION_FEATURE: 24,
}

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3

#: metadata.versions at which records of the metadata log changed (didMetadataChange): no downgrade leads below one of them
_CHANGES_OF_RECORDS: Final = (8, 11, 13, 14, 15, 17, 23, 30)


class FeatureUpdate(NamedTuple):
    """A new level of a feature; 0 removes it."""

    name: str
    level: int
    upgrade_type: int


class FeatureLevels(NamedTuple):
    """The levels of a feature that can be served, inclusive."""

    lowest: int
    highest: int


_ELIGIBLE_LEADERS_NEED: Final = 23  #: metadata.version 4.0-IV1

#: features that records of the metadata log finalize
RECORDED: Final = {
    METADATA_VERSION_FEATURE: FeatureLevels(MIN_METADATA_VERSION, METADATA_VERSION),
    TRANSACTION_VERSION_FEATURE: FeatureLevels(0, TRANSACTION_VERSION),
    GROUP_VERSION_FEATURE: FeatureLevels(0, GROUP_VERSION),
    SHARE_VERSION_FEATURE: FeatureLevels(0, SHARE_VERSION),
    STREAMS_VERSION_FEATURE: FeatureLevels(0, STREAMS_VERSION),
    ELIGIBLE_LEADERS_FEATURE: FeatureLevels(0, ELIGIBLE_LEADERS_VERSION),
}
SERVED: Final = RECORDED | {KRAFT_VERSION_FEATURE: FeatureLevels(0, KRAFT_VERSION_MAX)}


def default_levels(metadata_version: int = METADATA_VERSION) -> dict[str, int]:
    """Return the levels of a new metadata log. metadata.version comes first, as Kafka requires."""
    newer = {name: RECORDED[name].highest for name, since in _SINCE.items() if metadata_version >= since}
    return {METADATA_VERSION_FEATURE: metadata_version} | newer


def problems_of(features: Mapping[str, int]) -> list[str]:
    """Return a description of each feature whose level cannot be served."""
    found = [(name, features.get(name, 0), levels) for name, levels in RECORDED.items()]
    return [
        f"{name} {level}: {levels.lowest} to {levels.highest} can be served"
        for name, level, levels in found
        if not levels.lowest <= level <= levels.highest
    ]


def check_levels(features: Mapping[str, int]) -> None:
    """Raise ConfigurationError if these finalized features cannot be served."""
    for problem in problems_of(features):
        raise ConfigurationError(f"the metadata log has {problem}")


def check_updates(features: Mapping[str, int], updates: Sequence[FeatureUpdate], *, node_id: int) -> dict[str, int]:
    """Return the levels that change, by name. Of several updates of one feature the last one counts.

    The rules are those of FeatureControlManager.updateFeature of Apache Kafka 4.3.1. A feature that the log has and this broker does not
    serve can only be removed.

    Raises:
        InvalidUpdateVersion: An update is not allowed; none may be made.
    """
    levels = {update.name: update for update in updates}
    after = {**features, **{name: update.level for name, update in levels.items()}}
    for update in levels.values():
        reason = _refusal(features, update, node_id) or _unmet(after, update)
        if reason is not None:
            raise InvalidUpdateVersion(f"The update failed for all features since the following feature had an error: {reason}")
    return {name: update.level for name, update in levels.items() if features.get(name, 0) != update.level}


def unmet_dependency(levels: Mapping[str, int], name: str) -> str | None:
    """Return Kafka's message if a feature needs another one at a higher level, else None."""
    level = levels.get(name, 0)
    if name != ELIGIBLE_LEADERS_FEATURE or not level or levels[METADATA_VERSION_FEATURE] >= _ELIGIBLE_LEADERS_NEED:
        return None
    return f"{name} could not be set to {level} because it depends on {METADATA_VERSION_FEATURE} level {_ELIGIBLE_LEADERS_NEED}"


def _unmet(after: Mapping[str, int], update: FeatureUpdate) -> str | None:
    reason = unmet_dependency(after, update.name)
    return None if reason is None else f"Invalid update version {update.level} for feature {update.name}. {reason}"


def _refusal(features: Mapping[str, int], update: FeatureUpdate, node_id: int) -> str | None:
    current = features.get(update.name, 0)
    served = SERVED.get(update.name) or (FeatureLevels(0, 0) if update.name in features else None)
    reason = None
    if update.upgrade_type not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
        reason = "The controller does not support the given upgrade type."
    elif update.level < 0:
        reason = "A feature version cannot be less than 0."
    elif served is None:
        reason = f"Local controller {node_id} does not support this feature." if update.level else f"Feature {update.name} not found."
    elif not served.lowest <= update.level <= served.highest:
        reason = f"Local controller {node_id} only supports versions {served.lowest}-{served.highest}"
    elif update.level < current and update.upgrade_type == UPGRADE:
        reason = "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
    elif update.level > current and update.upgrade_type != UPGRADE:
        reason = "Can't downgrade to a newer version."
    elif update.name == KRAFT_VERSION_FEATURE and update.level < current:
        reason = "Can't downgrade the version of this feature."
    elif update.name == METADATA_VERSION_FEATURE and any(update.level < each <= current for each in _CHANGES_OF_RECORDS):
        details = (
            "Unsafe metadata downgrade is not supported in this version."
            if update.upgrade_type == UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        return f"Unsupported metadata.version downgrade from {current} to {update.level}. {details}"
    return None if reason is None else f"Invalid update version {update.level} for feature {update.name}. {reason}"
