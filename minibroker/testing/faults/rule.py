"""The rules of faults, read from JSON and checked: BrokerError names what is wrong and what is possible.

A fault of requests:

    {"kind": "error", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": "orders", "partition": 0, "often": {"times": 1}}

    kind         parameters      what happens
    error        error, after    the answer has the error; the work is not done, or with `after` it is
    delay        ms, when        the answer is late ("after", the default), or the work as well ("before")
    throttle     ms              throttle_time_ms in the answer, and nothing is read from the client for that time
    disconnect   when            the connection is closed in place of an answer; the work is not done ("before") or is ("after")
    tear         size            the work is done, `size` bytes of the answer are sent, and the connection is closed
    silence      when            no answer is sent; the connection stays open

Scope, all optional: topic, partition, client_id, group, transactional_id, node.

A fault of logins, for all users unless it names one:

    {"kind": "refuse_login", "user": "alice", "often": {"times": 2}}

    kind              parameters               what happens
    certificate       problem                  the broker shows a certificate that clients refuse, in TLS handshakes
    refuse_login      user                     a right password is refused as a wrong one is
    revoke            user, keep_connections   as refuse_login, and the user's connections are closed
    delay_login       ms, user                 the answer to the login is late
    shorten_sessions  ms, user                 the session ends after this time, as by connections.max.reauth.ms

`often` of either, and of faults of the storage:

    {}                                 every call
    {"times": 3}                       the first three
    {"call": 2}                        the second call alone, counted from 1
    {"probability": 0.1, "seed": 1}    calls at random; the same ones with the same seed
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from minibroker.dispatch import registry
from minibroker.dispatch.partition_split import partitions_below, shape_of
from minibroker.errors import BY_CODE, KafkaError
from minibroker.schemas import k10_find_coordinator
from minibroker.testing.options import BrokerError
from minibroker.wire.api import Api
from minibroker.wire.schema import fields_of

if TYPE_CHECKING:
    from minibroker.security.tls import ListenerTls


_FREQUENCIES: Final = ({"times"}, {"call"}, {"probability"}, {"probability", "seed"}, set[str]())


class FaultFrequency:
    """Counts the calls of a fault and decides which ones are hit."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Read `often`. Raises BrokerError if it has another form."""
        if set(spec) not in _FREQUENCIES:
            raise BrokerError(f"often must have times, call, or probability with seed, or be empty for always, got {dict(spec)}")
        self.spec: Final = dict(spec)
        self.calls = 0  #: counted so far
        self.hits = 0
        self._times = _whole(spec, "times")
        self._call = _whole(spec, "call")
        self._probability = _probability(spec)
        self._random = random.Random(spec.get("seed", 1))  # noqa: S311  repeatable by its seed
        self._lock = threading.Lock()  #: worker threads call the file system as well

    @property
    def is_over(self) -> bool:
        """Whether no further call will be hit."""
        return (self._times is not None and self.hits >= self._times) or (self._call is not None and self.calls >= self._call)

    def hits_now(self) -> bool:
        """Count a call and return whether it is hit."""
        with self._lock:
            is_over = self.is_over
            self.calls += 1
            if is_over or (self._call is not None and self.calls != self._call):
                return False
            if self._probability is not None and self._random.random() >= self._probability:
                return False
            self.hits += 1
            return True


def _whole(spec: Mapping[str, Any], name: str) -> int | None:
    value = spec.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BrokerError(f"{name} must be at least 1, got {value!r}")
    return value


def _probability(spec: Mapping[str, Any]) -> float | None:
    value = spec.get("probability")
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BrokerError(f"probability must be between 0 and 1, got {value!r}")
    if not isinstance(spec.get("seed", 1), int):
        raise BrokerError(f"seed must be an integer, got {spec['seed']!r}")
    return float(value)


BEFORE: Final = "before"
AFTER: Final = "after"
DELAY_MAX_MS: Final = 7 * 24 * 3600 * 1000  #: more is a mistake in the unit

