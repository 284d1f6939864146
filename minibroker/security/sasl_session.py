"""The login on a connection of a SASL listener: the state machine of Kafka's SaslServerAuthenticator, without bytes.

    VERSIONS_OR_HANDSHAKE  one ApiVersions, then
    HANDSHAKE              SaslHandshake: v0 -> BARE_TOKENS, v1 -> TOKENS
    TOKENS                 SaslAuthenticate until the mechanism is complete
    BARE_TOKENS            tokens without headers, answered without headers
    OTHER_MECHANISM        a re-authentication with another mechanism: the next request fails
    COMPLETE               every request; SaslHandshake may start a re-authentication (KIP-368)
    FAILED                 nothing

A session that ends (`connections.max.reauth.ms`, or the expiry of a token) does nothing by itself: the next request is refused.

The server sides of mechanisms (RFC 4422) are in `plain.py`, `scram.py` and `oauthbearer.py`. A mechanism does no IO and keeps no secret
longer than the exchange needs it:

    evaluate(token) -> challenge, until `is_complete`; then `principal_name` is the name of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from minibroker.errors import KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanism

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)  #: that minibroker serves

OTHER_AUTHORIZATION_ID: Final = "Authentication failed: Client requested an authorization id that is different from username"


class SaslFailed(Exception):  # noqa: N818  named for what happened
    """The client may not log in. The text is for the log; it contains no secret and no text of the client."""

    def __init__(self, reason: str, client_message: str | None = None) -> None:
        """Without a message for the client, the client gets Kafka's general one, which says only that it failed."""
        super().__init__(reason)
        self.client_message = client_message


class SaslMechanism(Protocol):
    """The server side of one exchange."""

    is_complete: bool  #: the client is authenticated
    principal_name: str  #: of the client; only when complete
    expires_ms: int | None  #: when its credential expires, in milliseconds since the epoch; None: never
    is_token_authenticated: bool  #: whether it used a delegation token

    @property
    def refusal(self) -> str:
        """Why the client's last message was refused, if the client does not know it yet; else empty."""

    def evaluate(self, token: bytes) -> bytes:
        """Return the answer to a token of the client.

        Raises:
            SaslFailed: the client may not log in; the exchange is over.
        """


_REAUTHENTICATION_PAUSE_MS: Final = 1000  #: KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS
_SHOWN_LETTERS: Final = 100  #: of a client's text in the log


