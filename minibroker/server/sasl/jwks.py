"""The keys that verify signed tokens: a JWKS from a file or an HTTP server, read again from time to time.

The first read happens before the listener is opened, as in Apache Kafka: a broker without keys does not start. Later ones run in the
background: every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token names an unknown key, but not more often than once in
EXPEDITED_PAUSE_MS. If a read fails, the keys stay, and it is repeated after a pause that doubles.
The URL comes only from the configuration at start, never from a client or a token (CVE-2025-27817).
"""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Final, NamedTuple
from urllib.error import URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from minibroker.background import Background
from minibroker.clock import Clock, Timer
from minibroker.config.security_properties import ListenerProperties
from minibroker.errors import ConfigurationError
from minibroker.security.signed_tokens import DOCUMENT_MAX, SignedValidator, SigningKey, TokenRules, read_jwks

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 10.0
EXPEDITED_PAUSE_MS: Final = 60_000  #: RefreshingHttpsJwks.MISSING_KEY_ID_CACHE_IN_FLIGHT_MS
SCHEMES: Final = ("http", "https", "file")


class KeyTimes(NamedTuple):
    """When keys are read again, named after Kafka's properties `sasl.oauthbearer.jwks.endpoint.*`."""

    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class KeySource:
    """The keys at one URL."""

    def __init__(self, url: str, times: KeyTimes, clock: Clock, background: Background, read: Callable[[str], bytes] | None = None) -> None:
        """Read the keys.

        Raises:
            ConfigurationError: they cannot be read.
        """
        self._url = url
        self.times = times
        self._clock = clock
        self._background = background
        self._read = read or read_document
        self._failures = 0  #: since the last success
        self._is_reading = False
        self._timer: Timer | None = None
        self._expedited_ms = 0  #: wall time of the last read for an unknown key
        self._is_closed = False
        self.keys: Sequence[SigningKey] = ()
        try:
            self.keys = read_jwks(self._read(url))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"the keys of tokens cannot be read from {shown_url(url)}: {error}") from None
        self._schedule(times.refresh_ms)

    def on_unknown_key(self) -> None:
        """Read the keys soon: a token names a key that is not among them."""
        now_ms = self._clock.now_ms()
        if abs(now_ms - self._expedited_ms) >= EXPEDITED_PAUSE_MS:
            self._expedited_ms = now_ms
            self.refresh()

    def refresh(self) -> None:
        """Read the keys in the background, unless a read is under way."""
        if self._is_reading or self._is_closed:
            return
        self._is_reading = True
        url, read = self._url, self._read
        self._background.submit(lambda: read_jwks(read(url)), self._read_done)

    def close(self) -> None:
        """Read no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _read_done(self, found: list[SigningKey] | BaseException) -> None:
        self._is_reading = False
        if isinstance(found, BaseException):
            self._failures += 1
            pause_ms = min(self.times.retry_backoff_ms * 2 ** min(self._failures - 1, 30), self.times.retry_backoff_max_ms)
            log.warning("could not read the keys of tokens from %s: %s (will retry in %d ms)", shown_url(self._url), found, pause_ms)
            self._schedule(pause_ms)
            return
        self._failures = 0
        self.keys = found
        self._schedule(self.times.refresh_ms)

    def _schedule(self, delay_ms: int) -> None:
        if self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later_ms(max(delay_ms, 1), self.refresh)


def key_times(properties: ListenerProperties) -> KeyTimes:
    """Return a listener's times. Raises InvalidConfig if one of them is invalid."""
    endpoint = "sasl.oauthbearer.jwks.endpoint"
    return KeyTimes(
        properties.integer(f"{endpoint}.refresh.ms"),
        properties.integer(f"{endpoint}.retry.backoff.ms"),
        properties.integer(f"{endpoint}.retry.backoff.max.ms"),
    )


def signed_validator(properties: ListenerProperties, source: KeySource, clock: Clock) -> SignedValidator:
    """Return the validator of signed tokens on a listener. Raises InvalidConfig if a property is invalid."""
    rules = TokenRules(
        properties.items("sasl.oauthbearer.expected.audience"),
        properties.text("sasl.oauthbearer.expected.issuer"),
        properties.text("sasl.oauthbearer.sub.claim.name") or "sub",
        properties.text("sasl.oauthbearer.scope.claim.name") or "scope",
        properties.integer("sasl.oauthbearer.clock.skew.seconds"),
    )
    return SignedValidator(rules, lambda: source.keys, source.on_unknown_key, clock.now_ms)


def read_document(url: str) -> bytes:
    """Return the document at a URL. It blocks for up to TIMEOUT_S.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too long, or the URL is not one of SCHEMES.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            return _bounded(file.read(DOCUMENT_MAX + 1))
    if parts.scheme not in SCHEMES:
        raise ValueError(f"its scheme is not one of {', '.join(SCHEMES)}")
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(urlunsplit(parts._replace(netloc=_address(parts))), timeout=TIMEOUT_S) as response:
            return _bounded(response.read(DOCUMENT_MAX + 1))
    except URLError as error:
        raise OSError(str(error.reason)) from None
    except HTTPException as error:
        raise OSError(f"the server does not speak HTTP ({type(error).__name__})") from None


def shown_url(url: str) -> str:
    """Return a URL for messages: without user, password and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid URL"
    return urlunsplit(parts._replace(netloc=_address(parts), query="", fragment=""))


def _address(parts: SplitResult) -> str:
    """Return host and port. Java's clients also ignore a user and a password in a URL."""
    return parts.netloc.rpartition("@")[2]


def _bounded(document: bytes) -> bytes:
    if len(document) > DOCUMENT_MAX:
        raise ValueError(f"it is longer than {DOCUMENT_MAX} bytes")
    return document


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: keys come only from the configured URL."""

    def redirect_request(self, *_: object) -> None:
        """Return no request, so that the redirect is an error."""
