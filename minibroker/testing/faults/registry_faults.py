"""Faults of the schema registry's HTTP requests.

    {"kind": "error", "status": 503, "subject": "orders-value", "often": {"times": 2}}

    kind         parameters                     what happens
    error        status, error_code, after      the response has this status; the work is not done, or with `after` it is
    delay        ms                             the response comes later, by the broker's clock
    disconnect   when                           the connection is closed in place of a response; the work is not done ("before") or is
    wrong_id     schema_id                      the response to a registration, look-up or version has another id

Scope, all optional: method, subject, and path, in which `*` stands for any text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from minibroker.testing.faults.numbered import NumberedFaults
from minibroker.testing.faults.rule import AFTER, BEFORE, DELAY_MAX_MS, FaultFrequency, one_of, read_rule
from minibroker.testing.options import BrokerError

if TYPE_CHECKING:
    from aiohttp import web

    from minibroker.clock import Clock

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
    Failure = Callable[[int, int, str], web.StreamResponse]

WRONG_ID: Final = (1 << 31) - 1  #: an id that no schema has, unless a test imports it
_PREFIX: Final = "registry-"  #: of ids, which distinguishes them from those of other faults
_METHODS: Final = ("GET", "POST", "PUT", "DELETE")
_PARAMETERS: Final[dict[str, tuple[set[str], set[str]]]] = {
    "error": ({"status"}, {"error_code", "after"}),
    "delay": ({"ms"}, set()),
    "disconnect": (set(), {"when"}),
    "wrong_id": (set(), {"schema_id"}),
}
#: name -> (smallest, largest)
_NUMBERS: Final = {"status": (400, 599), "error_code": (400, 59999), "ms": (0, DELAY_MAX_MS), "schema_id": (0, WRONG_ID)}


@dataclass(frozen=True, slots=True)
class RegistryRule:
    """The rule of a fault, checked by `_rule_of`."""

    kind: str
    status: int | None = None
    error_code: int | None = None
    after: bool = False
    ms: int | None = None
    when: str | None = None
    schema_id: int | None = None
    path: str | None = None
    subject: str | None = None
    method: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Encode the parameters that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False}

    def is_for(self, request: web.Request) -> bool:
        """Whether a request is in the scope of the rule."""
        subject = request.match_info.get("subject", request.query.get("subject"))
        return (
            self.method in {None, request.method}
            and self.subject in {None, subject}
            and (self.path is None or fnmatchcase(request.path, self.path))
        )


def _rule_of(spec: Mapping[str, Any]) -> tuple[RegistryRule, FaultFrequency]:
    """Return the rule and its frequency. Raises BrokerError."""
    parameters, frequency = read_rule(spec, _PARAMETERS, {"path", "subject", "method"})
    for name, value in parameters.items():
        if name in _NUMBERS:
            smallest, largest = _NUMBERS[name]
            if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
                raise BrokerError(f"faults: {name} must be from {smallest} to {largest}, got {value!r}")
        elif name == "after":
            if not isinstance(value, bool):
                raise BrokerError(f"faults: after must be true or false, got {value!r}")
        elif not isinstance(value, str):
            raise BrokerError(f"faults: {name} must be a string, got {value!r}")
    if "when" in parameters:
        one_of("when", parameters["when"], (BEFORE, AFTER))
    if "method" in parameters:
        parameters["method"] = one_of("method", parameters["method"].upper(), _METHODS)
    return RegistryRule(**parameters), frequency


class _Fault:
    """A rule with its counters, and the responses that it delays."""

    def __init__(self, rule: RegistryRule, frequency: FaultFrequency) -> None:
        self.rule = rule
        self.frequency = frequency
        self.waiting: set[asyncio.Event] = set()

    async def wait(self, clock: Clock) -> None:
        """Wait for the delay, or for the end of the fault."""
        over = asyncio.Event()
        self.waiting.add(over)
        timer = clock.call_later_ms(self.rule.ms or 0, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
            self.waiting.discard(over)

    def to_json(self) -> dict[str, Any]:
        """Return the rule and its frequency."""
        return {"api": "registry"} | self.rule.to_json() | {"often": self.frequency.spec}

    def end(self) -> None:
        """Send the responses that wait."""
        for over in self.waiting:
            over.set()


class RegistryFaults(NumberedFaults[_Fault]):
    """The faults of one broker's schema registry."""

    def __init__(self, clock: Callable[[], Clock]) -> None:
        super().__init__(_PREFIX)
        self._clock = clock

    def add(self, rule: Mapping[str, Any]) -> str:
        """Add a rule and return its id. Raises BrokerError if it is invalid."""
        return self.enter(_Fault(*_rule_of(rule)))

    async def serve(self, failure: Failure, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Serve a request with the faults that hit it. Errors and closed connections come first, then delays.

        `failure` returns the response to a status, an error code and a message.
        """
        found = [each for each in self._faults.values() if each.rule.is_for(request)]
        wrong = [each for each in found if each.rule.kind == "wrong_id"]
        hits = [each for each in found if each.rule.kind != "wrong_id" and each.frequency.hits_now()]
        ending = next((each.rule for each in hits if each.rule.kind in {"error", "disconnect"}), None)
        if ending is None:
            response = _with_wrong_id(await handler(request), wrong)
        else:
            if (ending.after or ending.when == AFTER) and request.method != "GET":  # which does nothing, but may send its response itself
                await handler(request)
            status = ending.status or 500
            response = failure(status, ending.error_code or status, "a fault of the test")
        for each in hits:
            if each.rule.kind == "delay":
                await each.wait(self._clock())
        if ending is not None and ending.kind == "disconnect" and request.transport is not None:
            request.transport.abort()
        return response


def _with_wrong_id(response: web.StreamResponse, faults: list[_Fault]) -> web.StreamResponse:
    """Replace the id of a response that has one. Such a response is a call of the faults."""
    body = getattr(response, "body", None)
    if not faults or response.status != 200 or not isinstance(body, bytes) or not body.startswith(b"{"):
        return response
    found = json.loads(body)
    hits = [each for each in faults if each.frequency.hits_now()] if "id" in found else []
    if hits:
        found["id"] = WRONG_ID if hits[0].rule.schema_id is None else hits[0].rule.schema_id
        response.body = json.dumps(found).encode()  # type: ignore[attr-defined]  # of a web.Response
    return response
