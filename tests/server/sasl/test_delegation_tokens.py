"""Clients that log in with delegation tokens, over sockets: who they are, what they may not do, and how their sessions end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.config.broker_properties import STANDARD_AUTHORIZER
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k30_create_acls as k30
from minibroker.schemas import k38_create_delegation_token as k38
from minibroker.schemas import k40_expire_delegation_token as k40
from tests.golden.token_scenes import SECRET
from tests.support.becoming import becomes
from tests.support.kafka_users import PASSWORD, ConnectionClosedError, KafkaUser, LoginRefusedError
from tests.support.sasl_broker import PLAIN_MODULE, SCRAM_MODULE, SaslBroker

REFUSED = "invalid credentials with SASL mechanism SCRAM-SHA-512"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in ("alice", "bob", "admin"))
    properties = {
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "connection.failed.authentication.delay.ms": "0",
        "delegation.token.secret.key": SECRET,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
    }
    with SaslBroker(properties) as broker:
        entry: dict[str, Any] = {"principal": "User:alice", "host": "*", "permission_type": 3}
        creation = k30.AclCreation(resource_type=2, resource_name="alices", operation=5, **entry)
        with KafkaUser(broker.port("SASL"), "admin") as admin:
            assert admin.ask(k30.Request(creations=[creation])).results[0].error_code == 0
        yield broker.port("SASL")


def create(port: int, user: str = "alice", lifetime_ms: int = -1) -> k38.Response:
    with KafkaUser(port, user) as client:
        token: k38.Response = client.ask(k38.Request(renewers=[], max_lifetime_ms=lifetime_ms))
    assert token.error_code == 0
    return token


def create_topic(client: KafkaUser, name: str) -> int:
    topic = k19.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    code: int = client.ask(k19.Request(topics=[topic], timeout_ms=1000, validate_only=True)).topics[0].error_code
    return code


def test_the_client_has_the_rights_of_the_owner(port: int) -> None:
    for user, code in (("alice", 0), ("bob", 29)):
        token = create(port, user)
        with KafkaUser(port, token.token_id, token.hmac) as client:
            assert create_topic(client, "alices") == code


def test_a_token_issues_no_token(port: int) -> None:
    token = create(port)
    with KafkaUser(port, token.token_id, token.hmac) as client:
        assert client.ask(k38.Request(renewers=[], max_lifetime_ms=-1)).error_code == 64
        assert client.ask(k40.Request(hmac=token.hmac, expiry_time_period_ms=-1)).error_code == 64


def test_wrong_passwords_and_unknown_tokens_are_refused_alike(port: int) -> None:
    token = create(port)
    for token_id, token_hmac in ((token.token_id, b"wrong"), ("unknown", token.hmac), ("alice", PASSWORD.encode())):
        with KafkaUser(port, token_id, token_hmac) as client, pytest.raises(LoginRefusedError, match=REFUSED):
            client.ask(metadata())


def test_a_token_that_is_removed_logs_nobody_in_and_sessions_go_on(port: int) -> None:
    token = create(port)
    with KafkaUser(port, token.token_id, token.hmac) as client, KafkaUser(port, "alice") as alice:
        client.ask(metadata())
        assert alice.ask(k40.Request(hmac=token.hmac, expiry_time_period_ms=-1)).error_code == 0
        client.ask(metadata())
        with KafkaUser(port, token.token_id, token.hmac) as late, pytest.raises(LoginRefusedError, match=REFUSED):
            late.ask(metadata())


def test_a_session_ends_with_its_token(port: int) -> None:
    """The first request after the expiry closes the connection, as in Apache Kafka; a new login is refused."""
    token = create(port, lifetime_ms=1000)
    with KafkaUser(port, token.token_id, token.hmac) as client:
        client.ask(metadata())

        def is_closed() -> bool:
            try:
                client.ask(metadata())
            except (ConnectionClosedError, LoginRefusedError):
                return True
            return False

        assert becomes(is_closed)
        with pytest.raises(LoginRefusedError, match=REFUSED):
            client.ask(metadata())


def metadata() -> Any:
    return k03.Request(topics=[])
