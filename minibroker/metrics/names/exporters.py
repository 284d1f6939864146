"""The names of programs that read a cluster as its clients do: kafka_exporter, KMinion, lag exporters, Burrow, OpenTelemetry, Redpanda.

Lags count offsets up to the high watermark, as these programs do, so that transaction markers count as well. A group without a committed
offset in a partition has no lag there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final

import minibroker
from minibroker.cluster.nodes import Node
from minibroker.metrics.family import Column, Family, Names, Samples, single
from minibroker.metrics.labels import labels
from minibroker.metrics.state import GroupOffset, GroupState, GroupTopic, PartitionState, State, TopicState

REDPANDA_NAMESPACE: Final = "kafka"


def _partitions(state: State) -> list[PartitionState]:
    return state.partitions


def _offsets(state: State) -> list[GroupOffset]:
    return state.offsets


def _group_topics(state: State) -> list[GroupTopic]:
    return state.group_topics


def _groups(state: State) -> list[GroupState]:
    return state.groups


def addresses(state: State) -> list[tuple[Node, str, int]]:
    """Return the brokers that clients see, with the advertised address of their first listener."""
    nodes = state.services.nodes
    return [(node, *node.advertised(node.listeners[0].name)) for node in nodes.alive]


def gauge(name: str, text: str, samples: Callable[[State], Samples]) -> Family:
    """Return a gauge."""
    return Family(name, "gauge", text, samples)


def by_partition(value: Callable[[PartitionState], int]) -> Column[PartitionState]:
    """Return a sample for each partition, with the labels topic and partition."""
    return Column(_partitions, value)


def by_group_offset(value: Callable[[GroupOffset], int]) -> Column[GroupOffset]:
    """Return a sample for each committed offset, with kafka_exporter's labels."""
    return Column(_offsets, value)


def by_group_topic(value: Callable[[GroupTopic], int]) -> Column[GroupTopic]:
    """Return a sample for each topic in which a group has committed offsets, with kafka_exporter's labels."""
    return Column(_group_topics, value)


def by_offset(value: Callable[[GroupOffset], float], **names: str) -> Callable[[State], Samples]:
    """Return a sample for each committed offset. `names`: those of the labels group, topic and partition, and constant labels."""
    group, topic, partition = names.pop("group"), names.pop("topic", "topic"), names.pop("partition", "partition")

    def samples(state: State) -> Samples:
        for each in state.groups:
            for offset in each.offsets:
                of_series = labels(**names, **{group: each.group_id, topic: offset.topic, partition: offset.number})
                yield "", of_series, value(offset)

    return samples


def by_renamed_group_topic(value: Callable[[GroupTopic], float], group: str, topic: str) -> Callable[[State], Samples]:
    """Return the same with other names of the labels."""
    return lambda state: (("", labels(**{group: each.group_id, topic: each.topic}), value(each)) for each in state.group_topics)


def by_topic(value: Callable[[list[PartitionState]], float], topic: str = "topic", **constant: str) -> Callable[[State], Samples]:
    """Return a sample for each topic."""
    return lambda state: (("", labels(**constant, **{topic: each.name}), value(each.partitions)) for each in state.topics)


def replica_count(partitions: list[PartitionState]) -> int:
    """Return the number of replicas of the first partition."""
    return len(partitions[0].replicas) if partitions else 0


def _topics(state: State) -> list[TopicState]:
    return state.topics


def _broker_info(state: State) -> Samples:
    for node, host, port in addresses(state):
        yield "", labels(address=f"{host}:{port}", id=node.node_id), 1


def _members(name: str) -> Callable[[State], Samples]:
    return lambda state: (("", labels(**{name: each.group_id}), each.member_count) for each in state.groups)


