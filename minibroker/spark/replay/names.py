"""What a replay is called in the cluster. A name of a user's, and `/`, which no topic and no name has, keep all of them apart."""

from __future__ import annotations

import re

from minibroker.spark.replay.errors import ReplayError

PREFIX = "minibroker-replay-"
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")
LEDGER_PARTITION = 0


def check_name(name: str) -> None:
    """ReplayError for one that cannot be part of a topic's."""
    if not _NAME.fullmatch(name):
        raise ReplayError(f"the replay's name is {name!r}: 1 to 200 letters, digits, '.', '_' and '-' are possible")


def group_of(name: str) -> str:
    """The group that commits how far each target partition is."""
    return PREFIX + name


def ledger_of(name: str) -> str:
    """The topic that keeps the runs and the mapping of offsets."""
    return PREFIX + name


def transactional_id(name: str, topic: str = "", partition: int = 0) -> str:
    """Of the producer of one target partition; without a topic, of the driver."""
    return f"{PREFIX}{name}/{topic}/{partition}" if topic else f"{PREFIX}{name}/"
