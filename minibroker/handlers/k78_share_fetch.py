"""ShareFetch (key 78): acquire records for a member of a share group, and say what became of earlier ones.

Versions: 1 and 2, flexible; 2 renews locks (is_renew_ack: then nothing is fetched) and can be strict about max_records (share_acquire_mode
1). Sessions: coordinator/share/sessions.py; who gets what: coordinator/share/share_partition.py. Who is no member of the group is served
like any other once the group's state is there, as with Kafka; before that the partition has UNKNOWN_SERVER_ERROR.
The answer waits until there are min_bytes, or as much as max_records allow, for at most max_wait_ms; what is appended, released or over in
time wakes it. Another request behind this one on its connection ends the wait, and so does the end of the session. Where acknowledgements
must be synced first, nothing is waited for.
An unknown topic has UNKNOWN_TOPIC_ID (Kafka stumbles over it in the request that begins a session). Partitions are answered in the order in
which they had their turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.flush_queue import Failures
from minibroker.dispatch.registry import handles
from minibroker.dispatch.share_acknowledgements import acknowledge, unsafe
from minibroker.dispatch.share_leaders import endpoints, leader
from minibroker.dispatch.share_protocol import check_member_id, check_served
from minibroker.dispatch.share_reading import Given, ShareReading
from minibroker.errors import InvalidRequest, KafkaError, ShareSessionLimitReached, ShareSessionNotFound
from minibroker.schemas import k78_share_fetch as schema
from minibroker.wire.schema import replace

if TYPE_CHECKING:
    from minibroker.coordinator.share.sessions import MemberKey, ShareSession, TopicPartition
    from minibroker.dispatch.quotas import Quotas

RENEW_SINCE = 2
STRICT = 1  #: share_acquire_mode


class _ShareFetch:
    """One request that is past its refusals."""

    def __init__(self, ctx: RequestContext, request: schema.Request, member: MemberKey) -> None:
        from minibroker.coordinator.share.acquiring import Wanted  # noqa: PLC0415  a start does without
        from minibroker.coordinator.share.sessions import FINAL_EPOCH  # noqa: PLC0415  a start does without

        self._ctx = ctx
        self._request = request
        self._member = member
        self._is_final = request.share_session_epoch == FINAL_EPOCH
        self._session = self._open()
        self._is_first = request.share_session_epoch == 0
        self._outcomes = acknowledge(ctx, member, request) if _has_acknowledgements(request) else {}
        self._max_bytes = min(request.max_bytes, ctx.config.fetch_max_bytes)
        if ctx.services.quotas is not None:
            self._max_bytes = ctx.services.quotas.fetch_bytes_max(ctx, self._max_bytes)
        wanted = Wanted(member[1], request.max_records, max(request.batch_size, 1), request.share_acquire_mode == STRICT)
        self._reading = ShareReading(ctx, member[0], self._turns(), wanted)

    def serve(self) -> schema.Response | Delayed:
        """Answer, or wait."""
        if self._is_final:
            self._ctx.share_partitions.end_session(*self._member)
        logs = self._ctx.share_partitions.take_unsynced()
        if logs:

            def answer(failures: Failures) -> schema.Response | None:
                if any(log in failures for log in logs):
                    self._outcomes = unsafe(self._outcomes)
                return self._attempt(True)

            delayed: schema.Response | Delayed = when_done(lambda done: self._ctx.flush_queue.flush(logs, done), answer)
            return delayed
        response = self._attempt(self._request.max_wait_ms <= 0)
        if response is not None:
            return response
        return self._ctx.purgatory.park(self._reading.watched(), self._request.max_wait_ms, self._attempt)

    def _open(self) -> ShareSession | None:
        """The session, as the request changes it; None for one that ends."""
        request, shares = self._request, self._ctx.share_partitions
        added = [(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]
        if request.share_session_epoch == 0:
            if _has_acknowledgements(request):
                raise InvalidRequest
            return shares.begin_session(self._member, added, self._ctx.connection.when_closed)
        session = shares.session(self._member)
        if self._is_final:
            return None
        session.go_on(request.share_session_epoch)
        session.update(added, [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions])
        return session

    def _turns(self) -> list[TopicPartition]:
        """The partitions to read, another first each time."""
        request = self._request
        if self._session is None or request.max_records <= 0 or self._max_bytes <= 0 or self._renews():
            return []
        partitions = list(self._session.partitions)
        first = request.share_session_epoch % len(partitions) if partitions else 0
        return partitions[first:] + partitions[:first]

    def _renews(self) -> bool:
        return self._ctx.api_version >= RENEW_SINCE and self._request.is_renew_ack

    def _attempt(self, is_last: bool) -> schema.Response | None:
        if self._session is not None and self._ctx.share_partitions.session(self._member) is not self._session:
            raise ShareSessionNotFound  # it ended while this waited: its member shall get nothing
        if self._session is not None and not self._ctx.share_partitions.has_session(self._member, self._session):
            return self._response({})  # it ended while this waited: nobody would speak of what is acquired now
        given = self._reading.attempt(min_bytes=min(self._request.min_bytes, self._max_bytes), max_bytes=self._max_bytes, is_last=is_last)
        return None if given is None else self._response(given)

    def _response(self, given: dict[TopicPartition, Given]) -> schema.Response:
        results = {key: self._result(key, each) for key, each in given.items() if self._is_told(key, each)}
        for key, outcome in self._outcomes.items():
            result = results.get(key) or self._result(key, Given())
            results[key] = replace(result, acknowledge_error_code=outcome.error_code, acknowledge_error_message=outcome.error_message)
        topics: dict[object, schema.TopicResult] = {}
        for (topic_id, _), result in results.items():
            topics.setdefault(topic_id, schema.TopicResult(topic_id=topic_id, partitions=[])).partitions.append(result)
        lock_ms = self._ctx.cluster.group_config(self._member[0]).share_record_lock_duration_ms
        nodes = endpoints(self._ctx, schema, [each.error_code for each in results.values()])
        response = schema.Response(error_code=0, acquisition_lock_timeout_ms=lock_ms, responses=[*topics.values()], node_endpoints=nodes)
        if self._ctx.services.quotas is not None:
            self._count(self._ctx.services.quotas, response)
        return response

    def _result(self, partition: TopicPartition, given: Given) -> schema.PartitionResult:
        error_code = 0 if given.error is None else given.error.code
        return schema.PartitionResult(
            partition_index=partition[1],
            error_code=error_code,
            error_message=None,
            acknowledge_error_code=0,
            acknowledge_error_message=None,
            current_leader=leader(self._ctx, schema, partition, error_code),
            records=given.records,
            acquired_records=[
                schema.AcquiredRecords(first_offset=each.first_offset, last_offset=each.last_offset, delivery_count=each.delivery_count)
                for each in given.acquired
            ],
        )

    def _count(self, quotas: Quotas, response: schema.Response) -> None:
        from minibroker.dispatch.quotas import size_of  # noqa: PLC0415  a broker without quotas does without

        quotas.count_fetched(self._ctx, lambda: size_of(schema, self._ctx.api_version, response))

    def _is_told(self, key: TopicPartition, given: Given) -> bool:
        if self._session is None:
            return False
        is_news = self._session.is_told(key, has_records=bool(given.records), has_error=given.error is not None)
        return is_news or self._is_first


@handles(schema)
def share_fetch(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Refusals first; who finds too many sessions waits, so as not to ask in circles."""
    check_served(ctx)
    if request.group_id is None:
        raise InvalidRequest("Invalid group id in the request.")
    check_member_id(request.member_id)
    if ctx.api_version >= RENEW_SINCE and request.is_renew_ack and not _is_empty(request):
        raise InvalidRequest("maxBytes, minBytes, maxRecords and maxWaitMs must be 0 if isRenewAck is true.")
    try:
        fetch = _ShareFetch(ctx, request, (request.group_id, request.member_id or ""))
    except ShareSessionLimitReached as error:
        refusal = on_error(ctx, request, error)
        return ctx.purgatory.park([], request.max_wait_ms, lambda is_last: refusal if is_last else None)
    return fetch.serve()


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """The request as a whole: a code and no words, as Kafka has it."""
    return schema.Response(error_code=error.code, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[])


def _has_acknowledgements(request: schema.Request) -> bool:
    return any(each.acknowledgement_batches for topic in request.topics for each in topic.partitions)


def _is_empty(request: schema.Request) -> bool:
    return not (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms)
