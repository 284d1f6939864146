"""A broker in memory with delegation tokens, and requests about them as users who have logged in by SASL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from minibroker.cluster.metadata.delegation_tokens import open_tokens
from minibroker.dispatch.context import ConnectionInfo
from minibroker.schemas import k38_create_delegation_token as k38
from minibroker.schemas.internal.security_records import DelegationTokenRecord
from tests.golden import all_golden
from tests.golden.token_scenes import PLAIN, SECRET, TOKEN
from tests.support.access import ADMIN, authorize
from tests.support.broker_in_memory import BrokerInMemory

KEY = "delegation.token.secret.key"


def broker_with_tokens(config: Mapping[str, str] | None = None, acls: Iterable[str] | None = (), **options: Any) -> BrokerInMemory:
    """A broker with a key, and with an authorizer unless `acls` is None."""
    broker = BrokerInMemory(config={KEY: SECRET} | dict(config or {}), **options)
    if acls is not None:
        authorize(broker.services, acls, super_users=[ADMIN])
    return broker


def connection_of(user: str, *, is_token: bool = False, security_protocol: str = "SASL_PLAINTEXT") -> ConnectionInfo:
    """The connection of a user."""
    connection = ConnectionInfo("PLAINTEXT", "127.0.0.1", security_protocol)
    connection.principal, connection.is_token_authenticated = f"User:{user}", is_token
    return connection


def ask_as(broker: BrokerInMemory, user: str, request: Any, version: int | None = None) -> Any:
    """Send a request as a user; an empty name is the plain listener's, `token N` has logged in with a token of alice."""
    if user == PLAIN:
        broker.connection = connection_of("ANONYMOUS", security_protocol="PLAINTEXT")
    elif user.startswith(TOKEN):
        broker.connection = connection_of("alice", is_token=True)
    else:
        broker.connection = connection_of(user)
    return broker.ask(request, version)


def create(broker: BrokerInMemory, user: str, *renewers: str, owner: str | None = None, lifetime_ms: int = -1) -> k38.Response:
    """Create a token."""
    wanted = [k38.Renewer(principal_type="User", principal_name=name) for name in renewers]
    kind = None if owner is None else "User"
    request = k38.Request(owner_principal_type=kind, owner_principal_name=owner, renewers=wanted, max_lifetime_ms=lifetime_ms)
    answer: k38.Response = ask_as(broker, user, request)
    return answer


def load(broker: BrokerInMemory, *records: DelegationTokenRecord) -> None:
    """Write tokens that another broker issued, and read them as a start does."""
    broker.cluster.metadata.commit(records)
    assert broker.services.tokens is not None
    broker.services.tokens.stop()
    broker.services.tokens = open_tokens(broker.config, broker.cluster.metadata, broker.clock)


def token_ids() -> dict[bytes, str]:
    """The ids of the tokens in golden frames, by HMAC."""
    answers = [each.decode() for each in all_golden().values() if (each.api_key, each.direction) == (38, "response")]
    return {answer.hmac: answer.token_id for answer in answers}
