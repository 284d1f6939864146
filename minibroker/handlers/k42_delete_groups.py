"""DeleteGroups (key 42): delete groups without members, and their offsets.

Versions: 0 to 2; 2 is flexible. A repeated group has one result. A group of a type that is not
served is NON_EMPTY_GROUP.
"""

from __future__ import annotations

from typing import Any

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.flush import FlushFailures
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, NotCoordinator
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas import k42_delete_groups as schema


@handles(schema, Pieces("groups_names", "results", key=lambda _ctx, group_id: group_id))
def delete_groups(ctx: RequestContext, request: schema.Request) -> Any:
    """Delete the groups. Returns Delayed if logs must be synced first."""
    results: list[tuple[str, int, PartitionLog | None]] = []
    for group_id in dict.fromkeys(request.groups_names):
        try:
            results.append((group_id, 0, ctx.broker.coordinators.groups.delete_group(group_id)))
        except KafkaError as error:
            results.append((group_id, error.code, None))
    logs = [log for _, _, log in results if log is not None]

    def answer(failures: FlushFailures) -> schema.Response:
        return schema.Response(
            results=[
                schema.Result(group_id=group_id, error_code=NotCoordinator.code if log in failures else code)
                for group_id, code, log in results
            ]
        )

    return when_done(lambda done: ctx.broker.flush_queue.flush(logs, done), answer) if logs else answer({})


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` for each group."""
    return schema.Response(results=[schema.Result(group_id=group_id, error_code=error.code) for group_id in request.groups_names])
