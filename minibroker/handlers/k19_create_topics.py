"""CreateTopics (key 19): topics with partitions and configs, ready to be used when this answers.

Versions: 2 to 7; 5 is flexible and answers with the configs in force, 7 with the topic id.
Each topic is created or refused on its own, checked as Apache Kafka checks; a name given twice is refused. A request for more than 10,000
partitions in all its topics is refused as a whole: POLICY_VIOLATION. There is one replica:
a larger replication factor is INVALID_REPLICATION_FACTOR. `validate_only` checks everything and creates nothing.
`timeout_ms` is never used: the answer is final.
"""

from __future__ import annotations

from collections import Counter

from minibroker.cluster.cluster import Charge
from minibroker.cluster.config_entries import topic_entries
from minibroker.cluster.topic import Topic
from minibroker.cluster.topic_rules import PARTITIONS_OF_REQUEST_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidReplicaAssignment, InvalidRequest, KafkaError, PolicyViolation
from minibroker.schemas import k19_create_topics as schema

STRICT_SINCE = 6  #: versions below do not know THROTTLING_QUOTA_EXCEEDED
NOT_GIVEN = -1  #: num_partitions and replication_factor: the broker's default, or that of the assignments


@handles(schema)
def create_topics(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each name once."""
    counts = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}
    charge = ctx.charge_mutations(is_strict=ctx.api_version >= STRICT_SINCE)
    if sum(_partition_count(ctx, topic) for topic in request.topics) > PARTITIONS_OF_REQUEST_MAX:
        raise PolicyViolation("Excessively large number of partitions per request.")
    return schema.Response(
        topics=[
            _create(ctx, topic, charge, is_single=counts[topic.name] == 1, validate_only=request.validate_only) for topic in topics.values()
        ]
    )


def _partition_count(ctx: RequestContext, wanted: schema.Topic) -> int:
    """How many partitions are asked for, whether they may be or not."""
    if wanted.assignments:
        return len(wanted.assignments)
    return ctx.cluster.default_partition_count(wanted.name) if wanted.num_partitions == NOT_GIVEN else max(wanted.num_partitions, 0)


def _create(ctx: RequestContext, wanted: schema.Topic, charge: Charge, *, is_single: bool, validate_only: bool) -> schema.TopicResult:
    try:
        if not is_single:
            raise InvalidRequest("Duplicate topic name.")
        topic = ctx.cluster.create_topic(
            wanted.name,
            partition_count=None if wanted.num_partitions == NOT_GIVEN else wanted.num_partitions,
            replication_factor=wanted.replication_factor,
            assignments=_assignments(ctx, wanted),
            configs=_configs(wanted),
            validate_only=validate_only,
            charge=charge,
        )
    except KafkaError as error:
        return schema.TopicResult(name=wanted.name, error_code=error.code, error_message=str(error))
    return _created(ctx, topic)


def _configs(wanted: schema.Topic) -> dict[str, str | None]:
    return {config.name: config.value for config in wanted.configs}


def _assignments(ctx: RequestContext, wanted: schema.Topic) -> dict[int, list[int]] | None:
    if not wanted.assignments:
        return None
    problem = _problem(wanted)
    if problem is not None:
        ctx.cluster.create_topic(wanted.name, configs=_configs(wanted), validate_only=True)  # Kafka judges name and configs first
        raise problem
    return {assignment.partition_index: assignment.broker_ids for assignment in wanted.assignments}


def _problem(wanted: schema.Topic) -> KafkaError | None:
    """What speaks against the assignments before one looks into them."""
    if wanted.replication_factor != NOT_GIVEN:
        return InvalidRequest("A manual partition assignment was specified, but replication factor was not set to -1.")
    if wanted.num_partitions != NOT_GIVEN:
        return InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
    counts = Counter(assignment.partition_index for assignment in wanted.assignments)
    for index, count in counts.items():
        if count > 1:
            return InvalidReplicaAssignment(f"Found multiple manual partition assignments for partition {index}")
    return None


def _created(ctx: RequestContext, topic: Topic) -> schema.TopicResult:
    return schema.TopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=0,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=1,
        configs=[
            schema.ConfigResult(
                name=entry.prop.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.prop.is_sensitive,
            )
            for entry in topic_entries(ctx.config, topic.config)
        ],
    )
