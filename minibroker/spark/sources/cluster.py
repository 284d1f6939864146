"""A Kafka cluster as a source: minibroker's client looks up offsets on the driver, Spark's connector reads records."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

from minibroker.client.client import DEFAULT_TIMEOUT_MS, Client
from minibroker.client.connection import Connect
from minibroker.client.errors import BrokerUnreachable, check
from minibroker.client.offsets import EARLIEST as EARLIEST_TIME
from minibroker.client.offsets import ISOLATION_LEVELS, READ_UNCOMMITTED, list_offsets
from minibroker.client.offsets import LATEST as LATEST_TIME
from minibroker.client.routing import TopicPartition
from minibroker.client.topics import topic_id_of
from minibroker.client.transport import Deadline
from minibroker.errors import KafkaError, UnknownTopicOrPartition
from minibroker.schemas import k03_metadata
from minibroker.spark.client_config import connect_of, executor_config, kafka_options
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.positions import EARLIEST, LATEST, Bounds, Position, resolve_ranges, topics_matching
from minibroker.spark.sources.ranges import COLUMNS, SCHEMA, PartitionRange, ResolvedTopics, layers, reading_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

#: options of the connector that a source sets itself, to read exact ranges
RESERVED_OPTIONS = frozenset(
    {
        "kafka.bootstrap.servers",
        "kafka.isolation.level",
        "subscribe",
        "subscribepattern",
        "assign",
        "startingoffsets",
        "endingoffsets",
        "startingoffsetsbytimestamp",
        "endingoffsetsbytimestamp",
        "startingtimestamp",
        "endingtimestamp",
        "failondataloss",
        "includeheaders",
    }
)
_SECURITY = ("kafka.security.", "kafka.sasl.", "kafka.ssl.")


class ClusterSource:
    """Topics of a cluster.

    Args:
        bootstrap_servers: as in Kafka.
        isolation_level: read_committed ends at the last stable offset and skips aborted transactions.
        options: more options of the connector, such as kafka.fetch.max.bytes or minPartitions.
        client_config: how to connect by TLS and SASL: properties of Java's clients or librdkafka.
        connect: opens the connections of the driver's look-ups, instead of `client_config`.

    Raises:
        SourceError: an option that the source sets itself, an invalid client configuration, or an unknown isolation
            level.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        isolation_level: str = "read_committed",
        options: Mapping[str, str] | None = None,
        client_config: Mapping[str, str] | None = None,
        connect: Connect | None = None,
    ) -> None:
        if isolation_level not in ISOLATION_LEVELS:
            raise SourceError(f"isolation_level must be {' or '.join(ISOLATION_LEVELS)}, got {isolation_level!r}")
        self.bootstrap_servers = bootstrap_servers
        self.isolation_level = isolation_level
        self.options = dict(options or {})
        self.client_config = executor_config(client_config)  #: for tasks, which need no files
        self._connect = connect or connect_of(self.client_config)
        self._was_reached = False
        for name in self.options:
            if name.lower() in RESERVED_OPTIONS:
                raise SourceError(f"the option {name} is set by the pipeline: it reads exact ranges")
            if name.lower().startswith(_SECURITY):
                raise SourceError(f"the option {name} is for the connector only: give client_config, which look-ups use as well")

    def client(self) -> Client:
        """Return a client for look-ups on the driver; a context manager."""
        return Client(self.bootstrap_servers, connect=self._connect)

    def resolve(
        self, topics: Sequence[str] = (), *, pattern: str | None = None, starting: Position = EARLIEST, ending: Position = LATEST
    ) -> ResolvedTopics:
        """Return the ranges that exist now.

        Args:
            topics: names, in addition to those that match `pattern`.
            pattern: a regular expression that whole names match; internal topics are left out.
            starting: the first offset of each partition.
            ending: the offset after the last one.

        Raises:
            SourceError: no such topic, or offsets that do not exist.
            ClientError, KafkaError: no broker answers, or a broker rejects the request.
        """

        def resolved(client: Client) -> ResolvedTopics:
            found = _topics(client, topics, pattern)
            keys = [(str(topic.name), each.partition_index) for topic in found for each in topic.partitions]
            bounds = self._bounds(client, keys)
            ranges = resolve_ranges(bounds, starting, ending, lambda wanted, time_ms: self._by_time(client, wanted, time_ms))
            return ResolvedTopics(_ids(found), ranges, client.cluster_id or "")

        return self._with_client(resolved)

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the ids that topics have now; "" if unknown."""
        return self._with_client(lambda client: _ids(_topics(client, topics, None)))

    def frame(self, spark: SparkSession, ranges: Sequence[PartitionRange], *, min_partitions: int = 0) -> DataFrame:
        """Return the records of these ranges, with COLUMNS.

        Args:
            spark: a session with the Kafka connector.
            ranges: ranges of one partition must not overlap.
            min_partitions: the least number of tasks, unless the option minPartitions is given.
        """
        frames = [self._one_frame(spark, layer, min_partitions) for layer in layers(ranges)]
        if not frames:
            return spark.createDataFrame([], SCHEMA)
        return reduce(lambda one, other: one.unionAll(other), frames)

    def stream(self, spark: SparkSession, ranges: Sequence[PartitionRange], *, max_offsets_per_trigger: int | None = None) -> DataFrame:
        """Return a streaming frame with COLUMNS.

        Args:
            spark: a session with the Kafka connector.
            ranges: the topics, and the offsets to start from; the ends are ignored.
            max_offsets_per_trigger: the most offsets in a batch. Default: all.
        """
        starting = json.loads(reading_options(ranges)["startingOffsets"])
        options = {**self.connector_options(), "subscribe": ",".join(sorted(starting)), "startingOffsets": json.dumps(starting)}
        if max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
        return spark.readStream.format("kafka").options(**options).load().select(*COLUMNS)

    def __str__(self) -> str:
        return f"cluster at {self.bootstrap_servers}"

    def connector_options(self) -> dict[str, str]:
        """Return the options of every read through the connector, as a batch or as a stream."""
        return {
            **self.options,
            **kafka_options(self.client_config),
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "kafka.isolation.level": self.isolation_level,
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        }

    def _with_client(self, request: Callable[[Client], T]) -> T:
        """Call `request` with a client. If the cluster was reached before, wait for brokers that restart."""
        deadline = Deadline(DEFAULT_TIMEOUT_MS)
        while True:
            try:
                with self.client() as client:
                    found = request(client)
            except BrokerUnreachable as error:
                if not self._was_reached:
                    raise
                deadline.pause(error)
            else:
                self._was_reached = True
                return found

    def _one_frame(self, spark: SparkSession, ranges: Iterable[PartitionRange], min_partitions: int) -> DataFrame:
        least = {"minPartitions": str(min_partitions)} if min_partitions else {}
        options = {**least, **self.connector_options(), **reading_options(ranges)}
        return spark.read.format("kafka").options(**options).load().select(*COLUMNS)

    def _bounds(self, client: Client, keys: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        deadline = client.deadline()
        isolation = ISOLATION_LEVELS[self.isolation_level]
        starts = list_offsets(client, dict.fromkeys(keys, EARLIEST_TIME), isolation=READ_UNCOMMITTED, deadline=deadline)
        ends = list_offsets(client, dict.fromkeys(keys, LATEST_TIME), isolation=isolation, deadline=deadline)
        found = {}
        for key in keys:
            start, end = starts[key], ends[key]
            if isinstance(start, KafkaError):
                raise start
            if isinstance(end, KafkaError):
                raise end
            found[key] = Bounds(start.offset, max(start.offset, end.offset))  # retention may delete records between the two requests
        return found

    def _by_time(self, client: Client, keys: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        answers = list_offsets(client, dict.fromkeys(keys, time_ms), isolation=ISOLATION_LEVELS[self.isolation_level])
        found = {}
        for key, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise answer
            if answer.offset >= 0:
                found[key] = answer.offset
        return found


def _topics(client: Client, names: Sequence[str], pattern: str | None) -> list[k03_metadata.TopicResult]:
    """Return the topics' metadata, sorted, with all partitions, even those without a leader. Never create a topic."""
    chosen = list(dict.fromkeys(names))
    if pattern is not None:
        existing = [str(topic.name) for topic in client.metadata(None).topics if not topic.is_internal]
        chosen += [name for name in topics_matching(pattern, existing) if name not in chosen]
    if not chosen:
        raise SourceError("no topic is given: give a topic, or a pattern")
    found = []
    for topic in client.metadata(chosen).topics:
        try:
            check(topic.error_code, f"topic {topic.name}")
        except UnknownTopicOrPartition:
            raise SourceError(f"there is no topic {topic.name} in the cluster at {client.bootstrap[0]}") from None
        found.append(topic)
    return sorted(found, key=lambda topic: str(topic.name))


def _ids(topics: Iterable[k03_metadata.TopicResult]) -> dict[str, str]:
    return {str(topic.name): topic_id_of(topic) for topic in topics}