KAFKA_EXPORTER: Final = Names(
    "kafka_exporter",
    (
        gauge("kafka_brokers", "Number of brokers in the cluster.", single(lambda state: len(state.services.nodes.alive))),
        gauge("kafka_broker_info", "Brokers of the cluster.", _broker_info),
        gauge("kafka_topic_partitions", "Number of partitions of a topic.", Column(_topics, lambda each: len(each.partitions))),
        gauge("kafka_topic_partition_current_offset", "High watermark of a partition.", by_partition(attrgetter("high_watermark"))),
        gauge("kafka_topic_partition_oldest_offset", "Log start offset of a partition.", by_partition(attrgetter("log_start_offset"))),
        gauge("kafka_topic_partition_in_sync_replica", "Number of in-sync replicas.", by_partition(lambda each: len(each.in_sync))),
        gauge("kafka_topic_partition_leader", "Id of the leader; -1 if there is none.", by_partition(attrgetter("leader_id"))),
        gauge(
            "kafka_topic_partition_leader_is_preferred",
            "1 if the leader is the first replica.",
            by_partition(lambda each: int(each.leader_id == each.replicas[0])),
        ),
        gauge("kafka_topic_partition_replicas", "Number of replicas.", by_partition(lambda each: len(each.replicas))),
        gauge(
            "kafka_topic_partition_under_replicated_partition",
            "1 if replicas are not in sync.",
            by_partition(lambda each: int(len(each.in_sync) < len(each.replicas))),
        ),
        gauge("kafka_consumergroup_current_offset", "Committed offset.", by_group_offset(attrgetter("offset"))),
        gauge("kafka_consumergroup_current_offset_sum", "Sum of committed offsets.", by_group_topic(attrgetter("offset_sum"))),
        gauge(
            "kafka_consumergroup_lag",
            "Offsets from the committed one to the high watermark.",
            by_group_offset(attrgetter("lag")),
        ),
        gauge("kafka_consumergroup_lag_sum", "Lag over all partitions of a topic.", by_group_topic(attrgetter("lag_sum"))),
        gauge("kafka_consumergroup_members", "Number of members.", Column(_groups, attrgetter("member_count"))),
    ),
)


# -- KMinion ------------------------------------------------------------------------------------------------------------


def _kminion_partition(value: Callable[[PartitionState], float]) -> Callable[[State], Samples]:
    return lambda state: (("", labels(topic_name=each.topic, partition_id=each.number), value(each)) for each in state.partitions)


def _kminion_cluster(state: State) -> Samples:
    nodes = state.services.nodes
    yield (
        "",
        labels(
            cluster_version=f"minibroker {minibroker.__version__}",
            broker_count=len(nodes.alive),
            controller_id=nodes.controller_id,
            cluster_id=state.cluster.cluster_id,
        ),
        1,
    )


def _kminion_broker(state: State) -> Samples:
    controller_id = state.services.nodes.controller_id
    for node, host, port in addresses(state):
        is_controller = str(node.node_id == controller_id).lower()
        yield "", labels(broker_id=node.node_id, address=host, port=port, rack_id=node.rack or "", is_controller=is_controller), 1


def _kminion_topic(state: State) -> Samples:
    default = ",".join(state.cluster.config.log_cleanup_policy)
    for each in state.topics:
        topic = state.cluster.topics.get(each.name)
        policy = "" if topic is None else topic.config.get("cleanup.policy", default)
        yield (
            "",
            labels(
                topic_name=each.name,
                partition_count=len(each.partitions),
                replication_factor=replica_count(each.partitions),
                cleanup_policy=policy,
            ),
            1,
        )


def _kminion_group(state: State) -> Samples:
    coordinator_id = state.services.nodes.own.node_id
    for each in state.groups:
        yield (
            "",
            labels(
                group_id=each.group_id,
                protocol=each.protocol,
                protocol_type=each.protocol_type,
                state=each.state,
                coordinator_id=coordinator_id,
            ),
            int(each.state == "Stable"),
        )


def _empty_members(state: State) -> Samples:
    for group_id, each in state.assignments.items():
        if each.empty_members:
            yield "", labels(group_id=group_id), each.empty_members


def _of_assignments(field: str) -> Callable[[State], Samples]:
    def samples(state: State) -> Samples:
        for group_id, each in state.assignments.items():
            for topic, number in getattr(each, field).items():
                yield "", labels(group_id=group_id, topic_name=topic), number

    return samples


def _commits(state: State) -> Samples:
    commits = state.meter.commits
    counted = {} if commits is None else commits.by_group
    return (("", labels(group_id=each.group_id), counted.get(each.group_id, 0)) for each in state.groups)


