"""Serve requests that are too large for one turn of the loop: in slices, in pieces, and within a memory budget.

    frame up to Plan.at_once      served as usual, without this module
    up to 64 KB (SLICED_FROM)     decoded at once; served in pieces if the handler declares them (dispatch/pieces.py)
    above that                    decoded in slices and within the budget, then as before

`minibroker.request.memory.bytes` limits the memory of a request's values and of the encoded answers to its pieces together. If a request
takes more, the broker logs a line and closes the connection: a client would retry after any error code.
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
Respond = Callable[[Any, Callable[[], Any]], Any]  #: (request, work) -> the result of `work`; errors become responses, except WireError


class LargeRequest:
    """One large request. `respond` is a method of the dispatcher."""

    __slots__ = ("_ctx", "_plan", "_respond")

    def __init__(self, plan: Plan, ctx: RequestContext, respond: Respond) -> None:
        self._plan = plan
        self._ctx = ctx
        self._respond = respond

    def decode(self, frame: memoryview, position: int) -> Decoding:
        """Decode in slices.

        Raises:
            WireError: the bytes are not a request of this version, or its values exceed the budget.
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
        """Return a function that serves a request which was decoded at once; None if its handler serves it as usual."""
        plan = self._plan
        refusal = None if plan.limit is None else plan.limit.refusal(request)
        if refusal is not None:
            return partial(_raise, refusal)
        if plan.pieces is None or plan.pieces.is_one(request):
            return None
        return partial(self._ctx.broker.slices.run, self.serve_in_pieces(plan.pieces, request, budget))

    def serve_in_pieces(self, pieces: Pieces, request: Any, budget: int) -> Steps:
        """Serve one piece after another. Returns one response, whose encoded parts take at most `budget` bytes."""
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
        """Call the handler and wait for its response."""
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
    """Return the error that refuses a request of several pieces as a whole; None if it may be served."""
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
