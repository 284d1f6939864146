"""Make a SASL listener of a broker: its properties, and the users and delegation tokens that the metadata log has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from minibroker.clock import Clock
from minibroker.dispatch.context import Services
from minibroker.errors import ConfigurationError
from minibroker.security.scram import NUMBERS, ScramCredential, ScramToken, UnknownUsers
from minibroker.server.sasl.listener import SaslListener
from minibroker.server.sasl.mechanisms import Accounts, TokenKeys, offers_of
from minibroker.server.sasl.unfinished import UnfinishedRequests


def sasl_listener(name: str, services: Callable[[], Services], clock: Clock, others: Iterable[SaslListener]) -> SaslListener:
    """Return the listener.

    Args:
        name: of the listener.
        services: called at each use, because a broker may exchange its data.
        clock: for delays and the expiry of tokens.
        others: SASL listeners of the same broker, which have one limit of memory with it.

    Raises:
        ConfigurationError: a property is missing or invalid.
    """
    config = services().config
    accounts = Accounts(partial(_credential, services), partial(_token, services))
    keys = TokenKeys(clock, services().background)
    make_offers = partial(offers_of, accounts=accounts, keys=keys, unknown=UnknownUsers())
    try:
        texts, max_idle_ms = (lambda: services().config.security_texts), config.connections_max_idle_ms
        unfinished = next((each.unfinished for each in others), None) or UnfinishedRequests()
        return SaslListener(name, texts, max_idle_ms, make_offers, keys.close, clock, unfinished)
    except ConfigurationError:
        keys.close()
        raise


def _credential(services: Callable[[], Services], mechanism: str, user: str) -> ScramCredential | None:
    """Return a user's credential of the metadata log."""
    record = services().cluster.image.kept.scram_credentials.get((user, NUMBERS[mechanism]))
    return None if record is None else ScramCredential(record.salt, record.iterations, record.stored_key, record.server_key)


def _token(services: Callable[[], Services], mechanism: str, token_id: str) -> ScramToken | None:
    """Return a delegation token that has not expired."""
    tokens = services().tokens
    return None if tokens is None else tokens.login(mechanism, token_id)
