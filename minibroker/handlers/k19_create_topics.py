"""CreateTopics (key 19): create topics with partitions and configs.

They are ready when the response is sent.

Versions: 2 to 7; 5 is flexible and returns the effective configs, 7 the topic id. Each topic is
created or rejected independently, with Apache Kafka's checks. A repeated name is rejected.
POLICY_VIOLATION rejects a request for more than 10,000 partitions in total. A replication factor
above the number of brokers is INVALID_REPLICATION_FACTOR. `validate_only` runs all checks and
creates nothing. `timeout_ms` is not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from minibroker.cluster.cluster import Charge, NewTopic
from minibroker.cluster.configs.config_entries import topic_entries
from minibroker.cluster.metadata.frame import Steps
from minibroker.cluster.topic_rules import PARTITIONS_OF_REQUEST_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidReplicaAssignment, InvalidRequest, KafkaError, PolicyViolation
from minibroker.schemas import k19_create_topics as schema

STRICT_SINCE = 6  #: lower versions do not have THROTTLING_QUOTA_EXCEEDED
_Described = dict[tuple[tuple[str, str], ...], list[schema.ConfigResult]]  #: computes a topic's configs from its overrides

NOT_SET = -1  #: num_partitions and replication_factor: use the broker's default, or the assignments


def _check_partition_count(ctx: RequestContext, request: schema.Request) -> None:
    total = 0
    for topic in request.topics:
        total += max(_partition_count(ctx, topic), 1)
        if total > PARTITIONS_OF_REQUEST_MAX:
            raise PolicyViolation("Excessively large number of partitions per request.")


_PIECES = Pieces(
    "topics",
    "topics",
    size=150,
    key=lambda _ctx, topic: topic.name,
    weight=lambda topic: max(1, topic.num_partitions, len(topic.assignments)) + len(topic.configs),
    check=_check_partition_count,
)


@handles(schema, _PIECES)
def create_topics(ctx: RequestContext, request: schema.Request) -> Any:
    """Create the topics. Returns Delayed if they have many partitions."""
    return ctx.broker.slices.run(_create_topics(ctx, request))


def _create_topics(ctx: RequestContext, request: schema.Request) -> Steps[schema.Response]:
    """Create each topic. Repeated names have one result."""
    counts = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}
    charge = ctx.charge_mutations(is_strict=ctx.api_version >= STRICT_SINCE)
    _check_partition_count(ctx, request)
    found: dict[str, NewTopic | KafkaError] = {}
    beside: set[str] = set()
    for name, topic in topics.items():
        new = found[name] = _check(ctx, topic, charge, beside, is_single=counts[name] == 1)
        if isinstance(new, NewTopic) and not request.validate_only:
            beside.add(name)
    if not request.validate_only:
        yield from _create(ctx, found)
    described: _Described = {}
    return schema.Response(topics=[_result(ctx, name, new, described) for name, new in found.items()])


def _partition_count(ctx: RequestContext, topic_entry: schema.Topic) -> int:
    """Return the number of requested partitions, including invalid ones."""
    if topic_entry.assignments:
        return len(topic_entry.assignments)
    return (
        ctx.cluster.default_partition_count(topic_entry.name)
        if topic_entry.num_partitions == NOT_SET
        else max(topic_entry.num_partitions, 0)
    )


def _check(
    ctx: RequestContext, topic_entry: schema.Topic, charge: Charge, beside: Collection[str], *, is_single: bool
) -> NewTopic | KafkaError:
    try:
        if not is_single:
            raise InvalidRequest("Duplicate topic name.")
        return ctx.cluster.new_topic(
            topic_entry.name,
            partition_count=None if topic_entry.num_partitions == NOT_SET else topic_entry.num_partitions,
            replication_factor=topic_entry.replication_factor,
            assignments=_assignments(ctx, topic_entry),
            configs=_configs(topic_entry),
            beside=beside,
            charge=charge,
        )
    except KafkaError as error:
        return error


def _create(ctx: RequestContext, found: dict[str, NewTopic | KafkaError]) -> Steps[None]:
    """Create all valid topics with one fsync."""
    new_topics = [new for new in found.values() if isinstance(new, NewTopic)]
    try:
        found.update((yield from ctx.cluster.create_topics_in_steps(new_topics)))
    except KafkaError as error:
        found.update(dict.fromkeys((new.name for new in new_topics), error.with_traceback(None)))  # a traceback would keep `found` alive


def _configs(topic_entry: schema.Topic) -> dict[str, str | None]:
    return {config.name: config.value for config in topic_entry.configs}


def _assignments(ctx: RequestContext, topic_entry: schema.Topic) -> dict[int, list[int]] | None:
    if not topic_entry.assignments:
        return None
    problem = _problem(topic_entry)
    if problem is not None:
        ctx.cluster.new_topic(topic_entry.name, configs=_configs(topic_entry))  # as in Kafka, errors in name and configs come first
        raise problem
    return {assignment.partition_index: assignment.broker_ids for assignment in topic_entry.assignments}


def _problem(topic_entry: schema.Topic) -> KafkaError | None:
    """Return the error of the request, apart from the contents of its assignments; None for a valid one."""
    if topic_entry.replication_factor != NOT_SET:
        return InvalidRequest("A manual partition assignment was specified, but replication factor was not set to -1.")
    if topic_entry.num_partitions != NOT_SET:
        return InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
    counts = Counter(assignment.partition_index for assignment in topic_entry.assignments)
    for index, count in counts.items():
        if count > 1:
            return InvalidReplicaAssignment(f"Found multiple manual partition assignments for partition {index}")
    return None


def _replication_factor(ctx: RequestContext, new: NewTopic) -> int:
    if new.assignment is not None:
        return len(new.assignment[0])
    default = ctx.cluster.leadership.default_replication_factor(new.name)
    return default if new.replication_factor == NOT_SET else new.replication_factor


def _result(ctx: RequestContext, name: str, new: NewTopic | KafkaError, described: _Described) -> schema.TopicResult:
    if not isinstance(new, NewTopic):
        return schema.TopicResult(name=name, error_code=new.code, error_message=str(new))
    topic = ctx.cluster.topics.get(name) or new.draft()
    overrides = tuple(sorted(topic.config.items()))
    configs = described.get(overrides)
    if configs is None:
        configs = described[overrides] = _effective_configs(ctx, topic.config)
    return schema.TopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=0,
        error_message=None,
        num_partitions=new.partition_count,
        replication_factor=_replication_factor(ctx, new),
        configs=configs,
    )


def _effective_configs(ctx: RequestContext, overrides: Mapping[str, str]) -> list[schema.ConfigResult]:
    return [
        schema.ConfigResult(
            name=entry.prop.name,
            value=entry.value,
            read_only=entry.is_read_only,
            config_source=entry.source,
            is_sensitive=entry.prop.is_sensitive,
        )
        for entry in topic_entries(ctx.broker.config, overrides)
    ]
