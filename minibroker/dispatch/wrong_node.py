"""What a broker answers that is asked for what another one has: by leaders of partitions, and of the internal topics of coordinators.

    partitions   NOT_LEADER_OR_FOLLOWER where another leads, or nobody, with the leader where the API can tell (partition_refusal.py); from
                 a replica, FENCED_LEADER_EPOCH before that to who believes in an earlier leader epoch.
                 Any replica answers DescribeProducers, and ListOffsets of a debugging replica (replica_id -2).
                 A consumer from Fetch 11 on may read from any replica, and is told of one in its rack (KIP-392); Produce with acks=all is
                 NOT_ENOUGH_REPLICAS while fewer than min.insync.replicas, and not all, are in sync
    keys         NOT_COORDINATOR for groups and transactional ids whose partition of the internal topic another leads; each on its own where
                 the API asks for several. Who lists groups or transactions is told those that this broker coordinates
    directories  partitions of which this broker has a replica

As Apache Kafka's brokers do (KafkaApis, ReplicaManager of 4.3.1); what only a controller can do any of them passes on, so nobody is told
NOT_CONTROLLER. Requests between brokers about share states go to the one that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from minibroker.cluster.partition import NO_EPOCH
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from minibroker.coordinator.placement import partition_of
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.middleware import after, refusal, wrapped
from minibroker.dispatch.partition_places import index_of
from minibroker.dispatch.partition_refusal import serve, session_of
from minibroker.dispatch.read_replica import fetch
from minibroker.dispatch.registry import Handler, Registry
from minibroker.errors import FencedLeaderEpoch, KafkaError, NotCoordinator, NotEnoughReplicas, NotLeaderOrFollower, UnknownLeaderEpoch
from minibroker.schemas import k00_produce, k01_fetch, k02_list_offsets
from minibroker.wire.schema import replace

if TYPE_CHECKING:
    from minibroker.cluster.partition import Partition
    from minibroker.cluster.topic import Topic

READ_FROM_REPLICAS_SINCE: Final = 11
ALL_IN_SYNC: Final = -1  #: acks
DEBUGGING_REPLICA: Final = -2  #: replica_id of a client that asks any replica
_IN_SYNC_MIN: Final = "min.insync.replicas"

#: Produce, Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch, WriteTxnMarkers, DescribeProducers, ShareFetch, ShareAcknowledge
_OF_LEADERS: Final = frozenset({0, 1, 2, 21, 23, 27, 61, 78, 79})

#: of these, the one that every replica answers: DescribeProducers
_OF_REPLICAS: Final = frozenset({61})

#: of these, those whose clients may say which leader epoch they believe in: Fetch, ListOffsets, OffsetForLeaderEpoch
_FENCING: Final = frozenset({1, 2, 23})

#: API key -> (the topic of its coordinator, the field with the key)
_OF_ONE_KEY: Final = {
    **dict.fromkeys((8, 11, 12, 13, 14, 28, 47, 68, 76, 88, 91, 92), (CONSUMER_OFFSETS_TOPIC, "group_id")),
    **dict.fromkeys((22, 25, 26), (TRANSACTION_STATE_TOPIC, "transactional_id")),
}


class _Keys(NamedTuple):
    """How an API asks for several keys."""

    topic: str  #: of the coordinator
    asked: str  #: the request's list of keys, or of structs with one
    answered: str  #: the answer's
    single: str | None = None  #: the field in versions that ask for one


_OF_KEYS: Final = {
    9: _Keys(CONSUMER_OFFSETS_TOPIC, "groups", "groups", "group_id"),
    15: _Keys(CONSUMER_OFFSETS_TOPIC, "groups", "groups"),
    24: _Keys(TRANSACTION_STATE_TOPIC, "transactions", "results_by_transaction", "v3_and_below_transactional_id"),
    42: _Keys(CONSUMER_OFFSETS_TOPIC, "groups_names", "results"),
    65: _Keys(TRANSACTION_STATE_TOPIC, "transactional_ids", "transaction_states"),
    69: _Keys(CONSUMER_OFFSETS_TOPIC, "group_ids", "groups"),
    77: _Keys(CONSUMER_OFFSETS_TOPIC, "group_ids", "groups"),
    89: _Keys(CONSUMER_OFFSETS_TOPIC, "group_ids", "groups"),
    90: _Keys(CONSUMER_OFFSETS_TOPIC, "groups", "groups"),
}

#: API key -> (the topic, the list of the answer)
_LISTING: Final = {16: (CONSUMER_OFFSETS_TOPIC, "groups"), 66: (TRANSACTION_STATE_TOPIC, "transaction_states")}
_LOG_DIRS: Final = 35


def guarded(registry: Registry) -> Registry:
    """The same APIs, by handlers that do only what is the business of the broker that was asked."""
    return wrapped(registry, _guard)


def _guard(handler: Handler) -> Handler:
    around = _around(handler.api.key)
    return handler if around is None else handler.around(partial(around, handler))


def _around(api_key: int) -> Callable[[Handler, RequestContext, Any], Any] | None:
    if api_key in _OF_LEADERS:
        return _of_leaders
    if api_key in _OF_ONE_KEY:
        return partial(_of_one_key, *_OF_ONE_KEY[api_key])
    if api_key in _OF_KEYS:
        return partial(_of_keys, _OF_KEYS[api_key])
    if api_key in _LISTING:
        return partial(_listing, *_LISTING[api_key])
    return _log_dirs if api_key == _LOG_DIRS else None


# Partitions


def _of_leaders(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    is_fetch = handler.api.key == k01_fetch.API_KEY
    is_wrong = _wrong_place(handler, ctx, request)
    is_durable = handler.api.key == k00_produce.API_KEY and request.acks == ALL_IN_SYNC

    def error_of(name: str, _topic_id: UUID, index: int | None) -> KafkaError | None:
        topic = ctx.services.cluster.topics.get(name)
        if topic is None or index is None or not 0 <= index < len(topic.partitions):
            return None
        found = topic.partitions[index]
        if not found.is_online:
            return None  # the handler has words for that
        if is_wrong(ctx, found):
            return (_wrong_epoch(ctx, request, found) if handler.api.key in _FENCING else None) or NotLeaderOrFollower()
        if is_durable and _lacks_replicas(ctx, topic, found):
            return NotEnoughReplicas()
        return None

    if is_fetch:
        return after(fetch(handler, ctx, request, error_of), _without_transactions)
    result = serve(handler, ctx, request, error_of)
    if handler.api.key == k00_produce.API_KEY:
        return after(result, partial(_without_words, ctx))
    return after(result, _by_code_alone) if handler.api.key in _OF_REPLICAS else result


def _wrong_place(handler: Handler, ctx: RequestContext, request: Any) -> Callable[[RequestContext, Partition], bool]:
    """What says whether this broker may not answer for a partition. Only a consumer's ListOffsets and those of brokers need the leader."""
    api_key = handler.api.key
    if api_key == k01_fetch.API_KEY and ctx.api_version >= READ_FROM_REPLICAS_SINCE:
        return _is_wrong_reader
    if api_key in _OF_REPLICAS or (api_key == k02_list_offsets.API_KEY and request.replica_id == DEBUGGING_REPLICA):
        return _lacks_replica
    return _is_wrong_leader


