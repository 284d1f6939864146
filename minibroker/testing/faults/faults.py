"""The fault rules of one broker and the handlers that they wrap.

Everything runs on the loop's thread, with JSON in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, Final

from minibroker.dispatch import registry
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.middleware import wrapped
from minibroker.dispatch.registry import Handler, Registry
from minibroker.errors import WireError
from minibroker.testing.faults.effects import Effects, Silent, is_for
from minibroker.testing.faults.rule import FaultFrequency, FaultRule, rule_of
from minibroker.testing.options import BrokerError

_PARKING: Final = frozenset({"Fetch", "ShareFetch"})  #: requests that wait for records


class _Fault:
    """A rule of the broker, with its counters."""

    def __init__(self, rule: FaultRule, frequency: FaultFrequency) -> None:
        self.rule = rule
        self.frequency = frequency
        self.silent: list[Silent] = []  #: its unanswered requests; each removes itself
        self._is_over = False

    def be_silent(self) -> Silent:
        """Leave a request without an answer. Raises WireError if the fault ended while it waited."""
        if self._is_over:
            raise WireError("fault: the silence is over")
        silent = Silent(self._remove)
        self.silent.append(silent)
        return silent

    def _remove(self, silent: Silent) -> None:
        if silent in self.silent:
            self.silent.remove(silent)

    def end(self) -> None:
        """End the fault: close the connections that it keeps silent."""
        self._is_over = True
        for silent in list(self.silent):
            silent.end()


class RequestFaults:
    """Faults of requests.

    Args:
        on_change: called when handlers change, so that dispatchers look them up again.
        on_hit: called with the request's context for each rule that hits it, before it is served.
        answer_parked: called for a new rule of Fetch or ShareFetch. It answers the waiting requests, so that the rule applies to the
            next ones.
    """

    def __init__(
        self,
        on_change: Callable[[], None],
        on_hit: Callable[[RequestContext, FaultRule], None],
        answer_parked: Callable[[], None],
    ) -> None:
        self._on_change = on_change
        self._on_hit = on_hit
        self._answer_parked = answer_parked
        self._faults: dict[int, _Fault] = {}
        self._numbers = count(1)
        self._handlers: dict[str, tuple[Handler, Handler]] = {}  #: API -> (served handler, the one that rules wrap)
        self.load: Callable[[], Registry] = registry.load  #: loads the handlers of the broker
        self._inner = registry.load()  #: handlers that rules wrap

    def make_registry(self) -> Registry:
        """Create the registry of a broker: its own handlers, until a rule wraps one."""
        self._inner = self.load()
        return wrapped(self._inner, self._own)

    def _own(self, handler: Handler) -> Handler:
        inner = self._inner.get(handler.api.key) or handler
        own = handler.around(inner.handle)
        self._handlers[handler.api.name] = own, inner
        self._wrap(handler.api.name)
        return own

    def serve_with(self, inner: Registry) -> None:
        """Use `inner`, which wraps the broker's own handlers, until the next `make_registry`."""
        self._inner = inner
        for name, (own, before) in [*self._handlers.items()]:  # the others are wrapped at their first request
            handler = inner.get(own.api.key) or before
            self._handlers[name] = own, handler
            own.handle = handler.handle if own.handle is before.handle else partial(self._serve, handler)
        self._on_change()

    def inject(self, rule: Mapping[str, Any]) -> int:
        """Add a rule and return its number. Raises BrokerError if it is invalid."""
        checked, frequency = rule_of(rule)
        number = next(self._numbers)
        self._faults[number] = _Fault(checked, frequency)
        self._wrap_all({checked.api})
        if checked.api in _PARKING:
            self._answer_parked()
        return number

    def list(self) -> list[dict[str, Any]]:
        """Return all rules with `id`, `calls` and `hits`, also those that are over."""
        return [
            fault.rule.to_json() | {"often": fault.frequency.spec, "id": number} | _state(fault) for number, fault in self._faults.items()
        ]

    def state(self, id: int) -> dict[str, Any]:  # noqa: A002  JSON's name
        """Return `calls` and `hits` of a rule."""
        if id not in self._faults:
            raise BrokerError(f"faults: there is no fault {id}: it was removed, or ended with a reset")
        return _state(self._faults[id])

    def remove(self, id: int) -> None:  # noqa: A002  as above
        """Remove a rule and close the connections that it keeps silent.

        Does nothing if there is none.
        """
        fault = self._faults.pop(id, None)
        if fault is not None:
            fault.end()
            self._wrap_all({fault.rule.api})

    def clear(self) -> None:
        """Remove all rules."""
        faults, self._faults = self._faults, {}
        for fault in faults.values():
            fault.end()
        self._wrap_all({fault.rule.api for fault in faults.values()})

    def end_silences(self) -> None:
        """Close the connections that rules keep silent: the broker stops."""
        for fault in self._faults.values():
            fault.end()

    def _wrap_all(self, apis: set[str]) -> None:
        changed = [api for api in apis if self._wrap(api)]
        if changed:
            self._on_change()

    def _wrap(self, api: str) -> bool:
        """Wrap the handler of an API while there is a rule for it. Returns whether the handler changed.

        A rule counts whole requests, so that a wrapped handler does not work in pieces.
        """
        if api not in self._handlers:
            return False
        own, inner = self._handlers[api]
        is_plain = not any(fault.rule.api == api for fault in self._faults.values())
        was_plain = own.handle is inner.handle
        if is_plain != was_plain:
            own.handle = inner.handle if is_plain else partial(self._serve, inner)
            own.pieces = inner.pieces if is_plain else ()
        return is_plain != was_plain

    def _serve(self, handler: Handler, ctx: RequestContext, request: Any) -> Any:
        hits: list[_Fault] = []
        for fault in self._faults.values():
            if fault.rule.api == handler.api.name and is_for(fault.rule, ctx, request) and fault.frequency.hits_now():
                hits.append(fault)
                self._on_hit(ctx, fault.rule)
        if not hits:
            return handler.handle(ctx, request)
        silencing = next((fault for fault in hits if fault.rule.kind == "silence"), hits[0])
        return Effects([fault.rule for fault in hits], silencing.be_silent).serve(handler, ctx, request)


def _state(fault: _Fault) -> dict[str, Any]:
    return {"calls": fault.frequency.calls, "hits": fault.frequency.hits}