#: kind -> (required parameters, optional ones)
_PARAMETERS: Final[dict[str, tuple[set[str], set[str]]]] = {
    "error": ({"error"}, {"after"}),
    "delay": ({"ms"}, {"when"}),
    "throttle": ({"ms"}, set()),
    "disconnect": (set(), {"when"}),
    "tear": ({"size"}, set()),
    "silence": (set(), {"when"}),
}
_SCOPE: Final = ("topic", "partition", "client_id", "group", "transactional_id", "node")
_NUMBERS: Final = {"partition", "node", "size"}
#: fields of requests that name groups and transactional ids; FindCoordinator has its own
GROUP_FIELDS: Final = ("group_id", "groups", "groups_names", "group_ids")
TRANSACTION_FIELDS: Final = ("transactional_id", "v3_and_below_transactional_id", "transactional_ids", "transactions")
_ERRORS: Final = {error.name: error for error in BY_CODE.values()}


def _given_parameters(rule: FaultRule | LoginRule) -> dict[str, Any]:
    return {name: value for name, value in asdict(rule).items() if value is not None and value is not False}


@dataclass(frozen=True, slots=True)
class FaultRule:
    """The rule of a fault of requests, checked by `rule_of`."""

    kind: str
    api: str  #: Kafka's name: "Produce"
    error: str | None = None  #: Kafka's name: "NOT_LEADER_OR_FOLLOWER"
    ms: int | None = None
    size: int | None = None  #: bytes of the answer, with its length of 4 bytes
    when: str = BEFORE
    after: bool = False
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    node: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Encode the parameters that were given."""
        parameters = _given_parameters(self)
        if "when" not in _PARAMETERS[self.kind][1]:
            del parameters["when"]
        return parameters

    def kafka_error(self) -> KafkaError:
        """Return the error for the answer."""
        if self.error is None:
            raise TypeError(f"a fault of kind {self.kind} has no error")
        return _ERRORS[self.error]()

    def __str__(self) -> str:
        """Describe the fault in a few words, for the request log."""
        match self.kind:
            case "error":
                return f"{self.error}{' after the work' if self.after else ''}"
            case "delay":
                return f"delay of {self.ms} ms"
            case "throttle":
                return f"throttle of {self.ms} ms"
            case "tear":
                return f"answer torn at {self.size} bytes"
            case _:
                return f"{self.kind} {self.when} the work"


def rule_of(spec: Mapping[str, Any]) -> tuple[FaultRule, FaultFrequency]:
    """Return the rule of a fault of requests, and its frequency. Raises BrokerError."""
    parameters, frequency = read_rule(spec, _PARAMETERS, {"api", *_SCOPE})
    kind = parameters["kind"]
    api = _api_of(parameters.get("api"))
    _check_values(kind, parameters)
    _check_scope(api, parameters)
    if "ms" in parameters:
        parameters["ms"] = round(parameters["ms"])
    if kind == "delay":
        parameters.setdefault("when", AFTER)
    return FaultRule(**parameters), frequency


def read_rule(
    spec: Mapping[str, Any], kinds: Mapping[str, tuple[set[str], set[str]]], common: AbstractSet[str] = frozenset()
) -> tuple[dict[str, Any], FaultFrequency]:
    """Return the parameters of a rule, of which only the names are checked, and its frequency.

    `common` are names of optional parameters of all kinds.
    """
    parameters = dict(spec)
    often = parameters.pop("often", {})
    if not isinstance(often, Mapping):
        raise BrokerError(f"faults: often must be an object, got {often!r}")
    kind = one_of("kind", parameters.get("kind"), kinds)
    required, optional = kinds[kind]
    for name in parameters:
        if name not in {"kind", *common, *required, *optional}:
            known = ", ".join(sorted({*common, *required, *optional}))
            raise BrokerError(f"faults: {kind} has no {name!r} (it has: {known})")
    parameters = {name: value for name, value in parameters.items() if value is not None}
    for name in sorted(required - parameters.keys()):
        raise BrokerError(f"faults: {kind} needs {name!r}")
    return parameters, FaultFrequency(often)


def _check_values(kind: str, parameters: Mapping[str, Any]) -> None:
    for name, value in parameters.items():
        if name == "ms":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= DELAY_MAX_MS:
                raise BrokerError(f"faults: ms must be from 0 to {DELAY_MAX_MS}, got {value!r}")
        elif name in _NUMBERS:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise BrokerError(f"faults: {name} must be an integer of at least 0, got {value!r}")
        elif name == "after":
            if not isinstance(value, bool):
                raise BrokerError(f"faults: after must be true or false, got {value!r}")
        elif not isinstance(value, str):
            raise BrokerError(f"faults: {name} must be a string, got {value!r}")
    if kind == "error":
        one_of("error", parameters["error"], _ERRORS)
    if "when" in parameters:
        one_of("when", parameters["when"], (BEFORE, AFTER))


def _check_scope(api: Api, parameters: Mapping[str, Any]) -> None:
    if "partition" in parameters and "topic" not in parameters:
        raise BrokerError("faults: a partition needs its topic")
    if "topic" in parameters and not any(shape_of(api.Request)):
        raise BrokerError(f"faults: {api.name} requests name no topics: leave out topic={parameters['topic']!r}")
    if "partition" in parameters and not partitions_below(api):
        raise BrokerError(f"faults: {api.name} requests name no partitions: leave out partition={parameters['partition']}")
    for name, words, known in (("group", "groups", GROUP_FIELDS), ("transactional_id", "transactional ids", TRANSACTION_FIELDS)):
        names = {field.name for field in fields_of(api.Request)}
        if name in parameters and api.key != k10_find_coordinator.API_KEY and not names & set(known):
            raise BrokerError(f"faults: {api.name} requests name no {words}: leave out {name}={parameters[name]!r}")


def _api_of(name: Any) -> Api:
    apis = {api.name: api for api in registry.load().apis()}
    return apis[one_of("api", name, apis)]


def one_of(what: str, value: Any, known: Iterable[str]) -> str:
    """Return the value if it is known. Raises BrokerError, which names the nearest one."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    near = get_close_matches(value, names, 1, 0.5) if isinstance(value, str) else []
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}" if len(names) < 10 else "use Kafka's name"
    raise BrokerError(f"faults: there is no {what} {value!r}: {hint}")


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
LOGIN_PARAMETERS: Final[dict[str, tuple[set[str], set[str]]]] = {
    CERTIFICATE: ({"problem"}, set()),
    REFUSE: (set(), {"user"}),
    REVOKE: ({"user"}, {"keep_connections"}),
    DELAY: ({"ms"}, {"user"}),
    SHORTEN: ({"ms"}, {"user"}),
}


