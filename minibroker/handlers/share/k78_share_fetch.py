"""ShareFetch (key 78): acquire records for a member of a share group, and acknowledge earlier ones.

Versions: 1 and 2, flexible. From 2 on a request can renew locks (is_renew_ack: then nothing is
fetched) and be strict about max_records (share_acquire_mode 1). Sessions are in
coordinator/share_partition/share_partitions.py, acquisition is in acquiring.py. As in Kafka, a
client that is not a member of the group is served like a member once the state of the group exists.
Before that the partition has UNKNOWN_SERVER_ERROR. The answer waits up to max_wait_ms for
min_bytes, or for max_records. The wait ends with an append, a release, an expired lock, another
request on the connection, or the end of the session. If acknowledgements must be synced first, the
answer does not wait for records. An unknown topic has UNKNOWN_TOPIC_ID (Kafka fails the request
that opens the session). Partitions are answered in the order in which they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minibroker.config.request_limits import SHARE_ELEMENTS_MAX
from minibroker.coordinator.share_partition.acquiring import AcquireRequest
from minibroker.coordinator.share_partition.share_partitions import FINAL_EPOCH, MemberKey, ShareSession, TopicPartition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.flush import FlushFailures
from minibroker.dispatch.pieces import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import InvalidRequest, KafkaError, ShareSessionLimitReached, ShareSessionNotFound
from minibroker.handlers.share import RENEW_SINCE, Outcome, acknowledge, check_member_id, check_size, endpoints, leader, unsynced
from minibroker.handlers.share.reading import PartitionRecords, ShareReading
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas import k78_share_fetch as schema
from minibroker.wire.schema import replace

if TYPE_CHECKING:
    from minibroker.dispatch.quotas import Quotas

_STRICT: Final = 1  #: share_acquire_mode


@handles(schema, limit=ElementLimit(SHARE_ELEMENTS_MAX))
def share_fetch(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Check the request, then serve it.

    If there are too many sessions, wait before rejecting it, so that clients do not retry in a
    loop.
    """
    ctx.broker.check_group_protocol("share")
    if request.group_id is None:
        raise InvalidRequest("Invalid group id in the request.")
    check_member_id(request.member_id)
    check_size((*request.topics, *request.forgotten_topics_data))
    if ctx.api_version >= RENEW_SINCE and request.is_renew_ack and not _is_empty(request):
        raise InvalidRequest("maxBytes, minBytes, maxRecords and maxWaitMs must be 0 if isRenewAck is true.")
    try:
        fetch = ShareFetching(ctx, request, (request.group_id, request.member_id or ""))
    except ShareSessionLimitReached as error:
        refusal = on_error(ctx, request, error)
        return ctx.broker.purgatory.park([], request.max_wait_ms, lambda is_last: refusal if is_last else None)
    return fetch.serve()


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return the code without a message, as Kafka does."""
    return schema.Response(error_code=error.code, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[])


def _is_empty(request: schema.Request) -> bool:
    return not (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms)


class ShareFetching:
    """A request that has passed the checks."""

    def __init__(self, ctx: RequestContext, request: schema.Request, member: MemberKey) -> None:
        self._ctx = ctx
        self._request = request
        self._member = member
        self._is_final = request.share_session_epoch == FINAL_EPOCH
        self._session = self._open()
        self._is_first = request.share_session_epoch == 0
        self._outcomes: dict[TopicPartition, Outcome] = {}
        self._max_bytes = min(request.max_bytes, ctx.broker.config.fetch_max_bytes)
        if ctx.broker.quotas is not None:
            self._max_bytes = ctx.broker.quotas.fetch_bytes_max(ctx, self._max_bytes)
        acquire_request = AcquireRequest(member[1], request.max_records, max(request.batch_size, 1), request.share_acquire_mode == _STRICT)
        self._reading = ShareReading(ctx, member[0], self._turns(), acquire_request)

    def serve(self) -> schema.Response | Delayed:
        """Return the response, or Delayed."""
        if not _has_acknowledgements(self._request):
            return self._continue([])
        return self._ctx.broker.slices.run(self._acknowledge(), keeps_frame=False)

    def _acknowledge(self) -> Steps:
        """Process the acknowledgements of the request with pauses, and continue."""
        self._outcomes, logs = yield from acknowledge(self._ctx, self._member, self._request)
        result = self._continue(logs)
        return (yield result) if isinstance(result, Delayed) else result

    def _continue(self, logs: list[PartitionLog]) -> schema.Response | Delayed:
        if self._is_final:
            self._ctx.broker.coordinators.share_partitions.end_session(self._ctx.broker.nodes.own.node_id, self._member)
        logs += self._ctx.broker.coordinators.share_partitions.take_unsynced()
        if logs:

            def answer(failures: FlushFailures) -> Any:  # always a response: the attempt is the last one
                if any(log in failures for log in logs):
                    self._outcomes = unsynced(self._outcomes)
                return self._attempt(True)

            return when_done(lambda done: self._ctx.broker.flush_queue.flush(logs, done), answer)
        response = self._attempt(self._request.max_wait_ms <= 0)
        if response is not None:
            return response
        return self._ctx.broker.purgatory.park(self._reading.watched(), self._request.max_wait_ms, self._attempt)

    def _open(self) -> ShareSession | None:
        """Open or update the session. Returns None if the request closes it."""
        request, shares, node_id = self._request, self._ctx.broker.coordinators.share_partitions, self._ctx.broker.nodes.own.node_id
        added = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
        if request.share_session_epoch == 0:
            if _has_acknowledgements(request):
                raise InvalidRequest
            return shares.begin_session(node_id, self._member, added, self._ctx.connection.when_closed)
        session = shares.session(node_id, self._member)
        if self._is_final:
            return None
        session.check_epoch(request.share_session_epoch)
        forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
        shares.update_session(node_id, self._member, added, forgotten)
        return session

    def _turns(self) -> list[TopicPartition]:
        """Return the partitions to read, starting with another one in each request."""
        request = self._request
        if self._session is None or request.max_records <= 0 or self._max_bytes <= 0 or self._renews():
            return []
        partitions = list(self._session.partitions)
        first = request.share_session_epoch % len(partitions) if partitions else 0
        return partitions[first:] + partitions[:first]

    def _renews(self) -> bool:
        return self._ctx.api_version >= RENEW_SINCE and self._request.is_renew_ack

    def _attempt(self, is_last: bool) -> schema.Response | None:
        shares, node_id = self._ctx.broker.coordinators.share_partitions, self._ctx.broker.nodes.own.node_id
        if self._session is not None and not shares.has_session(node_id, self._member, self._session):
            raise ShareSessionNotFound  # it ended during the wait, and the member could not acknowledge records that it acquires now
        records = self._reading.attempt(min_bytes=min(self._request.min_bytes, self._max_bytes), max_bytes=self._max_bytes, is_last=is_last)
        return None if records is None else self._response(records)

    def _response(self, records: dict[TopicPartition, PartitionRecords]) -> schema.Response:
        results = {key: self._result(key, each) for key, each in records.items() if self._is_returned(key, each)}
        for key, outcome in self._outcomes.items():
            result = results.get(key) or self._result(key, PartitionRecords())
            results[key] = replace(result, acknowledge_error_code=outcome.error_code, acknowledge_error_message=outcome.error_message)
        topics: dict[object, schema.TopicResult] = {}
        for (topic_id, _), result in results.items():
            topics.setdefault(topic_id, schema.TopicResult(topic_id=topic_id, partitions=[])).partitions.append(result)
        lock_ms = self._ctx.cluster.configs.of_group(self._member[0]).share_record_lock_duration_ms
        nodes = endpoints(self._ctx, schema, results.values())
        response = schema.Response(error_code=0, acquisition_lock_timeout_ms=lock_ms, responses=[*topics.values()], node_endpoints=nodes)
        if self._ctx.broker.quotas is not None:
            self._count(self._ctx.broker.quotas, response)
        return response

    def _result(self, partition: TopicPartition, fetched: PartitionRecords) -> schema.PartitionResult:
        error_code = 0 if fetched.error is None else fetched.error.code
        return schema.PartitionResult(
            partition_index=partition[1],
            error_code=error_code,
            error_message=None,
            acknowledge_error_code=0,
            acknowledge_error_message=None,
            current_leader=leader(self._ctx, schema, partition, error_code),
            records=fetched.records,
            acquired_records=[
                schema.AcquiredRecords(first_offset=each.first_offset, last_offset=each.last_offset, delivery_count=each.delivery_count)
                for each in fetched.acquired
            ],
        )

    def _count(self, quotas: Quotas, response: schema.Response) -> None:
        quotas.count_fetched(self._ctx, lambda: quotas.size_of(schema, self._ctx.api_version, response))

    def _is_returned(self, key: TopicPartition, fetched: PartitionRecords) -> bool:
        if self._session is None:
            return False
        must_include = self._session.must_include(key, has_records=bool(fetched.records), has_error=fetched.error is not None)
        return must_include or self._is_first


def _has_acknowledgements(request: schema.Request) -> bool:
    return any(each.acknowledgement_batches for topic in request.topics for each in topic.partitions)
