"""Requests too large to be decoded and served in one turn of the loop: in slices, in pieces, and within a budget of memory.

    frame up to Plan.at_once      served as any other: these never come here
    up to 64 KB (SLICED_FROM)     decoded at once; served in pieces where the handler says how (dispatch/pieces.py)
    above that                    decoded in slices and within the budget, then as before

`minibroker.request.memory.bytes` bounds what the values of a request and the encoded answers to its pieces take together. A request above
it is refused by closing its connection, with one line in the log: no API has an error that a client would not answer by asking again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from minibroker.config.request_limits import REPEATED_MAX
from minibroker.dispatch.delayed import NO_RESPONSE, Delayed, MakeResponse
from minibroker.dispatch.pieces import MergedResponse, Pieces
from minibroker.dispatch.slices import Steps
from minibroker.errors import InvalidRequest, KafkaError, PolicyViolation, WireError
from minibroker.wire.weight import OverBudgetError

if TYPE_CHECKING:
    from minibroker.dispatch.context import RequestContext
    from minibroker.dispatch.plan import Plan

MEMORY: Final = "minibroker.request.memory.bytes"

Decoding = Generator[None, None, tuple[Any, int]]  #: the request, and what is left of the budget
Respond = Callable[[Any, Callable[[], Any]], Any]  #: (request, work) -> what `work` gives; errors as responses, WireError alone is raised


class LargeRequest:
    """One request of a plan; `respond` is the dispatcher's."""

    __slots__ = ("_ctx", "_plan", "_respond")

    def __init__(self, plan: Plan, ctx: RequestContext, respond: Respond) -> None:
        self._plan = plan
        self._ctx = ctx
        self._respond = respond

    def decode(self, frame: memoryview, position: int) -> Decoding:
        """Decode in slices.

        Raises:
            WireError: the bytes are not a request of this version, or hold more values than the budget allows.
        """
        try:
            return (yield from self._plan.decode_in_slices(frame, position, self._ctx.broker.config.minibroker_request_memory_bytes))
        except OverBudgetError:
            self._refuse("values")

    def finish_decoding(self, decoding: Decoding) -> Steps:
        """Decode the rest, then serve the request."""
        request, budget = yield from decoding
        refusal = None if self._plan.limit is None else self._plan.limit.refusal(request)
        if refusal is not None:
            return self._respond(request, partial(_raise, refusal))
        if self._plan.pieces is None or self._plan.pieces.is_one(request):
            return (yield from self._response(request))
        return (yield from self.serve_in_pieces(self._plan.pieces, request, budget))

    def work(self, request: Any, budget: int) -> MakeResponse | None:
        """Return what answers a request that was decoded at once; None if its handler does so as usual."""
        plan = self._plan
        refusal = None if plan.limit is None else plan.limit.refusal(request)
        if refusal is not None:
            return partial(_raise, refusal)
        if plan.pieces is None or plan.pieces.is_one(request):
            return None
        return partial(self._ctx.broker.slices.run, self.serve_in_pieces(plan.pieces, request, budget))

    def serve_in_pieces(self, pieces: Pieces, request: Any, budget: int) -> Steps:
        """Serve one piece after another. Returns one response, whose encoded parts take `budget` bytes at most."""
        ctx, plan = self._ctx, self._plan
        merged: MergedResponse | None = None
        throttle_ms = 0
        refusal = _refusal(pieces, ctx, request)
        for piece in pieces.cut(ctx, request):
            yield None
            if piece is None:
                continue
            if piece.is_refused:
                repeated = InvalidRequest(f"More than {REPEATED_MAX} elements name the same thing.")
                response = self._respond(piece.request, partial(_raise, repeated))
            elif refusal is not None:
                response = self._respond(piece.request, partial(_raise, refusal))
            else:
                response = yield from self._response(piece.request)
            throttle_ms = ctx.throttle_ms = max(throttle_ms, ctx.throttle_ms)
            if response is NO_RESPONSE:
                continue
            merged = merged or MergedResponse(pieces, plan.version, flexible=plan.flexible)
            merged.add(response, piece.depth)
            if merged.size > budget:
                self._refuse("values and answers")
        return NO_RESPONSE if merged is None else merged.response()

    def _response(self, request: Any) -> Generator[Delayed | None, Any, Any]:
        """What the handler answers, now or later."""
        result = self._respond(request, partial(self._plan.handle, self._ctx, request))
        while isinstance(result, Delayed):
            try:
                return (yield result)
            except Exception as error:  # noqa: BLE001  answered as any error of a handler
                result = self._respond(request, partial(_raise, error))
        return result

    def _refuse(self, what: str) -> NoReturn:
        ctx, api = self._ctx, self._plan.api
        raise WireError(
            f"{api.name} version {ctx.api_version} of client {ctx.client_id!r}, {ctx.request_size} bytes: its {what} take more memory than "
            f"{MEMORY}={ctx.broker.config.minibroker_request_memory_bytes}"
        ) from None


def _refusal(pieces: Pieces, ctx: RequestContext, request: Any) -> KafkaError | None:
    """What speaks against all of a request of several pieces."""
    if pieces.is_atomic:
        return PolicyViolation(f"A request may have {pieces.size} elements in {'.'.join(pieces.request)} at most.")
    try:
        if pieces.check is not None:
            pieces.check(ctx, request)
    except KafkaError as error:
        return error.with_traceback(None)
    return None


def _raise(error: Exception) -> NoReturn:
    raise error
