"""CreatePartitions (key 37): increase the number of partitions of topics.

The new ones have a leader when the response is sent.

Versions: 0 to 3; 2 is flexible. `count` is the new total. INVALID_PARTITIONS: it is not larger than
the current one. INVALID_REPLICA_ASSIGNMENT: the assignments (a list of brokers for each new
partition) name another broker. A repeated topic is INVALID_REQUEST and has one result.
validate_only runs all checks and changes nothing. More than 10,000 new partitions of a topic are
POLICY_VIOLATION, as in CreateTopics. Apache Kafka 4.3.1 returns UNKNOWN_SERVER_ERROR and creates
the first 10,000 nevertheless. Its validate_only accepts such a request. `timeout_ms` is not used.
"""

from __future__ import annotations

from typing import Any

from minibroker.cluster.cluster import Charge
from minibroker.cluster.metadata.frame import Steps
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from minibroker.schemas import k37_create_partitions as schema

STRICT_SINCE = 3  #: lower versions do not have THROTTLING_QUOTA_EXCEEDED


@handles(schema, Pieces("topics", "results", key=lambda _ctx, topic: topic.name, beside=("assignments",)))
def create_partitions(ctx: RequestContext, request: schema.Request) -> Any:
    """Create the partitions. Returns Delayed if they are many."""
    return ctx.broker.slices.run(_create_partitions(ctx, request))


def _create_partitions(ctx: RequestContext, request: schema.Request) -> Steps[schema.Response]:
    """Create the partitions of each topic, in the order of the request.

    A failed topic does not stop the others.
    """
    charge = ctx.charge_mutations(is_strict=ctx.api_version >= STRICT_SINCE)
    topics: dict[str, list[schema.Topic]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, []).append(topic)
    results = []
    for name, entries in topics.items():
        results.append((yield from _grow(ctx, name, entries, charge, validate_only=request.validate_only)))
        yield
    return schema.Response(results=results)


def _grow(ctx: RequestContext, name: str, entries: list[schema.Topic], charge: Charge, *, validate_only: bool) -> Steps[schema.TopicResult]:
    try:
        if len(entries) > 1:
            raise InvalidRequest("Duplicate topic name.")
        requested = entries[0].assignments
        assignments = None if requested is None else [assignment.broker_ids for assignment in requested]
        yield from ctx.cluster.create_partitions_in_steps(
            name, entries[0].count, assignments=assignments, validate_only=validate_only, charge=charge
        )
    except UnknownTopicOrPartition as error:
        return schema.TopicResult(name=name, error_code=error.code)  # without a message, as in Kafka
    except KafkaError as error:
        return schema.TopicResult(name=name, error_code=error.code, error_message=str(error))
    return schema.TopicResult(name=name, error_code=0)
