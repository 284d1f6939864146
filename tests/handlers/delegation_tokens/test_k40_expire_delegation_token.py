"""ExpireDelegationToken: golden frames of real clients. test_scenes.py has the rest."""

from __future__ import annotations

import pytest

from tests.golden import golden
from tests.handlers.delegation_tokens.test_k39_renew_delegation_token import record
from tests.support.golden_exchange import answer_of, kafka_answer, serve
from tests.support.golden_requests import requests_of
from tests.support.token_users import broker_with_tokens, connection_of, load, token_ids


@pytest.mark.parametrize("name", requests_of("k40_expire_delegation_token"))
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    requested, expected = request.decode(), answer_of(request)
    broker = broker_with_tokens()
    broker.connection = connection_of("bob")
    now_ms = expected.expiry_timestamp_ms - max(requested.expiry_time_period_ms, 0)
    broker.clock.jump(now_ms - broker.clock.now_ms())
    load(broker, record(token_ids()[requested.hmac], now_ms - 1000))
    assert serve(broker, request) == kafka_answer(request)
    assert len(list(broker.services.tokens or ())) == (requested.expiry_time_period_ms >= 0)
