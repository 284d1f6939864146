"""What members subscribed to: topics by name, and by expressions, which are resolved against the topics that there are.

An expression that is new is resolved at once, by the request that brings it: it takes linear time. Known ones are resolved anew when the
topics of the cluster changed, but not more often than every second. (Apache Kafka waits ten seconds, for it looks at all topics of a big
cluster; and it resolves them behind the request, so that the first member of a group is told nothing at first.)

Source: GroupMetadataManager, ResolvedRegularExpression of Apache Kafka 4.3.1; KIP-848, KIP-1043.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from minibroker.coordinator.group.consumer.members import Member
from minibroker.coordinator.group.topics import Topics
from minibroker.coordinator.regular_expression import Regex
from minibroker.errors import InvalidRegularExpression

REFRESH_INTERVAL_MS: Final = 1_000


class ResolvedRegex(NamedTuple):
    """The topics that an expression stood for."""

    topics: tuple[str, ...]
    version: int  #: of the topics
    timestamp_ms: int


def check_regex(pattern: str | None) -> None:
    """InvalidRegularExpression where a member sends what is none."""
    if pattern:
        try:
            Regex(pattern)
        except InvalidRegularExpression as error:
            raise InvalidRegularExpression(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.") from None


def resolve(pattern: str, topics: Topics, now_ms: int) -> ResolvedRegex:
    """Look which topics it stands for."""
    regex = Regex(pattern)
    return ResolvedRegex(tuple(sorted(name for name in topics.names() if regex.matches(name))), topics.version, now_ms)


def names_of(member: Member, regexes: Mapping[str, ResolvedRegex]) -> set[str]:
    """All that a member is subscribed to, whether it is there or not."""
    resolved = regexes.get(member.topic_regex)
    return {*member.topic_names, *(resolved.topics if resolved is not None else ())}


def found(names: Iterable[str], topics: Topics) -> dict[UUID, int]:
    """Those that are there, with their partitions."""
    known = (topics.find(name) for name in names)
    return {topic.topic_id: topic.partition_count for topic in known if topic is not None}