def _wrong_epoch(ctx: RequestContext, request: Any, partition: Partition) -> KafkaError | None:
    """A replica looks at the leader epoch that a client believes in before it looks who leads (Kafka's Partition.getLocalLog)."""
    if ctx.node.node_id not in ctx.nodes.of(partition).replicas:
        return None
    try:
        partition.check_leader_epoch(max(_epoch_said(ctx, request, partition), NO_EPOCH))
    except KafkaError as error:
        return error.with_traceback(None)
    return None


def _epoch_said(ctx: RequestContext, request: Any, partition: Partition) -> int:
    """By the request, or before by its Fetch session."""
    names = {partition.topic, partition.topic_id}
    for topic in request.topics:
        if not names.isdisjoint(getattr(topic, each, None) for each in ("name", "topic", "topic_id")):
            for each in topic.partitions:
                if index_of(each) == partition.index:
                    return int(each.current_leader_epoch)
    session = session_of(ctx, request) if isinstance(request, k01_fetch.Request) else None
    if session is None:
        return NO_EPOCH
    told = session.partitions.get((partition.topic_id if session.uses_topic_ids else partition.topic, partition.index))
    return NO_EPOCH if told is None else told.asked.current_leader_epoch


def _without_words(ctx: RequestContext, response: Any) -> Any:
    """As Kafka refuses: by the code alone, and where the log is this broker's, with its start."""
    for topic in response.responses:
        for result in topic.partition_responses:
            if result.error_code in {NotLeaderOrFollower.code, NotEnoughReplicas.code}:
                result.error_message = None
            if result.error_code == NotEnoughReplicas.code:
                cluster = ctx.services.cluster
                found = cluster.topics.get(topic.name) or cluster.image.topics_by_id.get(topic.topic_id)
                log = None if found is None else found.partitions[result.index].online_log
                result.log_start_offset = -1 if log is None else log.log_start_offset
    return response


