"""Fetch (key 1): read record batches, and wait for them if requested.

Versions: 0 to 18; 12 is flexible; from 13 on topics are named by id; from 7 on there are sessions
(handlers/fetch/session.py). Partitions are read in order until max_bytes are reached. The first one
with records returns at least one batch of any size. Versions below 3 have no max_bytes, and each
partition returns at least one batch. (Apache Kafka 3.9 returns nothing, and an old consumer cannot
get past a large batch.) Below 4 records are converted down to the client's message format
(log/old_readers.py), those of long batches in slices. Under read_committed a partition ends at its
last stable offset, and the response lists the aborted transactions that have records in it. (Apache
Kafka may also list some that start after it.) The response waits up to max_wait_ms for min_bytes
that the reader may see. The wait also ends if a partition has an error or a diverging epoch, is
deleted or gets another leader, or if the next request of the connection arrives (which waits in
Apache Kafka). Batches are returned as stored. Batches compressed with zstd are returned from
version 4 on, as in Apache Kafka 4.3.1. (Kafka 3 returned UNSUPPORTED_COMPRESSION_TYPE below version
10.) Formats v0 and v1 have no zstd: clients below 4, which Kafka 4 does not serve, get the records
before such a batch. A response ends with a whole batch. Apache Kafka fills the limits with a part
of the next batch, which clients throw away and fetch again
(tests/golden/fetched_batches_kafka_4.3.1.json). Here the end of the last batch is found with one
index entry, and the next partition may use the bytes. A request or session of more than 1,000
partitions is served in slices, in the same order and with the same limits, as if it were several
requests. Partitions that move in the meantime are not settled in the session. If a quota
(dispatch/quotas.py) does not allow the response, it has no partitions, and the session is
unchanged. Before version 6 KAFKA_STORAGE_ERROR is NOT_LEADER_OR_FOLLOWER, which every client
retries, as in Kafka. Not done: followers. A request with a replica_id gets NOT_LEADER_OR_FOLLOWER,
because this broker has assigned no replicas.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import KafkaError
from minibroker.handlers.fetch.reading import TOPIC_IDS_SINCE, FetchReading, ManyUnopened, by_topic, failed
from minibroker.handlers.fetch.reading_in_slices import FetchReadingInSlices
from minibroker.handlers.fetch.session import FetchContext, ManyPartitions, PartitionAnswer, open_cache
from minibroker.log.old_readers import LongConversion
from minibroker.schemas import k01_fetch as schema


@handles(schema)
def fetch(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Respond now, or wait for enough bytes."""
    sessions = ctx.broker.fetch_sessions
    if sessions is None:
        sessions = open_cache(ctx.broker)
    try:
        context = sessions.context(request, uses_topic_ids=ctx.api_version >= TOPIC_IDS_SINCE)
    except KafkaError as error:
        return schema.Response(error_code=error.code, responses=[])
    except ManyPartitions:
        return ctx.broker.slices.run(_fetch_in_slices(ctx, request), keeps_frame=False)
    reading = FetchReading(ctx, request, context)
    try:
        response = reading.attempt(request.max_wait_ms <= 0)
    except ManyUnopened:
        return ctx.broker.slices.run(_read_in_slices(ctx, request, context), keeps_frame=False)
    except LongConversion as long:
        return ctx.broker.slices.run(reading.convert(long))
    if response is not None:
        return response
    return ctx.broker.purgatory.park(reading.watch(), request.max_wait_ms, reading.attempt)


def _fetch_in_slices(ctx: RequestContext, request: schema.Request) -> Steps:
    """Serve a Fetch of many partitions, with pauses."""
    deadline_ms = ctx.broker.clock.now_ms() + request.max_wait_ms
    try:
        context = yield from ctx.broker.fetch_sessions.context_in_slices(request, uses_topic_ids=ctx.api_version >= TOPIC_IDS_SINCE)
    except KafkaError as error:
        return schema.Response(error_code=error.code, responses=[])
    return (yield from _read_in_slices(ctx, request, context, deadline_ms))


def _read_in_slices(ctx: RequestContext, request: schema.Request, context: FetchContext, deadline_ms: int | None = None) -> Steps:
    if deadline_ms is None:
        deadline_ms = ctx.broker.clock.now_ms() + request.max_wait_ms
    return (yield from FetchReadingInSlices(ctx, request, context).serve(deadline_ms))


def on_error(ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` for the request, and in each partition for clients that check only partitions."""
    if ctx.api_version >= TOPIC_IDS_SINCE:
        return schema.Response(error_code=error.code, session_id=request.session_id, responses=[])
    results: list[PartitionAnswer] = [
        (topic.topic, failed(entry.partition, error, aborted=[])) for topic in request.topics for entry in topic.partitions
    ]
    return schema.Response(error_code=error.code, session_id=request.session_id, responses=by_topic(results))
