"""Logins of visitors of a site, where the broker asks its clients for one: the broker's own users of SASL, and their passwords.

A visitor sends a name and a password, or a bearer token of OAUTHBEARER, and has a session under a random token, or under a digest of what
it sent (`of_header`). Users of PLAIN and SCRAM can log in, with the mechanisms that the listeners enable; if no listener has logins, with
SCRAM. A session ends when the credential that it began with is changed or removed, or when the bearer token expires. Failures take
FAILURE_DELAY_S, and after FAILURES_MAX of one address within a minute it has to wait.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.security.sasl_session import OAUTHBEARER, PLAIN, SaslFailed
from minibroker.security.scram import NUMBERS, ScramCredential, UnknownUsers, derive
from minibroker.server.broker import Broker
from minibroker.server.sasl.listener import SaslListener

if TYPE_CHECKING:
    from minibroker.clock import Clock
    from minibroker.security.authorizer import Authorizer

log = logging.getLogger(__name__)

SESSIONS_MAX: Final = 100
SESSION_S: Final = 8 * 3600.0  #: since the last request
FAILURE_DELAY_S: Final = 1.0
FAILURES_MAX: Final = 10  #: of one address within a minute
_ADDRESSES_MAX: Final = 1_000
_CHECKS_MAX: Final = 2  #: passwords that are checked at the same time
_LETTERS_MAX: Final = 256
_HEADER_MAX: Final = 16_384
_MINUTE_S: Final = 60.0


#: Returns whether a credential that a visitor logged in with is still valid.
Proof = Callable[[], bool]


class Session(NamedTuple):
    """A visitor that has logged in."""

    token: str
    name: str
    used_s: float
    proofs: tuple[Proof, ...]

    @property
    def principal(self) -> str:
        """Who the visitor is for the authorizer."""
        return f"User:{self.name}"


class _Login(NamedTuple):
    """Who has logged in, and what must stay true for the session to go on."""

    name: str
    proofs: tuple[Proof, ...]


class Sessions:
    """The sessions of one site. `noun` is what log lines call it."""

    def __init__(self, broker: Callable[[], Broker], noun: str, now_s: Callable[[], float] = time.monotonic) -> None:
        """`broker` returns the running broker, which may exchange its data."""
        self._broker = broker
        self._noun = noun
        self._now_s = now_s
        self._key = secrets.token_bytes(32)  #: of the digests of headers
        self._sessions: OrderedDict[str, Session] = OrderedDict()  #: by token, the least recently used first
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()  #: by address
        self._unknown = UnknownUsers()
        self._checks = asyncio.Semaphore(_CHECKS_MAX)

    @property
    def authorizer(self) -> Authorizer | None:
        """What decides about the rights of visitors."""
        return self._broker().nodes[0].services.authorizer

    @property
    def is_needed(self) -> bool:
        """Whether a visitor has to log in: some listener is secured, or there is an authorizer."""
        services = self._broker().nodes[0].services
        return services.authorizer is not None or any(each.protocol != "PLAINTEXT" for each in services.nodes.own.listeners)

    def find(self, token: str | None) -> Session | None:
        """Return the session of a token, which goes on."""
        session = self.peek(token)
        if session is None:
            return None
        now_s = self._now_s()
        renewed = self._sessions[session.token] = session._replace(used_s=now_s)
        self._sessions.move_to_end(session.token)
        return renewed

    def peek(self, token: str | None) -> Session | None:
        """Return the session of a token without making it last longer, as an open stream must not."""
        session = None if token is None else self._sessions.get(token)
        if session is None:
            return None
        is_old = self._now_s() - session.used_s > SESSION_S
        if is_old or not any(is_valid() for is_valid in session.proofs):
            reason = "it is old" if is_old else "its credential changed"
            log.info("the session of %r in the %s has ended: %s", session.name, self._noun, reason)
            del self._sessions[session.token]
            return None
        return session

    def end(self, token: str | None) -> None:
        """End a session."""
        if token is not None:
            self._sessions.pop(token, None)

    async def begin(self, name: str, password: str, address: str) -> Session | None:
        """Check name and password. Returns None, after a delay, if they do not belong together."""
        return await self._begin(secrets.token_urlsafe(32), partial(self._password, name, password), name, address)

    async def of_header(self, header: str, address: str) -> Session | None:
        """Return the session of an Authorization header, Basic or Bearer. Returns None, after a delay, if it is not accepted."""
        token = hmac.digest(self._key, header.encode(errors="surrogatepass"), "sha256").hex()
        session = self.find(token)
        if session is not None:
            return session
        scheme, _, value = header.partition(" ")
        name, password = _basic(value) if scheme.lower() == "basic" else ("", "")
        is_bearer = scheme.lower() == "bearer" and len(value) <= _HEADER_MAX
        check = partial(self._bearer, value) if is_bearer else partial(self._password, name, password)
        return await self._begin(token, check, "a bearer token" if is_bearer else name, address)

    async def _begin(self, token: str, check: Callable[[], Awaitable[_Login | None]], name: str, address: str) -> Session | None:
        async with self._checks:
            known = self.find(token)  #: another request with the same header was faster
            if known is not None:
                return known
            is_blocked = self._has_failed_often(address)  # also by requests that waited with this one
            login = None if is_blocked else await check()
        if login is None:
            if not is_blocked:
                self._note_failure(address)
                log.info("the %s rejected a login of %r from %s", self._noun, name[:_LETTERS_MAX], address)
            await asyncio.sleep(FAILURE_DELAY_S)
            return None
        session = Session(token, login.name, self._now_s(), login.proofs)
        self._sessions[session.token] = session
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return session

    async def _password(self, name: str, password: str) -> _Login | None:
        if not 0 < len(name) <= _LETTERS_MAX or not 0 < len(password) <= _LETTERS_MAX:
            return None
        proofs = await self._proofs(name, password)
        return _Login(name, proofs) if proofs else None

    async def _bearer(self, token: str) -> _Login | None:
        """Check a token with the validators of the listeners that have OAUTHBEARER."""
        for listener in self._listeners():
            offer = listener.offers.get(OAUTHBEARER)
            if offer is None:
                continue
            mechanism = offer.begin()
            try:
                mechanism.evaluate(b"n,,\x01auth=Bearer " + token.encode(errors="replace") + b"\x01\x01")
            except SaslFailed:
                continue
            if mechanism.is_complete:
                return _Login(mechanism.principal_name, (partial(_is_before, mechanism.expires_ms, listener.clock),))
        return None

    async def _proofs(self, name: str, password: str) -> tuple[Proof, ...]:
        """Check PLAIN and each SCRAM mechanism. An unknown user takes as long as a known one."""
        proofs = [partial(self._is_plain_user, name, password)] if self._is_plain_user(name, password) else []
        for mechanism in NUMBERS:
            known = self._credential(mechanism, name)
            credential = known or self._unknown.credential(mechanism, name)
            derived = await asyncio.to_thread(
                derive, mechanism, password.encode(errors="surrogatepass"), credential.salt, credential.iterations
            )
            if hmac.compare_digest(derived.stored_key, credential.stored_key) and known is not None:
                proofs.append(partial(self._has_credential, mechanism, name, known))
        return tuple(proofs)

    def _has_credential(self, mechanism: str, name: str, credential: ScramCredential) -> bool:
        return self._credential(mechanism, name) == credential

    def _credential(self, mechanism: str, name: str) -> ScramCredential | None:
        """Return a user's credential, if clients can log in with it."""
        listeners = self._listeners()
        if listeners and not any(mechanism in each.offers for each in listeners):
            return None
        record = self._broker().cluster.image.kept.scram_credentials.get((name, NUMBERS[mechanism]))
        return None if record is None else ScramCredential(record.salt, record.iterations, record.stored_key, record.server_key)

    def _listeners(self) -> list[SaslListener]:
        """Return the listeners with logins, with their present mechanisms and users."""
        found = [each.sasl for each in self._broker().listeners if each.sasl is not None]
        for each in found:
            each.follow()
        return found

    def _is_plain_user(self, name: str, password: str) -> bool:
        is_valid = False
        for listener in self._listeners():
            offer = listener.offers.get(PLAIN)
            if offer is not None and "\0" not in name + password:
                try:
                    offer.begin().evaluate(f"\0{name}\0{password}".encode(errors="surrogatepass"))
                    is_valid = True
                except SaslFailed:
                    continue
        return is_valid

    def _has_failed_often(self, address: str) -> bool:
        failures = self._failures.get(address)
        while failures and self._now_s() - failures[0] > _MINUTE_S:
            failures.popleft()
        return failures is not None and len(failures) >= FAILURES_MAX

    def _note_failure(self, address: str) -> None:
        failures = self._failures.setdefault(address, deque(maxlen=FAILURES_MAX))
        failures.append(self._now_s())
        self._failures.move_to_end(address)
        if len(self._failures) > _ADDRESSES_MAX:
            self._failures.popitem(last=False)


def _is_before(end_ms: int | None, clock: Clock) -> bool:
    return end_ms is None or clock.now_ms() < end_ms


def _basic(value: str) -> tuple[str, str]:
    """Return name and password of HTTP Basic; empty ones if it is malformed."""
    try:
        name, _, password = base64.b64decode(value[:_HEADER_MAX], validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return name, password