_TOPIC_MEMBERS: Final = "kminion_kafka_consumer_group_topic_members"
_ASSIGNED_PARTITIONS: Final = "kminion_kafka_consumer_group_topic_assigned_partitions"
_EMPTY_MEMBERS: Final = "kminion_kafka_consumer_group_empty_members"
_COMMITS: Final = "kminion_kafka_consumer_group_offset_commits_total"
OF_ASSIGNMENTS: Final = frozenset({_TOPIC_MEMBERS, _ASSIGNED_PARTITIONS, _EMPTY_MEMBERS, _COMMITS})  #: families that need assignments


def _sum_of(value: Callable[[PartitionState], int]) -> Callable[[list[PartitionState]], float]:
    return lambda partitions: sum(map(value, partitions))


def _kminion_size(state: State) -> Samples:
    """The data exist once: the first broker has them, however many clients see."""
    node, host, port = addresses(state)[0]
    total = sum(each.size for each in state.partitions)
    yield "", labels(broker_id=node.node_id, address=host, port=port, rack_id=node.rack or ""), total


KMINION: Final = Names(
    "kminion",
    (
        gauge("kminion_exporter_up", "1: the broker answers.", single(lambda _: 1)),
        gauge("kminion_kafka_cluster_info", "The cluster.", _kminion_cluster),
        gauge("kminion_kafka_broker_info", "Brokers of the cluster.", _kminion_broker),
        gauge("kminion_kafka_broker_log_dir_size_total_bytes", "Bytes of all partitions.", _kminion_size),
        gauge("kminion_kafka_topic_log_dir_size_total_bytes", "Bytes of a topic.", by_topic(_sum_of(lambda each: each.size), "topic_name")),
        gauge("kminion_kafka_topic_info", "Topics.", _kminion_topic),
        gauge("kminion_kafka_topic_partition_low_water_mark", "Log start offset.", _kminion_partition(lambda each: each.log_start_offset)),
        gauge("kminion_kafka_topic_partition_high_water_mark", "High watermark.", _kminion_partition(lambda each: each.high_watermark)),
        gauge(
            "kminion_kafka_topic_low_water_mark_sum",
            "Sum of the log start offsets.",
            by_topic(_sum_of(lambda each: each.log_start_offset), "topic_name"),
        ),
        gauge(
            "kminion_kafka_topic_high_water_mark_sum",
            "Sum of the high watermarks.",
            by_topic(_sum_of(lambda each: each.high_watermark), "topic_name"),
        ),
        gauge("kminion_kafka_consumer_group_info", "1 for a group in state Stable, else 0.", _kminion_group),
        gauge("kminion_kafka_consumer_group_members", "Number of members.", _members("group_id")),
        gauge(_EMPTY_MEMBERS, "Number of members without partitions.", _empty_members),
        gauge(_TOPIC_MEMBERS, "Number of members that have partitions of a topic.", _of_assignments("members")),
        gauge(_ASSIGNED_PARTITIONS, "Number of partitions of a topic that members have.", _of_assignments("partitions")),
        Family(_COMMITS, "counter", "Offsets that a group committed, each partition on its own, since the start.", _commits),
        gauge(
            "kminion_kafka_consumer_group_topic_offset_sum",
            "Sum of committed offsets.",
            by_renamed_group_topic(attrgetter("offset_sum"), "group_id", "topic_name"),
        ),
        gauge(
            "kminion_kafka_consumer_group_topic_partition_lag",
            "Offsets from the committed one to the high watermark.",
            by_offset(lambda each: each.lag, group="group_id", topic="topic_name", partition="partition_id"),
        ),
        gauge(
            "kminion_kafka_consumer_group_topic_lag",
            "Lag over all partitions.",
            by_renamed_group_topic(attrgetter("lag_sum"), "group_id", "topic_name"),
        ),
    ),
)


# -- lag exporters ------------------------------------------------------------------------------------------------------


def lag_seconds(state: State, offset: GroupOffset) -> float:
    """Return the age of the first record that the group has not read; 0 without lag, or if the record has no timestamp."""
    if not offset.lag:
        return 0.0
    timestamp_ms = state.timestamp_ms(offset.partition, offset.offset)
    return max(state.now_ms - timestamp_ms, 0) / 1000 if timestamp_ms >= 0 else 0.0


