"""RenewDelegationToken: golden frames of real clients. test_scenes.py has the rest."""

from __future__ import annotations

import pytest

from minibroker.schemas.internal.security_records import DelegationTokenRecord
from tests.golden import golden
from tests.support.golden_exchange import answer_of, kafka_answer, serve
from tests.support.golden_requests import requests_of
from tests.support.token_users import broker_with_tokens, connection_of, load, token_ids

DAY_MS = 86_400_000


def record(token_id: str, issue_ms: int) -> DelegationTokenRecord:
    """The token of the capture, as it was before."""
    return DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=["User:bob"],
        issue_timestamp=issue_ms,
        max_timestamp=issue_ms + DAY_MS,
        expiration_timestamp=issue_ms + DAY_MS,
        token_id=token_id,
    )


@pytest.mark.parametrize("name", requests_of("k39_renew_delegation_token"))
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    """Kafka found the token by an HMAC, which is that of its id with the key of the capture."""
    request = golden(name)
    requested, expected = request.decode(), answer_of(request)
    broker = broker_with_tokens()
    broker.connection = connection_of("alice")
    now_ms = expected.expiry_timestamp_ms - requested.renew_period_ms
    broker.clock.jump(now_ms - broker.clock.now_ms())
    load(broker, record(token_ids()[requested.hmac], now_ms - 1000))
    assert serve(broker, request) == kafka_answer(request)
