"""What the fuzzer knows of the broker: names that exist and names that do not, and what answers said of ids and epochs."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

TOPICS = ("alpha", "beta", "compacted", "squeezed", "stamped", "expired")
TOPIC_CONFIGS = {
    "compacted": {"cleanup.policy": "compact"},
    "squeezed": {"compression.type": "gzip", "segment.bytes": "1048576", "retention.bytes": "4194304"},
    "stamped": {"message.timestamp.type": "LogAppendTime", "segment.bytes": "1048576", "retention.bytes": "4194304"},
    "expired": {"retention.ms": "1000", "segment.bytes": "1048576"},
}
SOMETIMES_THERE = tuple(f"volatile-{number}" for number in range(4))  #: created, deleted and created again
UNKNOWN_TOPICS = ("unknown", "", ".", "..", "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "a/b")
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
GROUPS = tuple(f"{kind}-{number}" for kind in (CLASSIC, CONSUMER, SHARE, STREAMS) for number in range(4))
TRANSACTIONAL_IDS = tuple(f"transactional-{number}" for number in range(8))
INSTANCES = ("instance-0", "instance-1")
HONEST_CLIENT = "honest"
_KEPT = 48  #: values of each concept


class World:
    """Values to choose from, by concept; answers add to them."""

    def __init__(self) -> None:
        self.learned: dict[str, list[Any]] = defaultdict(list)
        self.hidden: set[Any] = set()  #: of the honest client: never to be used

    def learn(self, concept: str, value: Any, chance: Random) -> None:
        """Keep a value that an answer had; the oldest ones make room at random."""
        if value in self.hidden:
            return
        known = self.learned[concept]
        if len(known) < _KEPT:
            known.append(value)
        else:
            known[chance.randrange(_KEPT)] = value

    def one_of(self, concept: str, chance: Random, otherwise: Any) -> Any:
        """A value that was learned, or `otherwise` when there is no such value."""
        known = self.learned[concept]
        return chance.choice(known) if known else otherwise

    def topic(self, chance: Random) -> str:
        """Mostly one that exists."""
        draw = chance.random()
        return chance.choice(TOPICS if draw < 0.75 else SOMETIMES_THERE if draw < 0.92 else UNKNOWN_TOPICS)

    def group(self, chance: Random) -> str:
        """One of few, so that requests of different kinds meet in one group."""
        return chance.choice(GROUPS) if chance.random() < 0.95 else chance.choice(("", "unknown-group"))

    def group_of(self, kind: str, chance: Random) -> str:
        """A group that is used by one kind of member."""
        return f"{kind}-{chance.randrange(4)}"

    def transactional_id(self, chance: Random) -> str:
        """One of few."""
        return chance.choice(TRANSACTIONAL_IDS) if chance.random() < 0.95 else chance.choice(("", "unknown-id"))

    def topic_id(self, chance: Random) -> uuid.UUID:
        """Mostly one that exists."""
        if chance.random() < 0.1:
            return chance.choice((uuid.UUID(int=0), uuid.UUID(int=1), uuid.UUID(int=chance.getrandbits(128))))
        found: uuid.UUID = self.one_of("topic_id", chance, uuid.UUID(int=0))
        return found


#: Fields of answers whose values are worth keeping, and the concept that each belongs to.
CONCEPTS: dict[str, str] = {
    "topic_id": "topic_id",
    "member_id": "member_id",
    "leader": "member_id",
    "producer_id": "producer_id",
    "producer_epoch": "epoch",
    "generation_id": "epoch",
    "member_epoch": "epoch",
    "leader_epoch": "leader_epoch",
    "session_id": "session_id",
    "high_watermark": "offset",
    "log_start_offset": "offset",
    "base_offset": "offset",
    "offset": "offset",
    "next_cursor": "cursor",
    "replica_directory_id": "directory_id",
    "log_dir": "log_dir",
    "client_instance_id": "client_instance_id",
    "subscription_id": "subscription_id",
}

Draw = Callable[[World, Random], Any]