def _lags_in_seconds(state: State) -> Iterator[tuple[GroupState, GroupOffset, float]]:
    for group in state.groups:
        for offset in group.offsets:
            yield group, offset, lag_seconds(state, offset)


def _group_lag_seconds(state: State) -> Samples:
    for group, offset, seconds in _lags_in_seconds(state):
        yield "", labels(cluster_name=state.cluster.cluster_id, group=group.group_id, topic=offset.topic, partition=offset.number), seconds


def _lag_millis(state: State) -> Samples:
    for group, offset, seconds in _lags_in_seconds(state):
        yield "", labels(consumergroup=group.group_id, topic=offset.topic, partition=offset.number), seconds * 1000


def _max_of_group(value: Callable[[State, GroupOffset], float]) -> Callable[[State], Samples]:
    def samples(state: State) -> Samples:
        for group in state.groups:
            values = [value(state, offset) for offset in group.offsets]
            if values:
                yield "", labels(cluster_name=state.cluster.cluster_id, group=group.group_id), max(values)

    return samples


def _of_cluster(value: Callable[[GroupOffset], float]) -> Callable[[State], Samples]:
    return lambda state: by_offset(value, cluster_name=state.cluster.cluster_id, group="group")(state)


def _partition_of_cluster(value: Callable[[PartitionState], float], cluster: str = "cluster_name") -> Callable[[State], Samples]:
    def samples(state: State) -> Samples:
        for each in state.partitions:
            yield "", labels(**{cluster: state.cluster.cluster_id}, topic=each.topic, partition=each.number), value(each)

    return samples


LAG: Final = Names(
    "lag",
    (
        gauge("kafka_partition_latest_offset", "High watermark.", _partition_of_cluster(lambda each: each.high_watermark)),
        gauge("kafka_partition_earliest_offset", "Log start offset.", _partition_of_cluster(lambda each: each.log_start_offset)),
        gauge("kafka_consumergroup_group_offset", "Committed offset.", _of_cluster(lambda each: each.offset)),
        gauge("kafka_consumergroup_group_lag", "Offsets from the committed one to the high watermark.", _of_cluster(lambda each: each.lag)),
        gauge("kafka_consumergroup_group_lag_seconds", "Age of the first unread record.", _group_lag_seconds),
        gauge("kafka_consumergroup_group_max_lag", "Highest lag of a partition.", _max_of_group(lambda _, each: each.lag)),
        gauge("kafka_consumergroup_group_max_lag_seconds", "Age of the oldest unread record.", _max_of_group(lag_seconds)),
        gauge(
            "kafka_consumergroup_uncommitted_offsets",
            "Offsets from the committed one to the high watermark.",
            by_group_offset(attrgetter("lag")),
        ),
        gauge("kafka_consumer_lag_millis", "Age of the first unread record, in milliseconds.", _lag_millis),
    ),
)


# -- Burrow, OpenTelemetry, Redpanda --------------------------------------------------------------------------------------


def _burrow(value: Callable[[GroupOffset], float], group: str = "consumer_group") -> Callable[[State], Samples]:
    return lambda state: by_offset(value, cluster=state.cluster.cluster_id, group=group)(state)


def _burrow_total(state: State) -> Samples:
    for each in state.groups:
        yield "", labels(cluster=state.cluster.cluster_id, consumer_group=each.group_id), sum(topic.lag_sum for topic in each.topics)


BURROW: Final = Names(
    "burrow",
    (
        gauge("burrow_kafka_consumer_lag_total", "Lag of a group.", _burrow_total),
        gauge("burrow_kafka_consumer_partition_lag", "Lag of a group in a partition.", _burrow(lambda each: each.lag)),
        gauge("burrow_kafka_consumer_current_offset", "Committed offset.", _burrow(lambda each: each.offset)),
        gauge("burrow_kafka_topic_partition_offset", "High watermark.", _partition_of_cluster(lambda each: each.high_watermark, "cluster")),
        gauge("kafka_burrow_partition_lag", "Lag of a group in a partition.", _burrow(lambda each: each.lag, "group")),
        gauge("kafka_burrow_partition_current_offset", "Committed offset.", _burrow(lambda each: each.offset, "group")),
        gauge("kafka_burrow_topic_partition_offset", "High watermark.", _partition_of_cluster(lambda each: each.high_watermark, "cluster")),
    ),
)


