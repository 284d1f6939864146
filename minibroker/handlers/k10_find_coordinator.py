"""FindCoordinator (key 10): the broker that coordinates a group, a transactional id, or a share partition.

The coordinator is the leader of the key's partition of an internal topic. Versions: 0 to 6; 3 is
flexible; 4 has several keys, each with its own result; 6 has share partitions. The key of a share
partition is group:topic id:partition; any other key is INVALID_REQUEST. The first request for a
kind of key creates the internal topic of its coordinator: `__consumer_offsets`,
`__transaction_state` or `__share_group_state`. (Apache Kafka returns COORDINATOR_NOT_AVAILABLE
until the topic exists, and clients retry.) An empty key is valid. COORDINATOR_NOT_AVAILABLE: the
key's partition of the internal topic is offline. Messages are Kafka's. Versions 1 to 3 have "NONE"
on success. From 4 on only an unknown key type has a message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minibroker.cluster.nodes import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import TRANSACTION_STATE_TOPIC
from minibroker.coordinator.share_state.records import StateKey
from minibroker.coordinator.stored_topic import partition_of
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from minibroker.schemas import k10_find_coordinator as schema

MESSAGES_SINCE: Final = 1
SEVERAL_KEYS_SINCE: Final = 4
SHARE_SINCE: Final = 6

_NO_NODE: Final = (-1, "", -1)
_MALFORMED: Final = (  #: Kafka's message of INVALID_REQUEST
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible "
    "broker. See the broker logs for more details."
)


@handles(schema, Pieces("coordinator_keys", "coordinators"))
def find_coordinator(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Find the coordinator of each key. Requests below version 4 have one key."""
    if ctx.api_version >= SEVERAL_KEYS_SINCE:
        return schema.Response(coordinators=[_coordinator(ctx, request.key_type, key) for key in request.coordinator_keys])
    node, error = _find(ctx, request.key_type, request.key)
    node_id, host, port = _address(ctx, node)
    message = "" if ctx.api_version < MESSAGES_SINCE else "NONE" if error is None else str(error)
    return schema.Response(error_code=error.code if error else 0, error_message=message, node_id=node_id, host=host, port=port)


def on_error(ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` for every key."""
    node_id, host, port = _NO_NODE
    if ctx.api_version < SEVERAL_KEYS_SINCE:
        return schema.Response(error_code=error.code, error_message=str(error), node_id=node_id, host=host, port=port)
    code, message = error.code, str(error)
    return schema.Response(
        coordinators=[
            schema.Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=code, error_message=message)
            for key in request.coordinator_keys
        ]
    )


def _coordinator(ctx: RequestContext, key_type: int, key: str) -> schema.Coordinator:
    node, error = _find(ctx, key_type, key)
    node_id, host, port = _address(ctx, node)
    message = str(error) if error is not None and key_type not in _PARTITIONS else ""
    return schema.Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=error.code if error else 0, error_message=message)


def _address(ctx: RequestContext, node: Node | None) -> tuple[int, str, int]:
    return _NO_NODE if node is None else (node.node_id, *node.advertised(ctx.connection.listener_name))


def _find(ctx: RequestContext, key_type: int, key: str) -> tuple[Node | None, KafkaError | None]:
    """Find the coordinator of `key`, or the error."""
    find = _PARTITIONS.get(key_type)
    if find is None or (key_type == schema.SHARE and ctx.api_version < SHARE_SINCE):
        return None, InvalidRequest(_MALFORMED)
    try:
        partition = find(ctx, key)
    except InvalidRequest as error:
        return None, error
    except KafkaError:  # the topic could not be created
        return None, CoordinatorNotAvailable()
    node = ctx.broker.nodes.find(ctx.broker.nodes.leader_of(partition))
    return (None, CoordinatorNotAvailable()) if node is None else (node, None)


def _group_partition(ctx: RequestContext, group_id: str) -> Partition:
    ctx.broker.coordinators.groups.ensure_topic()
    return ctx.cluster.partition(*ctx.broker.coordinators.groups.topic_partition(group_id))


def _transaction_partition(ctx: RequestContext, transactional_id: str) -> Partition:
    ctx.broker.coordinators.transactions.ensure_topic()
    partitions = ctx.cluster.topic(TRANSACTION_STATE_TOPIC).partitions
    return partitions[partition_of(transactional_id, len(partitions))]


def _share_partition(ctx: RequestContext, coordinator_key: str) -> Partition:
    try:
        StateKey.parse(coordinator_key)
    except ValueError as error:
        raise InvalidRequest(_MALFORMED) from error
    persister = ctx.broker.coordinators.share_persister
    persister.ensure_topic()
    return ctx.cluster.partition(*persister.topic_partition(coordinator_key))


_PARTITIONS: Final[dict[int, Callable[[RequestContext, str], Partition]]] = {
    schema.GROUP: _group_partition,
    schema.TRANSACTION: _transaction_partition,
    schema.SHARE: _share_partition,
}
