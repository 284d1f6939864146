"""Authorize requests for records (Produce, Fetch, ShareFetch, OffsetForLeaderEpoch), transactions and producer ids.

A Fetch session has more topics than its requests name. The first Fetch of a session, and the first
one after a change of the access control entries, checks all of them. Later requests of the same
client check only the topics that they name.
"""

from __future__ import annotations

from typing import Any, Final, cast
from uuid import UUID

from minibroker.cluster.cluster import Cluster
from minibroker.dispatch.authorization.access import Access, TopicErrors, allowed, keep_allowed
from minibroker.dispatch.authorization.parts import serve_elements, serve_topics
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import then
from minibroker.dispatch.middleware import after
from minibroker.dispatch.partition_split import AuthorizedCluster, ErrorOf
from minibroker.dispatch.registry import Handler
from minibroker.errors import ClusterAuthorizationFailed, TopicAuthorizationFailed, TransactionalIdAuthorizationFailed, WireError
from minibroker.schemas import k22_init_producer_id, k24_add_partitions_to_txn, k65_describe_transactions, k66_list_transactions
from minibroker.security.acl import Operation, ResourceType
from minibroker.security.authorizer import rights_key
from minibroker.wire.schema import NIL_UUID, replace

_OPENING_EPOCH: Final = 0  #: the session epoch of a Fetch that opens a session
_REPLICA_STATE_SINCE: Final = 15
_WRITE: Final = rights_key(Operation.WRITE, ResourceType.TOPIC)
_READ: Final = rights_key(Operation.READ, ResourceType.TOPIC)
_MAGIC, _ATTRIBUTES = 16, 22  #: positions in a record batch
_BATCH_MAGIC: Final = 2
_TRANSACTIONAL: Final = 0x10


