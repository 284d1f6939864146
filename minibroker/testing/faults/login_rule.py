"""The rule of a fault of logins, read from JSON and checked: BrokerError names what is wrong and what is possible.

{"kind": "refuse_login", "user": "alice", "often": {"times": 2}}

    kind              parameters               what happens
    certificate       problem                  the broker shows a certificate that clients refuse, in TLS handshakes
    refuse_login      user                     a right password is refused as a wrong one is
    revoke            user, keep_connections   as refuse_login, and the user's connections are closed
    delay_login       ms, user                 the answer to the login is late
    shorten_sessions  ms, user                 the session ends after this time, as by connections.max.reauth.ms

A fault without `user` is for all users. `often`: frequency.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from minibroker.testing.faults.frequency import FaultFrequency
from minibroker.testing.faults.rule import DELAY_MAX_MS
from minibroker.testing.options import BrokerError

if TYPE_CHECKING:
    from minibroker.security.tls import ListenerTls

CERTIFICATE: Final = "certificate"
REFUSE: Final = "refuse_login"
REVOKE: Final = "revoke"
DELAY: Final = "delay_login"
SHORTEN: Final = "shorten_sessions"

EXPIRED: Final = "expired"
NOT_YET_VALID: Final = "not_yet_valid"
WRONG_HOST: Final = "wrong_host"
UNKNOWN_CA: Final = "unknown_ca"
PROBLEMS: Final = (EXPIRED, NOT_YET_VALID, WRONG_HOST, UNKNOWN_CA)

#: (kinds, user) -> the faults that hit a login of this user, or a handshake, which are counted
Hits = Callable[[tuple[str, ...], str | None], Iterator["LoginFault"]]

#: kind -> (required parameters, optional ones)
PARAMETERS: Final[dict[str, tuple[set[str], set[str]]]] = {
    CERTIFICATE: ({"problem"}, set()),
    REFUSE: (set(), {"user"}),
    REVOKE: ({"user"}, {"keep_connections"}),
    DELAY: ({"ms"}, {"user"}),
    SHORTEN: ({"ms"}, {"user"}),
}


@dataclass(frozen=True, slots=True)
class LoginRule:
    """One fault, checked by `login_rule_of`."""

    kind: str
    problem: str | None = None  #: of a certificate
    user: str | None = None  #: None: every user
    ms: int | None = None
    keep_connections: bool = False

    def to_json(self) -> dict[str, Any]:
        """The parameters that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False}


class LoginFault:
    """A rule in force."""

    def __init__(self, rule: LoginRule, often: FaultFrequency) -> None:
        self.rule = rule
        self.often = often
        self.tls: dict[str, ListenerTls] = {}  #: what is shown, by listener
        self.late: dict[object, Callable[[], None]] = {}  #: answers that wait, with what sends them

    def end(self) -> None:
        """Send the answers that wait."""
        for send in [*self.late.values()]:
            send()


def login_rule_of(said: Mapping[str, Any]) -> tuple[LoginRule, FaultFrequency]:
    """Return the rule and how often it holds; BrokerError says in one line what is wrong."""
    found = {name: value for name, value in said.items() if value is not None}
    often = found.pop("often", {})
    if not isinstance(often, Mapping):
        raise BrokerError(f"faults: often must be an object, got {often!r}")
    kind = _one_of("kind", found.get("kind"), tuple(PARAMETERS))
    must, may = PARAMETERS[kind]
    for name in found:
        if name not in {"kind", *must, *may}:
            raise BrokerError(f"faults: {kind} has no {name!r}; there are: {', '.join(sorted(must | may))}")
    for name in sorted(must - found.keys()):
        raise BrokerError(f"faults: {kind} needs {name!r}")
    if "problem" in found:
        _one_of("problem", found["problem"], PROBLEMS)
    if "user" in found and not (isinstance(found["user"], str) and found["user"]):
        raise BrokerError(f"faults: user must be a name, got {found['user']!r}")
    if not isinstance(found.get("keep_connections", False), bool):
        raise BrokerError(f"faults: keep_connections must be true or false, got {found['keep_connections']!r}")
    ms = found.get("ms", 1)
    if isinstance(ms, bool) or not isinstance(ms, int | float) or not 1 <= ms <= DELAY_MAX_MS:
        raise BrokerError(f"faults: ms must be from 1 to {DELAY_MAX_MS}, got {ms!r}")
    if "ms" in found:
        found["ms"] = round(ms)
    return LoginRule(**found), FaultFrequency(often)


def _one_of(what: str, value: Any, known: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in known:
        return value
    near = get_close_matches(value, known, 1, 0.5) if isinstance(value, str) else []
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
    raise BrokerError(f"faults: there is no {what} {value!r}: {hint}")
