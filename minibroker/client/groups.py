"""List and delete groups of all kinds. `described_groups.py` describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.coordinators import ask_coordinators
from minibroker.client.errors import UnsupportedByBroker, check, refusal
from minibroker.client.share_groups import SHARE
from minibroker.client.transport import Deadline
from minibroker.errors import KafkaError
from minibroker.schemas import k16_list_groups, k42_delete_groups
from minibroker.schemas.k10_find_coordinator import GROUP

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"  #: a type of groups, and the protocol type of classic groups of consumers
STREAMS: Final = "streams"  #: a type of groups, and their protocol type
TYPES: Final = (CLASSIC, CONSUMER, SHARE, STREAMS)
EMPTY: Final = "Empty"
DEAD: Final = "Dead"
STATES: Final = (EMPTY, "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", DEAD, "NotReady")

STATES_SINCE: Final = 4
TYPES_SINCE: Final = 5


class ListedGroup(NamedTuple):
    """A group and its coordinator. None for what an old broker does not return."""

    group: str
    type: str | None
    state: str | None
    protocol_type: str  #: "consumer", "connect", ...; "" for a group that has only offsets
    coordinator: int


def list_groups(client: Client, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """Return the groups of all brokers, by name, filtered by state and type; KafkaError if one broker fails."""
    deadline = client.deadline()
    client.metadata([], deadline)
    request = k16_list_groups.Request(states_filter=list(states), types_filter=list(types))
    needed = TYPES_SINCE if types else STATES_SINCE if states else 0
    found = []
    for node_id in sorted(client.brokers):
        answer = client.retrying(lambda node_id=node_id: _list_of(client, node_id, request, needed, deadline), deadline)  # type: ignore[misc]  # mypy does not infer a lambda with a default
        found += [
            ListedGroup(each.group_id, each.group_type or None, each.group_state or None, each.protocol_type, node_id)
            for each in answer.groups
        ]
    return sorted(found, key=lambda each: each.group)


def _list_of(client: Client, node_id: int, request: k16_list_groups.Request, needed: int, deadline: Deadline) -> k16_list_groups.Response:
    connection = client.to_node(node_id, deadline)
    if connection.version_for(k16_list_groups) < needed:
        raise UnsupportedByBroker(f"{connection.address} serves ListGroups below version {needed}, and would not filter so")
    response: k16_list_groups.Response = connection.ask(k16_list_groups, request, deadline)
    check(response.error_code, f"groups of broker {node_id}")
    return response


def delete_groups(client: Client, groups: Iterable[str]) -> dict[str, KafkaError | None]:
    """Delete groups of any type, with their offsets. Returns the error of each, or None."""
    deadline = client.deadline()

    def ask(connection: Connection, keys: list[str]) -> Mapping[str, bool | KafkaError]:
        response: k42_delete_groups.Response = connection.ask(k42_delete_groups, k42_delete_groups.Request(groups_names=keys), deadline)
        return {each.group_id: refusal(each.error_code, f"group {each.group_id}") or True for each in response.results}

    answers = ask_coordinators(client, GROUP, groups, ask, deadline)
    return {group: answer if isinstance(answer, KafkaError) else None for group, answer in answers.items()}
