"""The rule of a fault, read from JSON and checked: BrokerError names what is wrong and what is possible.

{"kind": "error", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": "orders", "partition": 0, "often": {"times": 1}}

    kind         parameters      what happens
    error        error, after    the answer has the error; the work is not done, or with `after` it is
    delay        ms, when        the answer is late ("after", the default), or the work as well ("before")
    throttle     ms              throttle_time_ms in the answer, and nothing is read from the client for that time
    disconnect   when            the connection is closed in place of an answer; the work is not done ("before") or is ("after")
    tear         size            the work is done, `size` bytes of the answer are sent, and the connection is closed
    silence      when            no answer is sent; the connection stays open

Scope, all optional: topic, partition, client_id, group, transactional_id, node. `often`: frequency.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final

from minibroker.dispatch import registry
from minibroker.dispatch.partition_split import partitions_below, shape_of
from minibroker.errors import BY_CODE, KafkaError
from minibroker.schemas import k10_find_coordinator
from minibroker.testing.faults.frequency import FaultFrequency
from minibroker.testing.options import BrokerError
from minibroker.wire.api import Api
from minibroker.wire.schema import fields_of

BEFORE: Final = "before"
AFTER: Final = "after"
DELAY_MAX_MS: Final = 7 * 24 * 3600 * 1000  #: more is a mistake in the unit

#: kind -> (required parameters, optional ones)
_MORE: Final[dict[str, tuple[set[str], set[str]]]] = {
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


@dataclass(frozen=True, slots=True)
class FaultRule:
    """One fault, checked by `rule_of`."""

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
        """The parameters that were given."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        if "when" not in _MORE[self.kind][1]:
            del said["when"]
        return {name: value for name, value in said.items() if value is not None and value is not False}

    def kafka_error(self) -> KafkaError:
        """The error to answer with."""
        if self.error is None:
            raise TypeError(f"a fault of kind {self.kind} has no error")
        return _ERRORS[self.error]()

    def __str__(self) -> str:
        """A few words for the request log."""
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


def rule_of(said: Mapping[str, Any]) -> tuple[FaultRule, FaultFrequency]:
    """Return the rule and how often it holds; BrokerError says in one line what is wrong."""
    found = dict(said)
    often = found.pop("often", {})
    if not isinstance(often, Mapping):
        raise BrokerError(f"faults: often must be an object, got {often!r}")
    kind = _one_of("kind", found.get("kind"), _MORE)
    must, may = _MORE[kind]
    known = {"kind", "api", *_SCOPE, *must, *may}
    for name, value in list(found.items()):
        if name not in known:
            raise BrokerError(f"faults: {kind} has no {name!r}; there are: {', '.join(sorted(known))}")
        if value is None:
            del found[name]
    for name in sorted(must - found.keys()):
        raise BrokerError(f"faults: {kind} needs {name!r}")
    api = _api_of(found.get("api"))
    _check_values(kind, found)
    _check_scope(api, found)
    if "ms" in found:
        found["ms"] = round(found["ms"])
    if kind == "delay":
        found.setdefault("when", AFTER)
    return FaultRule(**found), FaultFrequency(often)


def _check_values(kind: str, found: Mapping[str, Any]) -> None:
    for name, value in found.items():
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
        _one_of("error", found["error"], _ERRORS)
    if "when" in found:
        _one_of("when", found["when"], (BEFORE, AFTER))


def _check_scope(api: Api, found: Mapping[str, Any]) -> None:
    if "partition" in found and "topic" not in found:
        raise BrokerError("faults: a partition needs its topic")
    if "topic" in found and not any(shape_of(api.Request)):
        raise BrokerError(f"faults: {api.name} names no topics: leave topic={found['topic']!r} out")
    if "partition" in found and not partitions_below(api):
        raise BrokerError(f"faults: {api.name} names no partitions: leave partition={found['partition']} out")
    for name, words, known in (("group", "groups", GROUP_FIELDS), ("transactional_id", "transactional ids", TRANSACTION_FIELDS)):
        names = {field.name for field in fields_of(api.Request)}
        if name in found and api.key != k10_find_coordinator.API_KEY and not names & set(known):
            raise BrokerError(f"faults: {api.name} names no {words}: leave {name}={found[name]!r} out")


def _api_of(name: Any) -> Api:
    apis = {api.name: api for api in registry.load().apis()}
    return apis[_one_of("api", name, apis)]


def _one_of(what: str, value: Any, known: Iterable[str]) -> str:
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    near = get_close_matches(value, names, 1, 0.5) if isinstance(value, str) else []
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}" if len(names) < 10 else "use Kafka's name"
    raise BrokerError(f"faults: there is no {what} {value!r}: {hint}")
