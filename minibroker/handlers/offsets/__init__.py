"""APIs that commit, read and delete offsets of groups.

This module has the shared code of OffsetCommit and TxnOffsetCommit.

Partitions that do not exist are rejected one by one, and come first in the response. The others are
committed together. The response is sent when their logs are synced, if that is required. Source:
KafkaApis, OffsetCommitResponse.Builder of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from minibroker.cluster.partition import Partition
from minibroker.coordinator.group.offsets import NewOffset
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.flush import FlushFailures
from minibroker.errors import KafkaError, NotCoordinator
from minibroker.log.partition_log import PartitionLog
from minibroker.wire.schema import constructor

#: Offsets of a request that are committed, or deleted, as one batch. More offsets are written as several batches, one after the other.
#: A crash in between keeps the first batches of a request without a response.
OFFSETS_AT_ONCE: Final = 2000

#: an error or None for each offset, and the logs to be synced before the response is sent
Committed = tuple[Sequence[KafkaError | None], Sequence[PartitionLog]]


class _Constructors(NamedTuple):
    """The constructors of a response and its parts."""

    response: Callable[..., Any]
    topic: Callable[..., Any]
    partition: Callable[..., Any]
    has_topic_ids: bool


@cache
def _constructors(schema: Any) -> _Constructors:
    has_topic_ids = hasattr(schema.TopicResult, "topic_id")
    return _Constructors(constructor(schema.Response), constructor(schema.TopicResult), constructor(schema.PartitionResult), has_topic_ids)


class OffsetCommits:
    """The offsets of one request. `schema` is the module of OffsetCommit or TxnOffsetCommit."""

    __slots__ = ("_constructors", "_offsets", "_refused", "_topics")

    def __init__(self, schema: Any, topics: Sequence[Any], find: Callable[[Any, int], Partition]) -> None:
        """Look up the partitions.

        `find` returns a partition of a topic in the request, or raises its error.
        """
        self._constructors = _constructors(schema)
        self._topics: list[tuple[Any, int]] = []  #: the topics of the request, each with the number of its offsets
        self._offsets: list[NewOffset] = []  #: to commit, topic by topic
        self._refused: dict[tuple[str, UUID | None], Any] = {}  #: results of rejected partitions by topic
        offsets = self._offsets
        for topic in topics:
            count = len(offsets)
            for entry in topic.partitions:
                try:
                    partition = find(topic, entry.partition_index)
                    offsets.append(
                        NewOffset(
                            (partition.topic, partition.index),
                            entry.committed_offset,
                            entry.committed_leader_epoch,
                            entry.committed_metadata,
                            partition.topic_id,
                        )
                    )
                except KafkaError as error:
                    result = self._refused.setdefault(_key(topic), self._result(topic))
                    result.partitions.append(self._constructors.partition(partition_index=entry.partition_index, error_code=error.code))
            self._topics.append((topic, len(offsets) - count))

    def commit(self, ctx: RequestContext, commit: Callable[[list[NewOffset]], Committed]) -> Any:
        """Return the response, or Delayed.

        `commit` raises if all offsets have the same error. It is not called without offsets.
        """
        try:
            errors, logs = commit(self._offsets) if self._offsets else ([], [])
        except KafkaError as error:
            errors, logs = [error] * len(self._offsets), []
        if not logs:
            return self._response(errors)

        def answer(failures: FlushFailures) -> Any:
            is_lost = any(log in failures for log in logs)
            return self._response([NotCoordinator()] * len(self._offsets) if is_lost else errors)

        return when_done(lambda done: ctx.broker.flush_queue.flush(logs, done), answer)

    def _response(self, errors: Sequence[KafkaError | None]) -> Any:
        """Start with the rejected partitions.

        The other topics are in the order of the request, or once each if some were rejected.
        """
        topics = list(self._refused.values())
        by_key = dict(self._refused)
        partition_result = self._constructors.partition
        start = 0
        for topic, count in self._topics:
            if not count:
                continue
            result = by_key.get(_key(topic)) if by_key else None
            if result is None:
                result = self._result(topic)
                topics.append(result)
                if by_key:
                    by_key[_key(topic)] = result
            for index in range(start, start + count):
                error = errors[index]
                code = 0 if error is None else error.code
                result.partitions.append(partition_result(partition_index=self._offsets[index].partition[1], error_code=code))
            start += count
        return self._constructors.response(topics=topics)

    def _result(self, topic: Any) -> Any:
        if self._constructors.has_topic_ids:
            return self._constructors.topic(name=topic.name, topic_id=topic.topic_id, partitions=[])
        return self._constructors.topic(name=topic.name, partitions=[])


def _key(topic: Any) -> tuple[str, UUID | None]:
    return topic.name, getattr(topic, "topic_id", None)
