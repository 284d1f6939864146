"""Regular expressions: a few bytes that keep a matcher busy for long."""

from __future__ import annotations

import transaction_frames

from attacking import requests
from attacking.declaration import Target, attack

LONG_NAMES = 1000
_BOUNDARIES = b"\\d*(\\b?a?){800}"


def _transactional_ids(target: Target) -> None:
    for number in range(3):
        name = b"%d" % number + b"a" * 30_000
        target.ask(transaction_frames.find_coordinator(name))
        target.ask(transaction_frames.init_producer_id(name))


@attack("expression: empty groups repeated", "ListTransactions 2 with (((){1000}){1000}){1000}", prepare=_transactional_ids)
def empty_groups(target: Target) -> None:
    """Once."""
    target.ask(requests.list_transactions(b"(((){1000}){1000}){1000}"))


@attack("expression: word boundaries", "ListTransactions 2 with \\d*(\\b?a?){800}, three ids of 30,000 letters", prepare=_transactional_ids)
def boundaries(target: Target) -> None:
    """Once."""
    target.ask(requests.list_transactions(_BOUNDARIES))


def _long_topics(target: Target) -> None:
    names = [b"%04d" % number + b"a" * 245 for number in range(target.count(LONG_NAMES))]
    for at in range(0, len(names), 100):
        target.ask(requests.create_topics(names[at : at + 100]))


@attack("expression: of a group's topics", "ConsumerGroupHeartbeat 1 with the same, 1,000 topics of 249 letters", prepare=_long_topics)
def of_topics(target: Target) -> None:
    """Once; the group resolves it."""
    target.ask(requests.find_coordinator(b"g", 0))
    target.ask(requests.consumer_heartbeat(b"g", b"member", 0, None, _BOUNDARIES))
