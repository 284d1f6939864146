"""Logins of visitors, where the broker asks its clients for one: the broker's own users of SASL, and their passwords.

A visitor sends a name and a password once, and gets a random token in a cookie. Users of PLAIN and SCRAM can log in, with the mechanisms
that the listeners enable; if no listener has logins, with SCRAM. A session ends when the credential that it began with is changed or
removed. Failures take FAILURE_DELAY_S, and after FAILURES_MAX of one address within a minute it has to wait.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from minibroker.console.host import Host
from minibroker.security.sasl_session import PLAIN, SaslFailed
from minibroker.security.scram import NUMBERS, ScramCredential, UnknownUsers, derive
from minibroker.server.sasl.listener import SaslListener

log = logging.getLogger(__name__)

SESSIONS_MAX: Final = 100
SESSION_S: Final = 8 * 3600.0  #: since the last request
FAILURE_DELAY_S: Final = 1.0
FAILURES_MAX: Final = 10  #: of one address within a minute
_ADDRESSES_MAX: Final = 1_000
_CHECKS_MAX: Final = 2  #: passwords that are checked at the same time
_LETTERS_MAX: Final = 256
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


class Sessions:
    """The sessions of one console."""

    def __init__(self, host: Host, now_s: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._now_s = now_s
        self._sessions: OrderedDict[str, Session] = OrderedDict()  #: by token, the least recently used first
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()  #: by address
        self._unknown = UnknownUsers()
        self._checks = asyncio.Semaphore(_CHECKS_MAX)

    @property
    def is_needed(self) -> bool:
        """Whether a visitor has to log in: some listener is secured, or there is an authorizer."""
        services = self._host.services
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
            log.info("the session of %r in the console has ended: %s", session.name, "it is old" if is_old else "its credential changed")
            del self._sessions[session.token]
            return None
        return session

    def end(self, token: str | None) -> None:
        """End a session."""
        if token is not None:
            self._sessions.pop(token, None)

    async def begin(self, name: str, password: str, address: str) -> Session | None:
        """Check name and password. Returns None, after a delay, if they do not belong together."""
        if self._has_failed_often(address):
            await asyncio.sleep(FAILURE_DELAY_S)
            return None
        proofs: tuple[Proof, ...] = ()
        if 0 < len(name) <= _LETTERS_MAX and 0 < len(password) <= _LETTERS_MAX:
            async with self._checks:
                proofs = await self._proofs(name, password)
        if not proofs:
            self._note_failure(address)
            log.info("the console refused a login of %r at %s", name[:_LETTERS_MAX], address)
            await asyncio.sleep(FAILURE_DELAY_S)
            return None
        session = Session(secrets.token_urlsafe(32), name, self._now_s(), proofs)
        self._sessions[session.token] = session
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return session

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
        record = self._host.cluster.image.kept.scram_credentials.get((name, NUMBERS[mechanism]))
        return None if record is None else ScramCredential(record.salt, record.iterations, record.stored_key, record.server_key)

    def _listeners(self) -> list[SaslListener]:
        """Return the listeners with logins, with their present mechanisms and users."""
        found = [each.sasl for each in self._host.broker.listeners if each.sasl is not None]
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
