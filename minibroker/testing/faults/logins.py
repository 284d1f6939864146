"""Faults of TLS handshakes and of SASL logins: the rules of a broker, and which of them hit. login_effects.py applies them.

A broker under test looks for rules at each handshake and login, which are rare, and not at requests
after the login.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from minibroker.testing.faults.numbered import NumberedFaults
from minibroker.testing.faults.rule import CERTIFICATE, REVOKE, LoginFault, login_rule_of
from minibroker.testing.options import BrokerError

if TYPE_CHECKING:
    from minibroker.security.certificates import Authority
    from minibroker.server.listener import Listener
    from minibroker.testing.moving_clock import MovingClock
    from minibroker.testing.simulation.broker import SimulatedBroker

_PREFIX: Final = "login-"  #: of ids, which distinguishes them from those of other faults
_WITH_TLS: Final = ("SSL", "SASL_SSL")


class LoginFaults(NumberedFaults[LoginFault]):
    """The faults of logins of one broker."""

    def __init__(self, broker: Callable[[], SimulatedBroker], authority: Callable[[], Authority | None]) -> None:
        """`authority` returns the authority that signed the broker's certificate, if the test kit made it."""
        super().__init__(_PREFIX)
        self._broker = broker
        self._authority = authority

    def watch(self, listener: Listener, clock: MovingClock | None) -> None:
        """Apply the rules to a listener with TLS or SASL.

        Its sessions end by `clock`, which `advance` moves.
        """
        from minibroker.testing.faults.login_effects import watch  # noqa: PLC0415  most brokers under test have no users

        watch(self.hits, listener, clock)

    def add(self, rule: Mapping[str, Any]) -> str:
        """Add a rule and return its id.

        Raises BrokerError if it is invalid, or the broker has no such listener.
        """
        fault = LoginFault(*login_rule_of(rule))
        kind = fault.rule.kind
        broker = self._broker()
        if kind == CERTIFICATE:
            self._make_certificates(fault, broker)
        elif not any(each.sasl for each in broker.listeners):
            raise BrokerError(f"faults: {kind} needs a listener with logins: start the broker with users=, or by 'serve --sasl'")
        name = self.enter(fault)
        if kind == REVOKE and not fault.rule.keep_connections:
            principal = f"User:{fault.rule.user}"
            for connection in broker.connections:
                if connection.info.principal == principal:
                    connection.abort()
        return name

    def _make_certificates(self, fault: LoginFault, broker: SimulatedBroker) -> None:
        secured = {each.name: each for each in broker.listeners if each.security_protocol in _WITH_TLS}
        if not secured:
            raise BrokerError("faults: certificate needs a listener with TLS: start the broker with tls=True, or by 'serve --tls'")
        from minibroker.testing.faults.login_effects import faulty_tls  # noqa: PLC0415  as above

        for name, listener in secured.items():
            fault.tls[name] = faulty_tls(listener, str(fault.rule.problem), broker.config.security_texts, self._authority())

    def hits(self, kinds: tuple[str, ...], user: str | None) -> Iterator[LoginFault]:
        """Count a login of `user`, or a handshake, for each rule of these kinds; yields those that hit it."""
        for fault in [*self._faults.values()]:
            if fault.rule.kind in kinds and fault.rule.user in {None, user} and fault.frequency.hits_now():
                yield fault
