"""What a group's topology comes to with the topics of the moment: looked up once for each change of topics, and made whole.

Internal topics that are missing are made at once; one that cannot be made is tried again whenever a member is heard of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from minibroker.coordinator.group.streams.internal_topics import ConfiguredTopology, InternalTopic, Status, configure
from minibroker.coordinator.group.streams.topology import Topology
from minibroker.coordinator.group.topics import Topics, metadata_hash
from minibroker.errors import KafkaError

_SHOWN_FAILURES: Final = 3

_LOG = logging.getLogger(__name__)

MakeTopic = Callable[[InternalTopic], None]  #: KafkaError


class Configured(NamedTuple):
    """A topology with the topics of one moment."""

    topology: Topology
    topics_version: int
    metadata_hash: int  #: of the topics that it requires
    result: ConfiguredTopology
    problem: Status | None = None  #: of the result, and why topics could not be made


class Configuring:
    """For one group."""

    def __init__(self, group_id: str, topics: Topics, make_topic: MakeTopic) -> None:
        self._group_id = group_id
        self._topics = topics
        self._make_topic = make_topic
        self._known: Configured | None = None

    def look(self, topology: Topology) -> Configured:
        """As things are; StreamsInvalidTopology."""
        known, version = self._known, self._topics.version
        if known is not None and known.topology is not topology and known.topology.is_same(topology):
            known = known._replace(topology=topology)  # the next look is a short one
        if known is None or known.topics_version != version or known.topology is not topology:
            result = configure(topology, self._topics)
            known = Configured(topology, version, metadata_hash(topology.required_topics, self._topics), result, result.problem)
        self._known = known
        return known

    def complete(self, topology: Topology) -> Configured:
        """As things are when what is missing has been made; StreamsInvalidTopology."""
        known = self.look(topology)
        if not known.result.missing:
            return known
        failures = []
        for topic in known.result.missing:
            try:
                self._make_topic(topic)
            except KafkaError as error:
                failures.append(f"{topic.name} ({error})")
                _LOG.warning("group %s: topic %s cannot be made: %s", self._group_id, topic.name, error)
        known = self.look(topology)
        return known._replace(problem=_told(known.problem, failures)) if failures else known


def _told(problem: Status | None, failures: list[str]) -> Status | None:
    """What is missing, and why; in Apache Kafka's words."""
    if problem is None:
        return None
    rest = len(failures) - _SHOWN_FAILURES
    words = ", ".join(failures[:_SHOWN_FAILURES]) + (f" and {rest} more" if rest > 0 else "")
    return problem._replace(detail=f"{problem.detail}; Creation failed: {words}.")
