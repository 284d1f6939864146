"""DescribeTransactions (key 65): the state of transactional ids (KIP-664).

Versions: 0, flexible. An unknown id is TRANSACTIONAL_ID_NOT_FOUND. Topics are those of the
transaction that is open or about to end.
"""

from __future__ import annotations

from collections.abc import Iterable

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, TransactionalIdNotFound
from minibroker.schemas import k65_describe_transactions as schema


@handles(schema, Pieces("transactional_ids", "transaction_states"))
def describe_transactions(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Describe each id, in the order of the request."""
    return schema.Response(transaction_states=[_describe(ctx, each) for each in request.transactional_ids])


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` for each id."""
    return schema.Response(transaction_states=[_failed(each, error.code) for each in request.transactional_ids])


def _describe(ctx: RequestContext, transactional_id: str) -> schema.TransactionState:
    try:
        metadata = ctx.broker.coordinators.transactions.get(transactional_id)
    except KafkaError as error:
        return _failed(transactional_id, error.code)
    if metadata is None:
        return _failed(transactional_id, TransactionalIdNotFound.code)
    return schema.TransactionState(
        error_code=0,
        transactional_id=transactional_id,
        transaction_state=metadata.state.kafka_name,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_timestamp_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=_by_topic(metadata.partitions),
    )


def _by_topic(partitions: Iterable[tuple[str, int]]) -> list[schema.Topic]:
    indexes: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        indexes.setdefault(topic, []).append(index)
    return [schema.Topic(topic=topic, partitions=found) for topic, found in indexes.items()]


def _failed(transactional_id: str, error_code: int) -> schema.TransactionState:
    """Return `error` with zeros in all other fields, as Kafka does."""
    return schema.TransactionState(
        error_code=error_code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
