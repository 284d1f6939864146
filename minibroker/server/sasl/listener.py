"""What the connections of one SASL listener share: mechanisms, users, limits of a login, and the log of failures."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, cast

from minibroker.clock import Clock
from minibroker.config.security_properties import ListenerProperties
from minibroker.dispatch.context import Services
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.errors import ConfigurationError, InvalidConfig
from minibroker.security.sasl_session import Offer
from minibroker.security.scram import NUMBERS, ScramCredential, ScramToken, UnknownUsers
from minibroker.server.sasl.gate import GatedConnection, Login, SaslGate
from minibroker.server.sasl.mechanisms import Accounts, TokenKeys, offers_of

log = logging.getLogger(__name__)

LINES_PER_SECOND: Final = 100  #: failures that are logged; the others are counted


class SaslListener:
    """The settings of a listener that its connections use before the login."""

    def __init__(  # noqa: PLR0917  `sasl_listener` puts them together
        self,
        name: str,
        texts: Callable[[], Mapping[str, str]],
        max_idle_ms: int,
        make_offers: Callable[[ListenerProperties], Mapping[str, Offer]],
        close: Callable[[], None],
        clock: Clock,
        elapsed_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
    ) -> None:
        """Read the properties of a listener.

        Args:
            name: of the listener.
            texts: the present properties by full name (`BrokerConfig.security_texts`); some change while the broker runs.
            max_idle_ms: connections.max.idle.ms.
            make_offers: makes its mechanisms, by name.
            close: releases what the mechanisms use.
            clock: for delays and the expiry of tokens.
            elapsed_ms: a clock that never jumps, for the end of sessions.

        Raises:
            ConfigurationError: a property is missing or invalid.
        """
        self._name = name
        self._texts = texts
        self._make_offers = make_offers
        self.make_gate: Callable[[Login, Dispatcher, GatedConnection], SaslGate] = SaslGate  #: of a connection; the test kit replaces it
        self.close = close  #: releases what the mechanisms use; logins go on as they are
        self.clock = clock
        self.elapsed_ms = elapsed_ms
        self._read_texts = texts()
        properties = ListenerProperties(self._read_texts, name)
        try:
            self.max_receive_size = properties.integer("sasl.server.max.receive.size")
            self.failure_delay_ms = properties.integer("connection.failed.authentication.delay.ms")
        except InvalidConfig as error:
            raise ConfigurationError(str(error)) from None
        if 0 <= max_idle_ms <= self.failure_delay_ms:
            prop = properties.name_to_set("connection.failed.authentication.delay.ms")
            raise ConfigurationError(f"{prop}={self.failure_delay_ms} should be less than connections.max.idle.ms={max_idle_ms}")
        self.offers = make_offers(properties)  #: the mechanisms that new connections may use
        self._second = 0  #: of the last failure
        self._lines = 0  #: failures in that second
        self._left_out = 0  #: of these, the ones without a line

    def gate(self, dispatcher: object, connection: GatedConnection) -> SaslGate:
        """Return what serves a new connection until its client has logged in, with the present mechanisms and users."""
        self.follow()
        return self.make_gate(self, cast("Dispatcher", dispatcher), connection)  # tests have other objects

    def follow(self) -> None:
        """Use changed properties. If they are invalid, the listener stays as it is."""
        texts = self._texts()
        if texts == self._read_texts:
            return
        self._read_texts = texts
        try:
            self.offers = self._make_offers(ListenerProperties(texts, self._name))
        except ConfigurationError as error:
            log.error("listener %s keeps its SASL mechanisms: %s", self._name, error)  # noqa: TRY400  the message is the whole problem

    def login_failed(self, host: str, channel: str, reason: str, *, is_again: bool) -> None:
        """Log a failure as Apache Kafka does (Selector), unless there were too many in this second."""
        second = int(self.elapsed_ms()) // 1000
        if second != self._second:
            if self._left_out:
                log.info("did not log %d more failed logins", self._left_out)
            self._second, self._lines, self._left_out = second, 0, 0
        self._lines += 1
        if self._lines > LINES_PER_SECOND:
            self._left_out += 1
            return
        log.info("Failed %sauthentication with /%s (channelId=%s) (%s)", "re-" if is_again else "", host, channel, reason)

    def sessions_ended(self, channel: str) -> None:
        """Log that a client sent a request after the end of its session."""
        log.info("the session of %s has ended: its client sent a request without authenticating again", channel)


def sasl_listener(name: str, services: Callable[[], Services], clock: Clock) -> SaslListener:
    """Create a SASL listener of a broker: its properties, and the users and delegation tokens of the metadata log.

    Args:
        name: of the listener.
        services: called at each use, because a broker may exchange its data.
        clock: for delays and the expiry of tokens.

    Raises:
        ConfigurationError: a property is missing or invalid.
    """
    config = services().config
    accounts = Accounts(partial(_credential, services), partial(_token, services))
    keys = TokenKeys(clock, services().background)
    make_offers = partial(offers_of, accounts=accounts, keys=keys, unknown=UnknownUsers())
    try:
        texts, max_idle_ms = (lambda: services().config.security_texts), config.connections_max_idle_ms
        return SaslListener(name, texts, max_idle_ms, make_offers, keys.close, clock)
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
