"""Transactions by transactional id, and the ones that are open in partitions."""

from __future__ import annotations

from typing import Any, Final

from minibroker.cluster.topic import TRANSACTION_STATE_TOPIC
from minibroker.console.asking import check
from minibroker.console.pace import paced
from minibroker.console.page import NotFoundError, Page, Visit, rows_of
from minibroker.console.pages.topics import quoted
from minibroker.console.values import visible
from minibroker.errors import TransactionalIdNotFound
from minibroker.schemas import k65_describe_transactions, k66_list_transactions
from minibroker.security.acl import Operation, ResourceType

_OPEN_SHOWN: Final = 100
_OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


async def transactions(visit: Visit) -> dict[str, Any]:
    """List transactional ids that contain the parameter `q`, and open transactions of all partitions."""
    wanted = visit.text("q").lower()
    listed: list[Any] = []
    if TRANSACTION_STATE_TOPIC in visit.host.cluster.topics:
        response = await visit.ask(k66_list_transactions.Request(state_filters=[], producer_id_filters=[]))
        check(response.error_code)
        listed = [each async for each in paced(response.transaction_states) if wanted in each.transactional_id.lower()]
    rows = rows_of(visit, sorted(listed, key=lambda each: each.transactional_id))
    return {
        "q": visit.text("q"),
        **rows.to_json(),
        "transactions": [
            _row(each, visit.host.now_ms()) for each in await _described(visit, [each.transactional_id for each in rows.items])
        ],
        "open": await _open(visit),
        "command": "minibroker transactions list",
    }


async def _described(visit: Visit, ids: list[str]) -> list[Any]:
    if not ids:
        return []
    response = await visit.ask(k65_describe_transactions.Request(transactional_ids=ids))
    return [each for each in response.transaction_states if not each.error_code]


def _row(state: Any, now_ms: int) -> dict[str, Any]:
    started = state.transaction_start_time_ms if state.transaction_state in _OPEN_STATES else -1
    return {
        "transactional_id": state.transactional_id,
        "shown": visible(state.transactional_id),
        "state": state.transaction_state,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "timeout_ms": state.transaction_timeout_ms,
        "started_ms": started if started >= 0 else None,
        "open_ms": max(now_ms - started, 0) if started >= 0 else None,
        "partitions": [f"{topic.topic}-{index}" for topic in state.topics for index in topic.partitions][:_OPEN_SHOWN],
    }


async def _open(visit: Visit) -> list[dict[str, Any]]:
    """Return the oldest open transaction of each partition that has one: readers of committed records wait for it."""
    found: list[dict[str, Any]] = []
    async for topic in paced(list(visit.host.cluster.topics.values())):
        if not visit.may(Operation.READ, ResourceType.TOPIC, topic.name):  # as DescribeProducers
            continue
        async for partition in paced(topic.partitions, every=200):
            log = partition.online_log
            if log is None or log.first_unstable_offset is None or len(found) >= _OPEN_SHOWN:
                continue
            found += [
                {
                    "topic": topic.name,
                    "partition": partition.index,
                    "producer_id": each.producer_id,
                    "producer_epoch": each.producer_epoch,
                    "first_offset": each.first_offset,
                    "hidden": log.high_watermark - log.last_stable_offset,
                }
                for each in log.producers.list_open_transactions()
            ]
    return found[:_OPEN_SHOWN]


async def transaction(visit: Visit) -> dict[str, Any]:
    """Show one transactional id."""
    name = visit.text("id")
    if TRANSACTION_STATE_TOPIC not in visit.host.cluster.topics:
        raise NotFoundError(f"there is no transactional id {name!r}")
    response = await visit.ask(k65_describe_transactions.Request(transactional_ids=[name]))
    state = response.transaction_states[0]
    if state.error_code == TransactionalIdNotFound.code:
        raise NotFoundError(f"there is no transactional id {name!r}")
    check(state.error_code)
    return _row(state, visit.host.now_ms()) | {"command": f"minibroker transactions describe {quoted(name)}"}


PAGES = (
    Page("/transactions", "Transactions", "transactions.html", transactions, live=("list",)),
    Page("/transaction", "Transaction", "transaction.html", transaction, live=("facts",), section="/transactions"),
)
