"""OffsetDelete (key 47): delete committed offsets of topics that a group does not read any more (KIP-496).

Version: 0, not flexible. Partitions that do not exist are rejected one by one, and come first in
the response. GROUP_SUBSCRIBED_TOPIC: a consumer of the group is subscribed to the topic. Errors of
the whole group: INVALID_GROUP_ID (the name is empty), GROUP_ID_NOT_FOUND, and NON_EMPTY_GROUP (it
has members that are not consumers).
"""

from __future__ import annotations

from typing import Any

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.flush import FlushFailures
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, NotCoordinator, UnknownTopicOrPartition
from minibroker.handlers.offsets import OFFSETS_AT_ONCE
from minibroker.schemas import k47_offset_delete as schema

_Codes = dict[str, dict[int, int]]  #: by topic and partition, in response order


@handles(schema, Pieces("topics.partitions", "topics.partitions", size=OFFSETS_AT_ONCE))
def offset_delete(ctx: RequestContext, request: schema.Request) -> Any:
    """Delete the offsets. Returns Delayed if the log must be synced first."""
    codes: _Codes = {}
    requested: list[tuple[str, int]] = []
    for topic in request.topics:
        for each in topic.partitions:
            try:
                ctx.cluster.partition(topic.name, each.partition_index)
            except UnknownTopicOrPartition as error:
                codes.setdefault(topic.name, {})[each.partition_index] = error.code
            else:
                requested.append((topic.name, each.partition_index))
    errors, log = ctx.broker.coordinators.groups.delete_offsets(request.group_id, requested)
    for (name, index), refusal in zip(requested, errors, strict=True):
        codes.setdefault(name, {})[index] = 0 if refusal is None else refusal.code
    if log is None:
        return _response(codes)

    def answer(failures: FlushFailures) -> schema.Response:
        return schema.Response(error_code=NotCoordinator.code, topics=[]) if failures else _response(codes)

    return when_done(lambda done: ctx.broker.flush_queue.flush([log], done), answer)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` without topics: nothing was deleted."""
    return schema.Response(error_code=error.code, topics=[])


def _response(codes: _Codes) -> schema.Response:
    return schema.Response(
        error_code=0,
        topics=[
            schema.TopicResult(
                name=name, partitions=[schema.PartitionResult(partition_index=index, error_code=code) for index, code in each.items()]
            )
            for name, each in codes.items()
        ],
    )
