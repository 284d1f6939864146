"""Fetch (key 1): read record batches, waiting for them if asked to.

Versions: 0 to 18; 12 is flexible; from 13 topics are named by id; from 7 sessions (handlers/fetch/session.py).
Partitions are read in order until max_bytes are full; the first one with records gives at least one batch, however large (below 3, where
there is no max_bytes, each one does: Apache Kafka 3.9 answers nothing there, and an old consumer stands still before a large batch).
Below 4 records are converted down to the message format that the client knows (log/old_readers.py), those of long batches in slices.
Under read_committed a partition ends at its last stable offset, and the transactions are listed that were aborted and have records in what
is answered (Apache Kafka may list some that begin behind it, too).
The answer waits until there are min_bytes that the reader may see, for at most max_wait_ms; a partition with an error or a diverging epoch
ends the wait, or one that is deleted or led by another meanwhile, and so does another request behind this one on its connection (Apache
Kafka lets it wait).
Batches are answered as they are, those in zstd to every version from 4 on, as Apache Kafka 4.3.1 does (Kafka 3 told
versions below 10 UNSUPPORTED_COMPRESSION_TYPE). Below version 4, which Kafka 4 does not serve, they still are: the formats
v0 and v1 have no zstd, and a client gets what lies before such a batch.
An answer ends with a whole batch. Apache Kafka fills the limits with a part of the next one, which saves it a look at the batches, and
which every client throws away and fetches again (tests/golden/fetched_batches_kafka_4.3.1.json); here the look costs one index entry,
and a partition that follows may use the bytes.
More than 1,000 partitions, of the request or of its session, are read and answered in slices, in the same order and with the same limits:
some of them later than others, as if several requests had been made. Those that moved meanwhile are not settled in the session.
An answer that a quota of its client (dispatch/quotas.py) does not allow goes without partitions, and its session stays as it was.
Before version 6 KAFKA_STORAGE_ERROR is told as NOT_LEADER_OR_FOLLOWER, which every client retries, as in Kafka.
Not done: followers. A request with a replica_id is answered with NOT_LEADER_OR_FOLLOWER: this broker has assigned no replicas.
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
    """Answer at once, or park until there is enough."""
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
    """A Fetch of many partitions, with pauses."""
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
    """The whole request failed: the error once, and for clients that look there only, in each partition."""
    if ctx.api_version >= TOPIC_IDS_SINCE:
        return schema.Response(error_code=error.code, session_id=request.session_id, responses=[])
    results: list[PartitionAnswer] = [
        (topic.topic, failed(asked.partition, error, aborted=[])) for topic in request.topics for asked in topic.partitions
    ]
    return schema.Response(error_code=error.code, session_id=request.session_id, responses=by_topic(results))
