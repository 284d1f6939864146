"""AddPartitionsToTxn (key 24): add the partitions that a transaction will write to.

Versions: 0 to 5; 3 is flexible. Clients use versions up to 3, with one transaction. Brokers use 4
and above, with several transactions, or with verify_only to check whether a transaction includes
its partitions (KIP-890). This broker does not send it to itself, but serves it. All partitions of a
transaction are added or none: if one does not exist it is UNKNOWN_TOPIC_OR_PARTITION, and the
others are OPERATION_NOT_ATTEMPTED. For clients the broker's internal topics are
TOPIC_AUTHORIZATION_FAILED. For a fenced producer versions 0 and 1 return INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from minibroker.cluster.topic import INTERNAL_TOPICS
from minibroker.config.request_limits import TRANSACTION_PARTITIONS_MAX
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch, TopicPartition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed, when_done
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import (
    InvalidProducerEpoch,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from minibroker.schemas import k24_add_partitions_to_txn as schema

BATCHED_SINCE = 4
FENCED_SINCE = 2
ABORTABLE_SINCE = 5

_PIECES: Final = (
    Pieces("transactions.topics.partitions", "results_by_transaction.topic_results.results_by_partition", most=TRANSACTION_PARTITIONS_MAX),
    Pieces("v3_and_below_topics.partitions", "results_by_topic_v3_and_below.results_by_partition", most=TRANSACTION_PARTITIONS_MAX),
)

Codes = dict["TopicPartition", int]


@handles(schema, *_PIECES)
def add_partitions_to_txn(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Add or verify the partitions of each transaction."""
    transactions = request.transactions if ctx.api_version >= BATCHED_SINCE else [_as_transaction(request)]

    def begin(done: Callable[[Sequence[Codes]], None]) -> None:
        """Start all transactions. The last one to finish completes the response."""
        codes: dict[int, Codes] = {}

        def ended(index: int, found: Codes) -> None:
            codes[index] = found
            if len(codes) == len(transactions):
                done([codes[each] for each in range(len(transactions))])

        for index, each in enumerate(transactions):
            _begin(ctx, each, partial(ended, index))

    if not transactions:
        return schema.Response()
    return when_done(begin, partial(_answer, ctx, transactions))


def on_error(ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` as Kafka does: for each partition in the versions of clients, else for the request."""
    if ctx.api_version >= BATCHED_SINCE:
        return schema.Response(error_code=error.code)
    transaction = _as_transaction(request)
    return _answer(ctx, [transaction], [dict.fromkeys(_partitions(transaction), error.code)])


def _as_transaction(request: schema.Request) -> schema.Transaction:
    return schema.Transaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _begin(ctx: RequestContext, entry: schema.Transaction, done: Callable[[Codes], None]) -> None:
    """Add or verify the partitions of one transaction, and call back with the code of each."""
    ids = ProducerIdAndEpoch(entry.producer_id, entry.producer_epoch)
    partitions = _partitions(entry)
    refused = _refused(ctx, partitions)
    if refused:
        done({each: refused.get(each, OperationNotAttempted.code) for each in partitions})
    elif entry.verify_only:
        done(_verified(ctx, entry.transactional_id, ids, partitions))
    else:
        version = 2 if ctx.api_version >= BATCHED_SINCE else 0
        ctx.broker.coordinators.transactions.add_partitions(
            entry.transactional_id,
            ids,
            partitions,
            lambda outcome: done(dict.fromkeys(partitions, _code(ctx, outcome) if isinstance(outcome, KafkaError) else 0)),
            client_transaction_version=version,
        )


def _partitions(entry: schema.Transaction) -> frozenset[TopicPartition]:
    return frozenset((topic.name, index) for topic in entry.topics for index in topic.partitions)


def _refused(ctx: RequestContext, partitions: frozenset[TopicPartition]) -> Codes:
    """Return the partitions that cannot be part of a transaction, with their error codes."""
    refused: Codes = {}
    for topic, index in partitions:
        found = ctx.cluster.topics.get(topic)
        if topic in INTERNAL_TOPICS and ctx.api_version < BATCHED_SINCE:  # only coordinators write markers to internal topics
            refused[topic, index] = TopicAuthorizationFailed.code
        elif found is None or not 0 <= index < len(found.partitions):
            refused[topic, index] = UnknownTopicOrPartition.code
    return refused


def _verified(ctx: RequestContext, transactional_id: str, ids: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]) -> Codes:
    try:
        found = ctx.broker.coordinators.transactions.verify_partitions(transactional_id, ids, partitions)
    except KafkaError as error:
        return dict.fromkeys(partitions, _code(ctx, error))
    return {each: 0 if error is None else _code(ctx, error()) for each, error in found.items()}


def _code(ctx: RequestContext, error: KafkaError) -> int:
    """Return the code of `error` in this version."""
    if isinstance(error, ProducerFenced) and ctx.api_version < FENCED_SINCE:
        return InvalidProducerEpoch.code
    return error.code


def _answer(ctx: RequestContext, transactions: Sequence[schema.Transaction], codes: Sequence[Codes]) -> schema.Response:
    results = [
        schema.TransactionResult(transactional_id=each.transactional_id, topic_results=_results(each.topics, found))
        for each, found in zip(transactions, codes, strict=True)
    ]
    if ctx.api_version >= BATCHED_SINCE:
        return schema.Response(results_by_transaction=results)
    return schema.Response(results_by_topic_v3_and_below=results[0].topic_results)


def _results(topics: Sequence[schema.Topic], codes: Mapping[TopicPartition, int]) -> list[schema.TopicResult]:
    return [
        schema.TopicResult(
            name=topic.name,
            results_by_partition=[
                schema.PartitionResult(partition_index=index, partition_error_code=codes[topic.name, index]) for index in topic.partitions
            ],
        )
        for topic in topics
    ]
