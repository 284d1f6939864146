"""Delegation tokens in the metadata log: they survive every stop, expire, and no HMAC is ever written."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from minibroker.cluster.metadata import delegation_tokens
from minibroker.cluster.metadata.delegation_tokens import StoredTokens
from minibroker.errors import KafkaStorageError
from minibroker.schemas import k38_create_delegation_token as k38
from minibroker.schemas import k39_renew_delegation_token as k39
from minibroker.schemas import k40_expire_delegation_token as k40
from minibroker.schemas import k41_describe_delegation_token as k41
from minibroker.schemas.internal.security_records import RemoveDelegationTokenRecord
from minibroker.schemas.internal.setting_records import FeatureLevelRecord
from minibroker.security.sasl_session import SCRAM_SHA_256, SCRAM_SHA_512, SaslFailed
from minibroker.security.scram import ScramCredential, ScramServer, UnknownUsers, derive
from minibroker.security.tokens import DelegationToken, TokenRules
from tests.golden.token_scenes import SECRET
from tests.security.test_scram import Client
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.token_users import KEY, ask_as, broker_with_tokens, create, load

HOUR_MS = 3_600_000
EVERY_HOUR = {"delegation.token.expiry.check.interval.ms": str(HOUR_MS)}


def described(broker: BrokerInMemory, user: str = "alice") -> list[Any]:
    tokens: list[Any] = ask_as(broker, user, k41.Request(owners=None)).tokens
    return tokens


@pytest.mark.parametrize("clean", [True, False])
def test_tokens_survive_a_stop(clean: bool) -> None:
    broker = broker_with_tokens()
    first, second = create(broker, "alice", "bob"), create(broker, "alice")
    ask_as(broker, "bob", k39.Request(hmac=first.hmac, renew_period_ms=5000))
    ask_as(broker, "alice", k40.Request(hmac=second.hmac, expiry_time_period_ms=-1))
    before = described(broker)
    assert [each.token_id for each in before] == [first.token_id]
    assert before[0].expiry_timestamp == broker.clock.now_ms() + 5000
    again = broker.restart(clean=clean)
    assert described(again) == before
    assert ask_as(again, "alice", k40.Request(hmac=first.hmac, expiry_time_period_ms=-1)).error_code == 0
    assert described(again.restart(clean=clean)) == []


def test_changed_secret_key_invalidates_all_token_passwords() -> None:
    broker = broker_with_tokens()
    token = create(broker, "alice")
    folder = broker.folder
    broker.cluster.close(clean=True)
    other = broker_with_tokens({KEY: "another key"}, folder=folder)
    (listed,) = described(other)
    assert listed.token_id == token.token_id
    assert listed.hmac != token.hmac
    assert ask_as(other, "alice", k39.Request(hmac=token.hmac, renew_period_ms=-1)).error_code == 62


def test_expired_tokens_are_removed_at_each_interval(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "minibroker.cluster.metadata.delegation_tokens")
    broker = broker_with_tokens(EVERY_HOUR)
    short, long = create(broker, "alice", lifetime_ms=HOUR_MS // 2), create(broker, "alice")
    broker.clock.advance(HOUR_MS - 1)
    assert [each.token_id for each in described(broker)] == [short.token_id, long.token_id]
    broker.clock.advance(1)
    assert [each.token_id for each in described(broker)] == [long.token_id]
    assert caplog.messages == [f"removed the expired delegation token {short.token_id} of 'User:alice'"]
    broker.clock.advance(25 * HOUR_MS)
    assert described(broker) == described(broker.restart(clean=False)) == []


def tokens_of(broker: BrokerInMemory) -> StoredTokens:
    assert broker.services.tokens is not None
    return broker.services.tokens


def log_in(broker: BrokerInMemory, token: k38.Response, mechanism: str = SCRAM_SHA_512, *, password: bytes | None = None) -> ScramServer:
    """Exchange the messages of SCRAM; raises SaslFailed."""
    find = partial(tokens_of(broker).login, mechanism)
    exchange = ScramServer(mechanism, lambda _user: None, find, UnknownUsers())
    client = Client(base64.b64encode(token.hmac) if password is None else password, mechanism)
    bare = f"n={token.token_id},r=nonce,tokenauth=true"
    exchange.evaluate(client.final(bare, exchange.evaluate(f"n,,{bare}".encode())))
    return exchange


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_login_uses_the_owner_as_principal(mechanism: str) -> None:
    broker = broker_with_tokens(acls=None)
    token = create(broker, "alice", owner="bob")
    for _ in range(2):
        session = log_in(broker, token, mechanism)
        assert (session.principal_name, session.is_token_authenticated, session.expires_ms) == ("bob", True, token.expiry_timestamp_ms)
    with pytest.raises(SaslFailed):
        log_in(broker, token, mechanism, password=b"another")


def test_credentials_are_derived_once_and_dropped_with_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[str] = []

    def noted(mechanism: str, password: bytes, salt: bytes, iterations: int) -> ScramCredential:
        derived.append(mechanism)
        return derive(mechanism, password, salt, iterations)

    monkeypatch.setattr(delegation_tokens, "derive", noted)
    broker = broker_with_tokens()
    token = create(broker, "alice")
    first, second = (tokens_of(broker).login(SCRAM_SHA_512, token.token_id) for _ in range(2))
    assert first == second
    assert derived == [SCRAM_SHA_512]
    ask_as(broker, "alice", k40.Request(hmac=token.hmac, expiry_time_period_ms=-1))
    assert tokens_of(broker).login(SCRAM_SHA_512, token.token_id) is None
    assert derived == [SCRAM_SHA_512]


def test_token_is_valid_until_its_last_millisecond() -> None:
    broker = broker_with_tokens()
    token = create(broker, "alice", lifetime_ms=1000)
    broker.clock.advance(1000)
    assert log_in(broker, token).is_complete
    broker.clock.advance(1)
    with pytest.raises(SaslFailed):
        log_in(broker, token)
    assert tokens_of(broker).login(SCRAM_SHA_512, "unknown") is None


def test_renewal_extends_logins() -> None:
    broker = broker_with_tokens({"delegation.token.expiry.time.ms": "1000"})
    token = create(broker, "alice", "bob")
    broker.clock.advance(900)
    ask_as(broker, "bob", k39.Request(hmac=token.hmac, renew_period_ms=-1))
    broker.clock.advance(900)
    assert log_in(broker, token).expires_ms == broker.clock.now_ms() + 100


def test_token_of_another_principal_type_cannot_log_in() -> None:
    """Such a token comes from Apache Kafka, where the client would become User:staff."""
    broker = broker_with_tokens()
    now_ms = broker.clock.now_ms()
    token = DelegationToken("id", "Group:staff", "User:alice", (), now_ms, now_ms + HOUR_MS, now_ms + HOUR_MS)
    load(broker, delegation_tokens.record_of(token))
    assert [each.token_id for each in described(broker)] == ["id"]
    assert tokens_of(broker).login(SCRAM_SHA_512, "id") is None


def test_many_expired_tokens_are_removed_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "RECORDS_IN_BATCH_MAX", 4)
    broker = broker_with_tokens(EVERY_HOUR)
    for _ in range(9):
        create(broker, "alice", lifetime_ms=1000)
    batches: list[int] = []
    commit = broker.cluster.metadata.commit

    def count(records: Sequence[Any]) -> None:
        batches.append(len(records))
        commit(records)

    monkeypatch.setattr(broker.services.tokens, "_commit", count)
    broker.clock.advance(HOUR_MS)
    assert batches == [4, 4, 1]
    assert described(broker) == []


def test_disk_failure_keeps_the_expired_token(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with_tokens(EVERY_HOUR)
    token = create(broker, "alice", lifetime_ms=1000)
    works = {"disk": False}
    commit = broker.cluster.metadata.commit

    def fail(records: Sequence[Any]) -> None:
        if not works["disk"] and isinstance(records[0], RemoveDelegationTokenRecord):
            raise KafkaStorageError("no space")
        commit(records)

    monkeypatch.setattr(broker.services.tokens, "_commit", fail)
    broker.clock.advance(HOUR_MS)
    assert [each.token_id for each in described(broker)] == [token.token_id]
    assert "could not remove expired delegation tokens: no space" in caplog.text
    works["disk"] = True
    broker.clock.advance(HOUR_MS)
    assert described(broker) == []


def test_metadata_version_without_tokens() -> None:
    broker = broker_with_tokens()
    token = create(broker, "alice")
    broker.cluster.image.apply(FeatureLevelRecord(name="metadata.version", feature_level=13))
    assert create(broker, "alice").error_code == 35
    assert ask_as(broker, "alice", k39.Request(hmac=token.hmac, renew_period_ms=-1)).error_code == 35
    assert ask_as(broker, "alice", k40.Request(hmac=token.hmac, expiry_time_period_ms=-1)).error_code == 35


def test_secret_key_and_hmac_are_never_written_or_shown() -> None:
    broker = broker_with_tokens()
    token = create(broker, "alice")
    written = b"".join(file.read_bytes() for file in broker.folder.rglob("*") if file.is_file())
    assert token.token_id.encode() in written
    assert token.hmac not in written
    assert SECRET.encode() not in written
    assert SECRET not in repr(broker.services.tokens and broker.services.tokens.rules)
    assert repr(TokenRules(b"secret", 1, 2)) == "TokenRules([hidden], 1, 2)"


def test_tokens_are_kept_without_a_secret_key() -> None:
    broker = broker_with_tokens()
    token = create(broker, "alice")
    folder = broker.folder
    broker.cluster.close(clean=True)
    without = broker_with_tokens({KEY: ""}, folder=folder)
    assert without.services.tokens is None
    assert list(without.cluster.image.kept.delegation_tokens) == [token.token_id]