OTEL: Final = Names(
    "otel",
    (
        KAFKA_EXPORTER.families[0],  # kafka_brokers, and kafka_topic_partitions: both have them
        KAFKA_EXPORTER.families[2],
        gauge("kafka_partition_current_offset", "High watermark.", by_partition(attrgetter("high_watermark"))),
        gauge("kafka_partition_oldest_offset", "Log start offset.", by_partition(attrgetter("log_start_offset"))),
        gauge("kafka_partition_replicas", "Number of replicas.", by_partition(lambda each: len(each.replicas))),
        gauge("kafka_partition_replicas_in_sync", "Number of in-sync replicas.", by_partition(lambda each: len(each.in_sync))),
        gauge("kafka_consumer_group_members", "Number of members.", _members("group")),
        gauge("kafka_consumer_group_offset_ratio", "Committed offset.", by_offset(lambda each: each.offset, group="group")),
        gauge(
            "kafka_consumer_group_offset_sum_ratio",
            "Sum of committed offsets.",
            by_renamed_group_topic(attrgetter("offset_sum"), "group", "topic"),
        ),
        gauge("kafka_consumer_group_lag_ratio", "Lag of a group in a partition.", by_offset(lambda each: each.lag, group="group")),
        gauge(
            "kafka_consumer_group_lag_sum_ratio",
            "Lag of a group in a topic.",
            by_renamed_group_topic(attrgetter("lag_sum"), "group", "topic"),
        ),
    ),
)


def _redpanda_partition(value: Callable[[PartitionState], float]) -> Callable[[State], Samples]:
    def samples(state: State) -> Samples:
        for each in state.partitions:
            of_series = labels(redpanda_namespace=REDPANDA_NAMESPACE, redpanda_topic=each.topic, redpanda_partition=each.number)
            yield "", of_series, value(each)

    return samples


def _redpanda_bytes(state: State) -> Samples:
    for topic in state.topics:
        for request, value in (("produce", topic.bytes_in), ("consume", topic.counts.bytes_out)):
            of_series = labels(redpanda_namespace=REDPANDA_NAMESPACE, redpanda_topic=topic.name, redpanda_request=request)
            yield "", of_series, value


def _redpanda_group_topics(state: State) -> Samples:
    return (("", labels(redpanda_group=each.group_id), len(each.topics)) for each in state.groups)


REDPANDA: Final = Names(
    "redpanda",
    (
        gauge("redpanda_cluster_topics", "Number of topics.", single(lambda state: len(state.topics))),
        gauge(
            "redpanda_cluster_partitions", "Number of partitions.", single(lambda state: sum(len(each.partitions) for each in state.topics))
        ),
        gauge("redpanda_cluster_brokers", "Number of brokers.", single(lambda state: len(state.services.nodes.registered))),
        gauge(
            "redpanda_kafka_partitions", "Partitions of a topic.", by_topic(len, "redpanda_topic", redpanda_namespace=REDPANDA_NAMESPACE)
        ),
        gauge(
            "redpanda_kafka_replicas",
            "Replicas of a partition.",
            by_topic(replica_count, "redpanda_topic", redpanda_namespace=REDPANDA_NAMESPACE),
        ),
        gauge("redpanda_kafka_max_offset", "High watermark.", _redpanda_partition(lambda each: each.high_watermark)),
        gauge(
            "redpanda_kafka_under_replicated_replicas",
            "Replicas that are not in sync.",
            _redpanda_partition(lambda each: len(each.replicas) - len(each.in_sync)),
        ),
        Family("redpanda_kafka_request_bytes_total", "counter", "Bytes of records that were produced and consumed.", _redpanda_bytes),
        gauge(
            "redpanda_kafka_consumer_group_committed_offset",
            "Committed offset.",
            by_offset(lambda each: each.offset, group="redpanda_group", topic="redpanda_topic", partition="redpanda_partition"),
        ),
        gauge("redpanda_kafka_consumer_group_topics", "Topics in which a group has committed offsets.", _redpanda_group_topics),
        gauge("redpanda_kafka_consumer_group_consumers", "Number of members.", _members("redpanda_group")),
    ),
)
