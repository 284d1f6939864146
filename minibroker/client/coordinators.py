"""Send requests to the coordinators of groups and transactional ids, until each key has a final answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import BrokerUnreachable, refusal
from minibroker.client.transport import Deadline
from minibroker.errors import CoordinatorNotAvailable, KafkaError
from minibroker.schemas import k10_find_coordinator
from minibroker.schemas.k10_find_coordinator import GROUP, TRANSACTION

T = TypeVar("T")

SEVERAL_KEYS_SINCE = 4
WORDS = {GROUP: "group", TRANSACTION: "transactional id"}


def ask_coordinators(
    client: Client,
    key_type: int,
    keys: Iterable[str],
    ask: Callable[[Connection, list[str]], Mapping[str, T | KafkaError]],
    deadline: Deadline,
) -> dict[str, T | KafkaError]:
    """Return the answer or the final error for each key; retriable errors are retried until the deadline.

    `ask` asks one coordinator about its keys. A broker that has no topic for the coordinator's state yet creates it.
    """
    found: dict[str, T | KafkaError] = {}
    left = list(dict.fromkeys(keys))
    while left:
        reason: Exception | None = None
        nodes: dict[int, list[str]] = defaultdict(list)
        for key, answer in find_coordinators(client, key_type, left, deadline).items():
            if isinstance(answer, int):
                nodes[answer].append(key)
            elif answer.retriable:
                reason = answer
            else:
                found[key] = answer
        for node_id, own in nodes.items():
            try:
                answers = ask(client.to_node(node_id, deadline), own)
            except BrokerUnreachable as error:
                reason = error
                continue
            for key, result in answers.items():
                if isinstance(result, KafkaError) and result.retriable:
                    reason = result
                else:
                    found[key] = result
        left = [key for key in left if key not in found]
        if left:
            deadline.pause(reason or CoordinatorNotAvailable(f"no coordinator answers for {WORDS[key_type]} {left[0]}"))
    return found


def find_coordinators(client: Client, key_type: int, keys: list[str], deadline: Deadline) -> dict[str, int | KafkaError]:
    """Return the node id of each key's coordinator, or the error. Sends one request."""
    found: dict[str, int | KafkaError] = {}
    connection = client.retrying(lambda: client.to_any(deadline), deadline)
    if connection.version_for(k10_find_coordinator) >= SEVERAL_KEYS_SINCE:
        request = k10_find_coordinator.Request(key_type=key_type, coordinator_keys=keys)
        response: k10_find_coordinator.Response = client.ask(k10_find_coordinator, request, deadline)
        for each in response.coordinators:
            error = refusal(each.error_code, f"coordinator of {WORDS[key_type]} {each.key}", each.error_message)
            found[each.key] = each.node_id if error is None else error
        return found
    for key in keys:
        answer: k10_find_coordinator.Response = client.ask(
            k10_find_coordinator, k10_find_coordinator.Request(key=key, key_type=key_type), deadline
        )
        error = refusal(answer.error_code, f"coordinator of {WORDS[key_type]} {key}", answer.error_message)
        found[key] = answer.node_id if error is None else error
    return found
