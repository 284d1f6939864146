"""The effects of faults of logins: certificates that clients refuse, and a gate that refuses and delays logins and shortens sessions.

A rule for a user applies when the exchange is complete, which is when the user is known. It never
applies to the user of the test kit. A certificate is for every connection: before the handshake no
client has a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from minibroker.clock import Clock
from minibroker.config.security_properties import PREFIX, ListenerProperties
from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.delayed import Answer, Delayed
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.security.certificates import Authority
from minibroker.security.plain import INVALID
from minibroker.security.sasl_session import PLAIN, Offer, SaslFailed, SaslMechanism, SaslSession
from minibroker.security.tls import ListenerTls, tls_of
from minibroker.server.listener import Listener
from minibroker.server.sasl.gate import GatedConnection, Login, SaslGate
from minibroker.server.secured_listener import SecuredListener
from minibroker.testing.access import KIT_USER
from minibroker.testing.certificates import HOSTS, keystore
from minibroker.testing.faults.rule import (
    CERTIFICATE,
    DELAY,
    EXPIRED,
    NOT_YET_VALID,
    REFUSE,
    REVOKE,
    SHORTEN,
    UNKNOWN_CA,
    WRONG_HOST,
    Hits,
    LoginFault,
)
from minibroker.testing.moving_clock import MovingClock
from minibroker.testing.options import BrokerError

_ELSEWHERE: Final = "elsewhere.example"
_DAY: Final = timedelta(days=1)


def watch(hits: Hits, listener: Listener, clock: MovingClock | None) -> None:
    """Apply the faults that `hits` finds to the handshakes and logins of a listener."""
    if isinstance(listener.secured, SecuredListener):
        listener.secured.choose = partial(_choose, hits, listener.name)
    if listener.sasl is not None:
        listener.sasl.make_gate = partial(FaultyGate, hits)
        if clock is not None:
            listener.sasl.elapsed_ms = clock.elapsed_ms


# Certificates


def _choose(hits: Hits, listener_name: str, tls: ListenerTls) -> ListenerTls:
    """Return the TLS of the next connection."""
    hit = next(hits((CERTIFICATE,), None), None)
    return tls if hit is None else hit.tls.get(listener_name, tls)


def faulty_tls(listener: Listener, problem: str, texts: Mapping[str, str], authority: Authority | None) -> ListenerTls:
    """Return the TLS of a listener with a certificate that has a problem.

    Raises:
        BrokerError: the certificate must be signed by the broker's authority, whose key is not known.
    """
    if not isinstance(listener.secured, SecuredListener):
        raise BrokerError(f"faults: listener {listener.name} has no TLS")
    signer = Authority.create() if problem == UNKNOWN_CA else authority or _authority_beside(ListenerProperties(texts, listener.name))
    if signer is None:
        raise BrokerError(
            f"faults: the certificate of listener {listener.name} was not made by minibroker, so no other one can be signed for it: "
            f"use tls=True or 'serve --tls', or the problem {UNKNOWN_CA}"
        )
    now = datetime.now(UTC)
    valid: dict[str, Any] = {}
    if problem == EXPIRED:
        valid = {"valid_from": now - 2 * _DAY, "valid_until": now - _DAY}
    elif problem == NOT_YET_VALID:
        valid = {"valid_from": now + _DAY}
    hosts = [_ELSEWHERE] if problem == WRONG_HOST else _hosts_of(listener.secured.tls.chain[0])
    prefix = f"{PREFIX}{listener.name.lower()}."
    other_texts = {
        name: text
        for name, text in texts.items()
        if not name.removeprefix(prefix).startswith("ssl.keystore.") and name.removeprefix(prefix) != "ssl.key.password"
    }
    own = {f"{prefix}{name}": text for name, text in keystore(signer.issue("broker", hosts, **valid), signer).items()}
    return tls_of(ListenerProperties(other_texts | own, listener.name), listener.security_protocol)


def _authority_beside(properties: ListenerProperties) -> Authority | None:
    """Return the authority in the folder of the key store, where `serve --tls` keeps it."""
    location = properties.text("ssl.keystore.location")
    if location is None or not (Path(location).parent / "ca.key").exists():
        return None
    try:
        return Authority.load(Path(location).parent)
    except (OSError, ValueError) as error:
        raise BrokerError(f"faults: {Path(location).parent}: the certificate authority cannot be read: {error}") from None


def _hosts_of(certificate: bytes) -> list[str]:
    """Return the names and addresses of a certificate."""
    try:
        names = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [*HOSTS]
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


# Logins


class FaultyGate(SaslGate):
    """The gate of a connection whose login faults may hit."""

    def __init__(self, hits: Hits, listener: Login, dispatcher: Dispatcher, connection: GatedConnection) -> None:
        super().__init__(listener, dispatcher, connection)
        self._hits = hits
        self.session_ms: int | None = None  #: the longest session of the login that is being completed; None: as configured
        self._clock = listener.clock
        self._delaying: list[LoginFault] = []  #: those that hit the login that is being completed
        self._session = SaslSession(_Offers(listener.offers, self), listener.clock.now_ms, listener.elapsed_ms)

    def dispatch(self, info: ConnectionInfo, frame: memoryview) -> Answer | Delayed:
        """Serve one request. The answer that completes a login may be late."""
        answer = super().dispatch(info, frame)
        delaying, self._delaying = self._delaying, []
        if not delaying or isinstance(answer, Delayed):
            return answer
        return LateAnswer(self._clock, answer, delaying)

    def completed(self, user: str, mechanism: str) -> None:
        """Apply the faults to a login that would succeed. Raises SaslFailed to refuse it."""
        self.session_ms = None
        if user == KIT_USER:
            return
        for _ in self._hits((REFUSE, REVOKE), user):
            raise SaslFailed("a fault of the test refuses this login", INVALID if mechanism == PLAIN else None)
        self._delaying = [*self._hits((DELAY,), user)]
        self.session_ms = min((fault.rule.ms or 1 for fault in self._hits((SHORTEN,), user)), default=None)


class LateAnswer(Delayed):
    """The answer to a login that comes later."""

    __slots__ = ("_bytes", "_faults", "_timer")

    def __init__(self, clock: Clock, answer: Answer, faults: list[LoginFault]) -> None:
        super().__init__()
        self._bytes = answer
        self._faults = faults
        for fault in faults:
            fault.late[self] = self.send
        self._timer = clock.call_later_ms(sum(fault.rule.ms or 0 for fault in faults), self.send)

    def send(self) -> None:
        """Send the answer. Does nothing if it is done."""
        if self.is_done:
            return
        self.answer = self._bytes
        on_done = self._on_done
        self.finished()
        if on_done is not None:
            on_done()

    def finished(self) -> None:
        """Cancel the timer: there is an answer, or the connection is closed."""
        super().finished()
        self._timer.cancel()
        for fault in self._faults:
            fault.late.pop(self, None)


class _Offers(Mapping[str, Offer]):
    """The mechanisms of a listener, to which the gate applies its faults."""

    def __init__(self, offers: Mapping[str, Offer], gate: FaultyGate) -> None:
        self._offers = offers
        self._gate = gate

    def __getitem__(self, name: str) -> Offer:
        offer = self._offers[name]
        limits = [limit for limit in (offer.max_reauth_ms, self._gate.session_ms) if limit]
        return Offer(partial(_FaultyMechanism, offer.begin, name, self._gate), min(limits, default=0))

    def __iter__(self) -> Iterator[str]:
        return iter(self._offers)

    def __len__(self) -> int:
        return len(self._offers)


class _FaultyMechanism:
    """A mechanism that applies the faults of its gate when it is complete."""

    def __init__(self, begin: Callable[[], SaslMechanism], name: str, gate: FaultyGate) -> None:
        self._inner = begin()
        self._name = name
        self._gate = gate
        self.is_complete = False
        self.principal_name = ""
        self.expires_ms: int | None = None
        self.is_token_authenticated = False

    @property
    def refusal(self) -> str:
        """Why the mechanism refused the client's last message."""
        return self._inner.refusal

    def evaluate(self, token: bytes) -> bytes:
        """Return the answer of the mechanism.

        Raises:
            SaslFailed: the mechanism or a fault refuses the login.
        """
        inner = self._inner
        answer = inner.evaluate(token)
        if inner.is_complete:
            self._gate.completed(inner.principal_name, self._name)
            self.principal_name, self.expires_ms = inner.principal_name, inner.expires_ms
            self.is_token_authenticated = inner.is_token_authenticated
            self.is_complete = True
        return answer