def _by_code_alone(response: Any) -> Any:
    for topic in response.topics:
        for result in topic.partitions:
            if result.error_code == NotLeaderOrFollower.code:
                result.error_message = None
    return response


def _without_transactions(response: Any) -> Any:
    """As Kafka refuses: nothing is said of transactions."""
    for topic in response.responses:
        for result in topic.partitions:
            if result.error_code in {NotLeaderOrFollower.code, FencedLeaderEpoch.code, UnknownLeaderEpoch.code}:
                result.aborted_transactions = None
    return response


def _is_wrong_leader(ctx: RequestContext, partition: Partition) -> bool:
    return not ctx.nodes.leads(partition)


def _is_wrong_reader(ctx: RequestContext, partition: Partition) -> bool:
    nodes = ctx.nodes.of(partition)
    return nodes.leader_id < 0 or ctx.node.node_id not in nodes.replicas


def _lacks_replica(ctx: RequestContext, partition: Partition) -> bool:
    return ctx.node.node_id not in ctx.nodes.of(partition).replicas


def _lacks_replicas(ctx: RequestContext, topic: Topic, partition: Partition) -> bool:
    """Whether fewer are in sync than acks=all asks for, which is never more than there are replicas (Partition.effectiveMinIsr)."""
    nodes = ctx.nodes.of(partition)
    text = topic.config.get(_IN_SYNC_MIN)
    in_sync_min = ctx.config.min_insync_replicas if text is None else int(text)
    return len(nodes.in_sync) < min(in_sync_min, len(nodes.replicas))


# Coordinators


def _coordinates(ctx: RequestContext, topic_name: str, key: str) -> bool:
    """Whether this broker does; also where nobody does yet, for there is no internal topic."""
    topic = ctx.services.cluster.topics.get(topic_name)
    return topic is None or ctx.nodes.leads(topic.partitions[partition_of(key, len(topic.partitions))])


def _of_one_key(topic_name: str, field: str, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    key = getattr(request, field)
    if key is not None and not _coordinates(ctx, topic_name, key):
        raise NotCoordinator
    return handler.handle(ctx, request)


def _of_keys(kind: _Keys, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    keys = getattr(request, kind.asked)
    if not keys and kind.single is not None:
        return _of_one_key(kind.topic, kind.single, handler, ctx, request)
    own = [each for each in keys if _coordinates(ctx, kind.topic, _key(each))]
    if len(own) == len(keys):
        return handler.handle(ctx, request)
    others = [each for each in keys if each not in own]
    refused = refusal(handler, ctx, replace(request, **{kind.asked: others}), NotCoordinator())
    if not own:
        return refused

    def joined(response: Any) -> Any:
        return replace(response, **{kind.answered: [*getattr(response, kind.answered), *getattr(refused, kind.answered)]})

    return after(handler.handle(ctx, replace(request, **{kind.asked: own})), joined)


def _key(asked: Any) -> str:
    """Of an element: a bare key, or a struct with one."""
    if isinstance(asked, str):
        return asked
    key: str = asked.group_id if hasattr(asked, "group_id") else asked.transactional_id
    return key


def _listing(topic_name: str, answered: str, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    def own(response: Any) -> Any:
        listed: Iterable[Any] = getattr(response, answered)
        return replace(response, **{answered: [each for each in listed if _coordinates(ctx, topic_name, _key(each))]})

    return after(handler.handle(ctx, request), own)


# Directories


def _log_dirs(handler: Handler, ctx: RequestContext, request: Any) -> Any:
    def own(response: Any) -> Any:
        for directory in response.results:
            for topic in directory.topics:
                topic.partitions = [each for each in topic.partitions if _has_replica(ctx, topic.name, each.partition_index)]
            directory.topics = [topic for topic in directory.topics if topic.partitions]
        return response

    return after(handler.handle(ctx, request), own)


def _has_replica(ctx: RequestContext, topic_name: str, index: int) -> bool:
    topic = ctx.services.cluster.topics.get(topic_name)
    return topic is not None and index < len(topic.partitions) and ctx.node.node_id in ctx.nodes.of(topic.partitions[index]).replicas