@dataclass(frozen=True, slots=True)
class LoginRule:
    """The rule of a fault of logins, checked by `login_rule_of`."""

    kind: str
    problem: str | None = None  #: of a certificate
    user: str | None = None  #: None: every user
    ms: int | None = None
    keep_connections: bool = False

    def to_json(self) -> dict[str, Any]:
        """Encode the parameters that were given."""
        return _given_parameters(self)


class LoginFault:
    """A rule of the broker, with its frequency."""

    def __init__(self, rule: LoginRule, frequency: FaultFrequency) -> None:
        self.rule = rule
        self.frequency = frequency
        self.tls: dict[str, ListenerTls] = {}  #: of the faulty certificate, by listener
        self.late: dict[object, Callable[[], None]] = {}  #: functions that send the waiting answers

    def to_json(self) -> dict[str, Any]:
        """Return the rule and its frequency."""
        return self.rule.to_json() | {"often": self.frequency.spec}

    def end(self) -> None:
        """Send the answers that wait."""
        for send in [*self.late.values()]:
            send()


def login_rule_of(spec: Mapping[str, Any]) -> tuple[LoginRule, FaultFrequency]:
    """Return the rule of a fault of logins, and its frequency. Raises BrokerError."""
    parameters, frequency = read_rule(spec, LOGIN_PARAMETERS)
    if "problem" in parameters:
        one_of("problem", parameters["problem"], PROBLEMS)
    if "user" in parameters and not (isinstance(parameters["user"], str) and parameters["user"]):
        raise BrokerError(f"faults: user must be a name, got {parameters['user']!r}")
    if not isinstance(parameters.get("keep_connections", False), bool):
        raise BrokerError(f"faults: keep_connections must be true or false, got {parameters['keep_connections']!r}")
    ms = parameters.get("ms", 1)
    if isinstance(ms, bool) or not isinstance(ms, int | float) or not 1 <= ms <= DELAY_MAX_MS:
        raise BrokerError(f"faults: ms must be from 1 to {DELAY_MAX_MS}, got {ms!r}")
    if "ms" in parameters:
        parameters["ms"] = round(ms)
    return LoginRule(**parameters), frequency
