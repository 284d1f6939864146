"""CreateDelegationToken: golden frames of real clients, limits, and what other users get. test_scenes.py has the rest."""

from __future__ import annotations

import pytest

from minibroker.config.request_limits import TOKEN_PRINCIPAL_SIZE_MAX, TOKEN_RENEWERS_MAX
from minibroker.schemas import k38_create_delegation_token as schema
from minibroker.schemas import k39_renew_delegation_token as k39
from minibroker.security import tokens as rules
from minibroker.security.audit import AuditLog
from tests.golden import golden
from tests.support.golden_exchange import answer_of, kafka_answer, serve
from tests.support.golden_requests import requests_of
from tests.support.token_users import ask_as, broker_with_tokens, connection_of, create


@pytest.mark.parametrize("name", requests_of("k38_create_delegation_token"))
def test_golden_requests_get_kafka_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request, expected = golden(name), answer_of(golden(name))
    broker = broker_with_tokens()
    broker.connection = connection_of("alice")
    broker.clock.jump(expected.issue_timestamp_ms - broker.clock.now_ms())
    monkeypatch.setattr(rules, "new_token_id", lambda: expected.token_id)
    assert serve(broker, request) == kafka_answer(request)


@pytest.mark.parametrize("protocol, user, code", [("SSL", "ANONYMOUS", 64), ("SSL", "CN=alice", 0), ("SASL_SSL", "alice", 0)])
def test_token_requests_need_an_authenticated_user(protocol: str, user: str, code: int) -> None:
    broker = broker_with_tokens()
    broker.connection = connection_of(user, security_protocol=protocol)
    assert broker.ask(schema.Request(renewers=[], max_lifetime_ms=-1)).error_code == code


def test_any_user_may_request_tokens_for_others_without_authorizer() -> None:
    broker = broker_with_tokens(acls=None)
    answer = create(broker, "alice", owner="bob")
    assert (answer.error_code, answer.principal_name, answer.token_requester_principal_name) == (0, "bob", "alice")


def test_denial_is_written_to_the_audit_log(monkeypatch: pytest.MonkeyPatch) -> None:
    denied: list[str] = []
    monkeypatch.setattr(AuditLog, "denied", lambda _log, entry: denied.append(str(entry)))
    broker = broker_with_tokens()
    assert create(broker, "alice", owner="bob").error_code == 65
    (line,) = denied
    assert line.startswith(
        "Principal = User:alice is Denied operation = CREATE_TOKENS from host = 127.0.0.1 on resource = User:LITERAL:User:bob "
    )
    assert line.endswith("for request = CreateDelegationToken with resourceRefCount = 1 based on rule DefaultDeny")


def test_lifetimes_follow_the_properties() -> None:
    limits = {"delegation.token.max.lifetime.ms": "5000", "delegation.token.expiry.time.ms": "7000"}
    broker = broker_with_tokens(limits)
    for requested, most in ((-1, 5000), (4000, 4000), (6000, 5000)):
        answer = create(broker, "alice", lifetime_ms=requested)
        assert (answer.max_timestamp_ms - answer.issue_timestamp_ms, answer.expiry_timestamp_ms) == (most, answer.max_timestamp_ms)


def test_lifetimes_do_not_overflow() -> None:
    longest = {"delegation.token.max.lifetime.ms": str((1 << 63) - 1), "delegation.token.expiry.time.ms": str((1 << 63) - 1)}
    broker = broker_with_tokens(longest)
    answer = create(broker, "alice")
    assert answer.max_timestamp_ms == answer.expiry_timestamp_ms == (1 << 63) - 1
    assert ask_as(broker, "alice", k39.Request(hmac=answer.hmac, renew_period_ms=-1)).expiry_timestamp_ms == (1 << 63) - 1


def test_token_ids_are_random_and_in_kafka_format() -> None:
    ids = {rules.new_token_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(each) for each in ids} == {22}
    assert not any(each.startswith("-") for each in ids)


def test_renewers_are_limited() -> None:
    broker = broker_with_tokens()
    names = [f"r{number}" for number in range(TOKEN_RENEWERS_MAX)]
    assert create(broker, "alice", *names).error_code == 0
    end = broker.cluster.metadata.last_offset
    assert create(broker, "alice", *names, "one-more").error_code == 44
    assert broker.cluster.metadata.last_offset == end


def test_principals_are_limited_in_size() -> None:
    broker = broker_with_tokens(acls=None)
    long = "x" * (TOKEN_PRINCIPAL_SIZE_MAX + 1)
    assert create(broker, "alice", long).error_code == 44
    assert create(broker, "alice", owner=long).error_code == 44


def test_tokens_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "DELEGATION_TOKENS_OF_REQUESTER_MAX", 3)
    monkeypatch.setattr(rules, "DELEGATION_TOKENS_MAX", 5)
    broker = broker_with_tokens()
    assert [create(broker, user).error_code for user in ("alice",) * 4 + ("bob",) * 3] == [0, 0, 0, 44, 0, 0, 44]