def produce(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """WRITE of the transactional id if a batch is transactional, and of each topic.

    With acks=0 a refusal closes the connection.
    """
    known = allowed(ctx, _WRITE)
    for topic in request.topic_data:
        if (topic.name or topic.topic_id) not in known:
            break
        for part in topic.partition_data:
            data = part.records
            if data is None or len(data) <= _ATTRIBUTES or data[_ATTRIBUTES] & _TRANSACTIONAL:
                break  # perhaps transactional
        else:
            continue
        break
    else:
        return handler.handle(ctx, request)
    access = Access(ctx, handler.api.name)
    if any(_is_transactional(each.records) for topic in request.topic_data for each in topic.partition_data):
        transactional_id = request.transactional_id
        if transactional_id is None or not access.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            raise TransactionalIdAuthorizationFailed
    error_of = access.topic_errors(ctx, Operation.WRITE)
    rest = [topic for topic in request.topic_data if error_of(topic.name, topic.topic_id) is None]
    if len(rest) == len(request.topic_data):
        return handler.handle(ctx, request)
    if request.acks != 0:
        return serve_topics(handler, ctx, request, error_of)

    def close(_: Any) -> Any:
        raise WireError("Produce with acks=0 was refused in part or as a whole")

    return then(handler.handle(ctx, replace(request, topic_data=rest)), close) if rest else close(None)


def _is_transactional(records: Any) -> bool:
    """Return whether the first batch is transactional.

    Kafka looks at the first one only (RequestUtils.hasTransactionalRecords).
    """
    return bool(
        records is not None and len(records) > _ATTRIBUTES and records[_MAGIC] == _BATCH_MAGIC and records[_ATTRIBUTES] & _TRANSACTIONAL
    )


def fetch(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """READ of each topic of the request and of its session. A replica needs CLUSTER_ACTION."""
    replica_id = request.replica_id if ctx.api_version < _REPLICA_STATE_SINCE else request.replica_state.replica_id
    if replica_id >= 0:
        if Access(ctx, handler.api.name).allows_cluster(Operation.CLUSTER_ACTION):
            return handler.handle(ctx, request)
        return _without(handler, ctx, request, lambda _name, _id, _index: TopicAuthorizationFailed())
    session = _session(ctx, request)
    known = allowed(ctx, _READ)
    if (session is None or _is_cleared(ctx, session)) and all((topic.topic or topic.topic_id) in known for topic in request.topics):
        return handler.handle(ctx, request)
    error_of = Access(ctx, handler.api.name).topic_errors(ctx, Operation.READ)
    if session is None:
        refused = [topic for topic in request.topics if error_of(topic.topic, topic.topic_id) is not None]
        return _without(handler, ctx, request, error_of) if refused else handler.handle(ctx, request)
    authorizer: Any = ctx.broker.authorizer
    client = authorizer.generation, ctx.connection.principal, ctx.connection.client_host
    if session.access is not None and session.access[0] == client:
        all_refused: set[Any] = session.access[1]
    else:
        all_refused = _refused_in_session(session, error_of)
        for topic, index in session.partitions:
            session.look_again(topic, index)  # a topic may have become refused or allowed
    for topic in request.topics:
        if error_of(topic.topic, topic.topic_id) is not None:
            all_refused.add(topic.topic_id if session.uses_topic_ids else topic.topic)
    session.access = None if request.forgotten_topics_data else (client, all_refused)
    return _without(handler, ctx, request, error_of) if all_refused else handler.handle(ctx, request)


def _is_cleared(ctx: RequestContext, session: Any) -> bool:
    """Return whether an earlier request has found that this client may read all topics of a session."""
    if session.access is None:
        return False
    (generation, principal, host), refused = session.access
    authorizer: Any = ctx.broker.authorizer
    connection = ctx.connection
    return not refused and generation == authorizer.generation and principal == connection.principal and host == connection.client_host


def _session(ctx: RequestContext, request: Any) -> Any:
    sessions = ctx.broker.fetch_sessions
    return None if sessions is None or request.session_epoch <= _OPENING_EPOCH else sessions.get(request.session_id)


def _refused_in_session(session: Any, error_of: TopicErrors) -> set[Any]:
    topics = {topic for topic, _ in session.partitions}
    return {topic for topic in topics if (error_of("", topic) if isinstance(topic, UUID) else error_of(topic, NIL_UUID)) is not None}


def _without(handler: Handler, ctx: RequestContext, request: Any, error_of: ErrorOf) -> Any:
    """Serve a Fetch whose handler cannot look up refused partitions.

    It does not wait, because it has errors to return.
    """
    ctx.cluster = cast("Cluster", AuthorizedCluster(ctx.cluster, error_of))
    return handler.handle(ctx, replace(request, max_wait_ms=0))


def share_fetch(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """READ of each topic of the request and of its share session.

    Acknowledgements of refused topics are not processed.
    """
    error_of = Access(ctx, handler.api.name).topic_errors(ctx, Operation.READ)
    ctx.cluster = cast("Cluster", AuthorizedCluster(ctx.cluster, error_of))
    refused = {topic.topic_id for topic in request.topics if error_of("", topic.topic_id) is not None}
    acknowledged = {
        (topic.topic_id, each.partition_index)
        for topic in request.topics
        if topic.topic_id in refused
        for each in topic.partitions
        if each.acknowledgement_batches
    }
    if not acknowledged:
        return handler.handle(ctx, request)
    topics = [_without_acknowledgements(topic) if topic.topic_id in refused else topic for topic in request.topics]

    def with_errors(response: Any) -> Any:
        for topic in response.responses:
            for result in topic.partitions:
                if (topic.topic_id, result.partition_index) in acknowledged:
                    result.acknowledge_error_code = TopicAuthorizationFailed.code
        return response

    return after(handler.handle(ctx, replace(request, topics=topics)), with_errors)


def _without_acknowledgements(topic: Any) -> Any:
    return replace(topic, partitions=[replace(each, acknowledgement_batches=[]) for each in topic.partitions])


def offset_for_leader_epoch(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """CLUSTER_ACTION, or DESCRIBE of each topic."""
    access = Access(ctx, handler.api.name)
    if access.may_on_cluster(Operation.CLUSTER_ACTION):
        return handler.handle(ctx, request)
    return serve_topics(handler, ctx, request, access.topic_errors(ctx, Operation.DESCRIBE))


_SEVERAL_TRANSACTIONS_SINCE: Final = 4


def init_producer_id(handler: Handler, ctx: RequestContext, request: k22_init_producer_id.Request) -> Any:
    """WRITE of the transactional id; without one IDEMPOTENT_WRITE of the cluster, or WRITE of any topic."""
    access = Access(ctx, handler.api.name)
    transactional_id = request.transactional_id
    if transactional_id is not None:
        needed = [Operation.WRITE, Operation.TWO_PHASE_COMMIT] if request.enable_2pc else [Operation.WRITE]
        if not all(access.allows(each, ResourceType.TRANSACTIONAL_ID, transactional_id) for each in needed):
            raise TransactionalIdAuthorizationFailed
    elif not (access.allows_any(Operation.WRITE, ResourceType.TOPIC) or access.allows_cluster(Operation.IDEMPOTENT_WRITE)):
        raise ClusterAuthorizationFailed
    return handler.handle(ctx, request)


def add_partitions_to_txn(handler: Handler, ctx: RequestContext, request: k24_add_partitions_to_txn.Request) -> Any:
    """WRITE of the transactional id and of each topic; other partitions are OPERATION_NOT_ATTEMPTED.

    Brokers need CLUSTER_ACTION.
    """
    access = Access(ctx, handler.api.name)
    if ctx.api_version >= _SEVERAL_TRANSACTIONS_SINCE:
        access.check_cluster(Operation.CLUSTER_ACTION)
        return handler.handle(ctx, request)
    if not access.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        raise TransactionalIdAuthorizationFailed
    return serve_topics(handler, ctx, request, access.topic_errors(ctx, Operation.WRITE))


def describe_transactions(handler: Handler, ctx: RequestContext, request: k65_describe_transactions.Request) -> Any:
    """DESCRIBE of each transactional id. Topics without DESCRIBE are left out."""
    access = Access(ctx, handler.api.name)

    def hide_topics(response: Any) -> Any:
        for state in response.transaction_states:
            state.topics = [each for each in state.topics if access.may(Operation.DESCRIBE, ResourceType.TOPIC, each.topic)]
        return response

    def error_of(transactional_id: str) -> TransactionalIdAuthorizationFailed | None:
        is_allowed = access.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return None if is_allowed else TransactionalIdAuthorizationFailed()

    result = serve_elements(handler, ctx, request, keys="transactional_ids", results="transaction_states", error_of=error_of)
    return after(result, hide_topics)


def list_transactions(handler: Handler, ctx: RequestContext, request: k66_list_transactions.Request) -> Any:
    """DESCRIBE of each transactional id; other ids are left out."""
    access = Access(ctx, handler.api.name)
    return keep_allowed(
        ctx,
        handler.handle(ctx, request),
        "transaction_states",
        lambda state: access.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id),
    )
