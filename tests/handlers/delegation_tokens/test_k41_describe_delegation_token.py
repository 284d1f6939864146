"""DescribeDelegationToken: golden frames of real clients, and many tokens. test_scenes.py has the rest."""

from __future__ import annotations

from itertools import count

import pytest

from minibroker.dispatch.delayed import Delayed
from minibroker.schemas import k41_describe_delegation_token as schema
from minibroker.schemas.internal.security_records import DelegationTokenRecord
from tests.golden import golden
from tests.support.golden_exchange import answer_of, kafka_answer, serve
from tests.support.golden_requests import requests_of
from tests.support.token_users import ask_as, broker_with_tokens, connection_of, create, load


def record(token: schema.Token) -> DelegationTokenRecord:
    """The record of a token that Kafka described."""
    return DelegationTokenRecord(
        owner=f"{token.principal_type}:{token.principal_name}",
        requester="User:alice",
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in token.renewers],
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=token.expiry_timestamp,
        token_id=token.token_id,
    )


@pytest.mark.parametrize("name", requests_of("k41_describe_delegation_token"))
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    """Kafka's order is that of a hash map; here it is that of the creation."""
    request = golden(name)
    broker = broker_with_tokens()
    broker.connection = connection_of("alice")
    tokens = answer_of(request).tokens
    assert tokens
    load(broker, *map(record, tokens))
    assert serve(broker, request) == kafka_answer(request)


def test_many_tokens_are_described_in_slices() -> None:
    broker = broker_with_tokens(acls=["bob DESCRIBE_TOKENS USER User:alice"])
    ids = [create(broker, "alice").token_id for _ in range(450)]
    times = count()
    broker.services.slices.now_s = lambda: float(next(times))  # each look at the clock ends the slice
    broker.connection = connection_of("bob")
    pending = broker.begin(schema.Request(owners=None))
    assert isinstance(pending.in_flight, Delayed)
    was_done = pending.is_done
    broker.clock.advance(1)
    assert (was_done, pending.is_done) == (False, True)
    assert [each.token_id for each in pending.answer().tokens] == ids


def test_expired_token_is_listed_until_it_is_removed() -> None:
    broker = broker_with_tokens({"delegation.token.expiry.check.interval.ms": "10000"})
    answer = create(broker, "alice", lifetime_ms=9000)
    broker.clock.advance(9500)
    assert [each.token_id for each in ask_as(broker, "alice", schema.Request(owners=None)).tokens] == [answer.token_id]
    broker.clock.advance(600)
    assert ask_as(broker, "alice", schema.Request(owners=None)).tokens == []