class State(Enum):
    """What the client may send next."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    BARE_TOKENS = auto()
    OTHER_MECHANISM = auto()
    COMPLETE = auto()
    FAILED = auto()


class LoginFailed(Exception):  # noqa: N818  named for what happened
    """The connection must be closed. The text is for the log and contains no secret."""

    def __init__(self, reason: str, error: KafkaError | None = None) -> None:
        """`error` is the answer to the request; None: close without an answer."""
        super().__init__(reason)
        self.error = error


class Offer(NamedTuple):
    """A mechanism that a listener enables."""

    begin: Callable[[], SaslMechanism]
    max_reauth_ms: int  #: connections.max.reauth.ms; 0: sessions do not end


class Progress(NamedTuple):
    """The result of a token."""

    token: bytes  #: for the client
    session_lifetime_ms: int = 0  #: when complete; 0: it does not end


class SaslSession:
    """One connection."""

    def __init__(self, offers: Mapping[str, Offer], now_ms: Callable[[], int], elapsed_ms: Callable[[], float]) -> None:
        """Create the session of a client that has not logged in.

        Args:
            offers: the mechanisms that the listener enables, by name.
            now_ms: the wall clock, which expiry times of tokens refer to.
            elapsed_ms: a clock that never jumps, for the end of sessions.
        """
        self.state = State.VERSIONS_OR_HANDSHAKE
        self._offers = offers
        self._now_ms = now_ms
        self._elapsed_ms = elapsed_ms
        self._mechanism: SaslMechanism | None = None  #: of the exchange that goes on
        self._mechanism_name = ""
        self.principal_name: str | None = None  #: of the client, once it has logged in
        self.is_token_authenticated = False
        self._ends_at: float | None = None  #: elapsed time at which the session ends
        self._began_again_at: float | None = None  #: elapsed time of the last re-authentication

    @property
    def refusal(self) -> str:
        """Why the login fails, if the client has not acknowledged it yet; else empty."""
        return "" if self._mechanism is None else self._mechanism.refusal

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms in the answer to SaslHandshake."""
        return list(self._offers)

    @property
    def verb(self) -> str:
        """Name what the client is doing, as Kafka's messages do."""
        return "authentication" if self.principal_name is None else "re-authentication"

    @property
    def may_end(self) -> bool:
        """Whether the session of a client that has logged in ends by itself."""
        return self._ends_at is not None

    @property
    def has_ended(self) -> bool:
        """Whether the session is over, so that no request but SaslHandshake is served."""
        return self._ends_at is not None and self._elapsed_ms() >= self._ends_at

    def start_again(self) -> bool:
        """Start a re-authentication, for a SaslHandshake on a session. Returns False if the session does not end, or it is too early."""
        now = self._elapsed_ms()
        if self._ends_at is None:
            return False
        if self._began_again_at is not None and now - self._began_again_at < _REAUTHENTICATION_PAUSE_MS:
            return False
        self._began_again_at = now
        self.state = State.HANDSHAKE
        return True

    def versions_answered(self) -> None:
        """Take note that ApiVersions was answered without an error."""
        self.state = State.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> None:
        """Choose a mechanism.

        Raises:
            LoginFailed: the listener does not enable it.
        """
        offer = self._offers.get(mechanism)
        if offer is None:
            self.state = State.FAILED
            # Apache Kafka answers this only to clients that have not logged in.
            error = UnsupportedSaslMechanism() if self.principal_name is None else None
            raise LoginFailed(f"Unsupported SASL mechanism {mechanism[:_SHOWN_LETTERS]!a}", error)
        if self.principal_name is not None and mechanism != self._mechanism_name:
            self.state = State.OTHER_MECHANISM
            return
        self._mechanism_name = mechanism
        self._mechanism = offer.begin()
        self.state = State.TOKENS if version >= 1 else State.BARE_TOKENS

    def authenticate(self, token: bytes) -> Progress:
        """Pass a token to the mechanism.

        Raises:
            LoginFailed: the client may not log in.
        """
        mechanism = self._mechanism
        if self.state is State.OTHER_MECHANISM or mechanism is None:
            self.state = State.FAILED
            raise LoginFailed(f"a re-authentication with another SASL mechanism than {self._mechanism_name}")
        try:
            answer = mechanism.evaluate(token)
            if not mechanism.is_complete:
                return Progress(answer)
            self._mechanism = None
            return Progress(answer, self._log_in(mechanism))
        except SaslFailed as failure:
            self.state = State.FAILED
            self._mechanism = None
            general = f"Authentication failed during {self.verb} due to invalid credentials with SASL mechanism {self._mechanism_name}"
            message = general if failure.client_message is None else failure.client_message
            reason = f"{general}: {failure}" if failure.client_message is None else str(failure)
            raise LoginFailed(reason, SaslAuthenticationFailed(message)) from None

    def _log_in(self, mechanism: SaslMechanism) -> int:
        """Set the principal of the client. Returns the lifetime of its session."""
        name = mechanism.principal_name
        if self.principal_name not in (None, name):
            message = f"Cannot change principals during re-authentication from User.{self.principal_name}: User.{name}"
            raise SaslFailed("another principal than before re-authentication", message)
        self.principal_name = name
        self.is_token_authenticated = mechanism.is_token_authenticated
        lifetime_ms = self._lifetime_ms(mechanism.expires_ms, self._offers[self._mechanism_name].max_reauth_ms)
        self._ends_at = None if lifetime_ms is None else self._elapsed_ms() + lifetime_ms
        self.state = State.COMPLETE
        return lifetime_ms or 0

    def _lifetime_ms(self, expires_ms: int | None, max_reauth_ms: int) -> int | None:
        limits = [] if expires_ms is None else [expires_ms - self._now_ms()]
        if max_reauth_ms > 0:
            limits.append(max_reauth_ms)
        return max(min(limits), 0) if limits else None
