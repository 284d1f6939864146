"""What members subscribe to: topics by name, and by regular expressions, which are resolved to the topics that exist.

The request that brings a new expression resolves it, unless that is much work (topic_expressions.py): then a later heartbeat finds the
result. Known expressions are resolved again when the topics of the cluster changed, but at most once a second. Apache Kafka waits ten
seconds, and always resolves an expression after the request, so its answer to the first member of a group has no partitions; so does
minibroker with minibroker.like.kafka.

Source: GroupMetadataManager, ResolvedRegularExpression of Apache Kafka 4.3.1; KIP-848, KIP-1043.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from minibroker.coordinator.group.consumer.members import Member
from minibroker.coordinator.group.topic_expressions import check_topic_expression
from minibroker.coordinator.group.topics import Topics
from minibroker.errors import InvalidRegularExpression


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched."""

    topics: tuple[str, ...]
    version: int  #: of the topics
    timestamp_ms: int


def check_regex(pattern: str | None) -> None:
    """Raise InvalidRegularExpression if a member sends an expression that is invalid or too large."""
    if pattern:
        try:
            check_topic_expression(pattern)
        except InvalidRegularExpression as error:
            raise InvalidRegularExpression(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.") from None


def resolve(pattern: str, topics: Topics, now_ms: int) -> ResolvedRegex | None:
    """Return the topics that the expression matches; None while that is not known yet."""
    matching = topics.matching(pattern)
    return None if matching is None else ResolvedRegex(matching.names, matching.version, now_ms)


def names_of(member: Member, regexes: Mapping[str, ResolvedRegex]) -> set[str]:
    """All that a member is subscribed to, whether it is there or not."""
    resolved = regexes.get(member.topic_regex)
    return {*member.topic_names, *(resolved.topics if resolved is not None else ())}


def found(names: Iterable[str], topics: Topics) -> dict[UUID, int]:
    """Those that are there, with their partitions."""
    known = (topics.find(name) for name in names)
    return {topic.topic_id: topic.partition_count for topic in known if topic is not None}
