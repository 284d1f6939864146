"""StreamsGroupDescribe (key 89): streams groups (KIP-1071), their states, topologies, members and tasks.

Version 0, flexible. Internal topics have their actual partition counts once the group is ready,
before that those of the application. GROUP_ID_NOT_FOUND: the group does not exist, or has another
type; the message says which. All operations are authorized, because there are no ACLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from minibroker.coordinator.group.streams.group import StreamsGroup
from minibroker.coordinator.group.streams.internal_topics import ConfiguredSubtopology
from minibroker.coordinator.group.streams.members import StreamsMember, Tasks, TaskSets
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.handlers.describe_groups import describe_each, reject_each, rejected_group
from minibroker.schemas import k89_streams_group_describe as schema
from minibroker.schemas.internal.streams_group_records import Subtopology, TopologyTopic

_rejected = partial(rejected_group, schema.Group)
on_error = partial(reject_each, schema.Response, _rejected)


@handles(schema, Pieces("group_ids", "groups", size=50))
def streams_group_describe(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Describe each group."""
    ctx.broker.check_group_protocol("streams")
    return schema.Response(groups=describe_each(request, partial(_describe, ctx), _rejected))


def _describe(ctx: RequestContext, group_id: str, operations: int) -> schema.Group:
    group = ctx.broker.coordinators.groups.streams.describe(group_id)
    image = group.image
    return schema.Group(
        error_code=0,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=image.epoch,
        assignment_epoch=image.assignment_epoch,
        topology=_topology(group),
        members=[_member(member, image.targets.get(member_id)) for member_id, member in image.members.items()],
        authorized_operations=operations,
    )


def _topology(group: StreamsGroup) -> schema.Topology | None:
    topology, configured = group.image.topology, group.configured()
    if topology is None:
        return None
    known = configured.subtopologies if configured is not None and configured.is_ready else {}
    return schema.Topology(
        epoch=topology.epoch,
        subtopologies=[_subtopology(each, known.get(each.subtopology_id)) for each in topology.subtopologies.values()],
    )


def _subtopology(subtopology: Subtopology, configured: ConfiguredSubtopology | None) -> schema.Subtopology:
    topics = {} if configured is None else {**configured.repartition_source_topics, **configured.state_changelog_topics}
    counts = {name: topic.partition_count for name, topic in topics.items()}
    return schema.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_topics(subtopology.state_changelog_topics, counts),
        repartition_source_topics=_topics(subtopology.repartition_source_topics, counts),
    )


def _topics(topics: Iterable[TopologyTopic], counts: Mapping[str, int]) -> list[schema.TopicInfo]:
    return [
        schema.TopicInfo(
            name=topic.name,
            partitions=counts.get(topic.name, topic.partitions),
            replication_factor=topic.replication_factor,
            topic_configs=[schema.KeyValue(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda each: each.name)
    ]


def _member(member: StreamsMember, target: Tasks | None) -> schema.Member:
    endpoint = member.user_endpoint
    return schema.Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else schema.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[schema.KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_assignment(member.assigned.tasks),
        target_assignment=_assignment(target),
        is_classic=False,
    )


def _assignment(tasks: Tasks | None) -> schema.Assignment:
    if tasks is None:
        return schema.Assignment(active_tasks=[], standby_tasks=[], warmup_tasks=[])
    return schema.Assignment(
        active_tasks=_task_ids(tasks.active), standby_tasks=_task_ids(tasks.standby), warmup_tasks=_task_ids(tasks.warmup)
    )


def _task_ids(tasks: TaskSets) -> list[schema.TaskIds]:
    return [schema.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]
