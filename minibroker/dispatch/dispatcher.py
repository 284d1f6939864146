"""Turn the frame of a request into the bytes of its answer: header, look-up, decode, handler, encode.

Every request gets an answer, or its connection is closed. WireError closes it: the bytes are not
Kafka's protocol, or the API key or its version is not served. A KafkaError that a handler raises is
written to every error code of the response. Any other exception is logged with its traceback and
answered with UNKNOWN_SERVER_ERROR.

ApiVersions is an exception. An unknown version of it is answered with UNSUPPORTED_VERSION, in the
layout of version 0 and with the range of ApiVersions itself, so that the client retries with
another version (KIP-511).

A `LargeRequest` takes too long for one turn of the loop. It is served in slices, in pieces, and
within a memory budget:

    frame up to Plan.at_once      served as usual
    up to 64 KB (SLICED_FROM)     decoded at once; served in pieces if the handler declares them (dispatch/pieces.py)
    above that                    decoded in slices and within the budget, then as before

`minibroker.request.memory.bytes` limits the memory of a request's values and of the encoded answers
to its pieces together. If a request takes more, the broker logs a line and closes the connection: a
client would retry after any error code.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Generator
from functools import partial
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, cast

from minibroker.compilation import mypyc_attr
from minibroker.config.request_limits import REPEATED_MAX
from minibroker.dispatch.context import ConnectionInfo, RequestContext, Services
from minibroker.dispatch.delayed import NO_RESPONSE, Answer, Delayed, MakeResponse
from minibroker.dispatch.error_answer import error_answer
from minibroker.dispatch.pieces import MergedResponse, Pieces
from minibroker.dispatch.plan import HEADER_SIZE, SLICED_FROM, Plan, read_header
from minibroker.dispatch.slices import Steps
from minibroker.errors import InvalidRequest, KafkaError, PolicyViolation, UnknownServerError, UnsupportedVersion, WireError
from minibroker.schemas import k18_api_versions
from minibroker.wire.compiled_decoder import OverBudgetError
from minibroker.wire.header import decode_request_header

if TYPE_CHECKING:
    from minibroker.dispatch.context import RequestContext
    from minibroker.dispatch.plan import Plan
    from minibroker.dispatch.quotas import Quotas

log = logging.getLogger(__name__)


@mypyc_attr(allow_interpreted_subclasses=True)  # testing/recording.py
class Dispatcher:
    """Serves the requests of all connections, without sockets."""

    plan_kind: ClassVar[type[Plan]] = Plan  #: tests and tools that observe a broker replace it

    def __init__(self, services: Services) -> None:
        self._services = services
        self._plans: dict[int, Plan] = {}  #: api_key << 16 | api_version -> Plan, created at first use

    def serve_from(self, services: Services) -> None:
        """Use other services from the next request on.

        Earlier requests must be answered or cancelled.
        """
        self._plans.clear()
        self._services = services

    def describe(self, frame: memoryview) -> str:
        """Return API, version and client id of a dispatched request, for the log."""
        api, _, client_id_length = read_header(frame)
        plan = self._plans.get(api)
        name = f"API {_signed(api >> 16)} v{_signed(api & 0xFFFF)}" if plan is None else f"{plan.api.name} v{plan.version}"
        client_id = frame[HEADER_SIZE : HEADER_SIZE + max(client_id_length, 0)].tobytes().decode(errors="replace")
        return f"{name} of client {client_id!r}"

    def dispatch(self, connection: ConnectionInfo, frame: memoryview) -> Answer | Delayed:
        """Serve one request.

        `frame` is the bytes after the size; the caller may reuse them when this returns.

        Raises:
            WireError: close the connection.
        """
        try:
            api, correlation_id, client_id_length = read_header(frame)
        except struct_error:
            raise WireError(f"a frame of {len(frame)} bytes has no request header") from None
        plan = self._plans.get(api) or self._new_plan(api)
        if plan is None:
            return _unsupported_api_versions(correlation_id)
        size = len(frame)
        if size > plan.at_once:
            return self._dispatch_large(plan, connection, frame, client_id_length)
        client_id, request = plan.decode(frame, size, client_id_length)
        ctx = RequestContext(self._services, connection, plan.version, correlation_id, client_id, size)
        answer = self.run(plan, ctx, request)
        if type(answer) is list:
            return answer
        return self._later(plan, ctx, request, answer)

    def _dispatch_large(self, plan: Plan, connection: ConnectionInfo, frame: memoryview, client_id_length: int) -> Answer | Delayed:
        """Serve a request that may take long, in slices and in pieces if necessary."""
        services, size = self._services, len(frame)
        correlation_id = read_header(frame)[1]
        request, position = None, 0
        if size <= SLICED_FROM:
            client_id, request = plan.decode(frame, size, client_id_length)
        else:
            header, position = decode_request_header(frame, lambda _key, version: plan.api.flexible(version))
            client_id = header.client_id
        ctx = RequestContext(services, connection, plan.version, correlation_id, client_id, size)
        large = LargeRequest(plan, ctx, partial(self._respond, plan, ctx))
        budget = services.config.minibroker_request_memory_bytes
        work: MakeResponse | None = None
        if request is None:
            decoding = large.decode(frame, position)
            decoded = services.slices.begin(decoding)
            if decoded is None:
                work = partial(services.slices.run, large.finish_decoding(decoding))
            else:
                request, budget = decoded
        if request is not None:
            work = large.work(request, budget)
        answer = self.run(plan, ctx, request, work)
        return answer if type(answer) is list else self._later(plan, ctx, request, answer)

    def name_of(self, api_key: int) -> str:
        """Return the name of an API as Kafka's errors have it, such as CREATE_TOPICS; its number if it is not served."""
        api = self._services.registry.api(api_key)
        return str(api_key) if api is None else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api.name).upper()

    def refuse(self, connection: ConnectionInfo, frame: memoryview, error: KafkaError) -> Answer | None:
        """Return the answer to a request that fails as a whole with `error`, without serving it; None if it cannot have one.

        The caller bounds the size of the frame, which is decoded at once.
        """
        api, correlation_id, client_id_length = read_header(frame)
        try:
            plan = self._plans.get(api) or self._new_plan(api)
            if plan is None:
                return _unsupported_api_versions(correlation_id)
            client_id, request = plan.decode(frame, len(frame), client_id_length)
            ctx = RequestContext(self._services, connection, plan.version, correlation_id, client_id, len(frame))
            return plan.encode(_error_response(plan, ctx, request, error), correlation_id)
        except WireError:
            return None

    def _later(self, plan: Plan, ctx: RequestContext, request: Any, answer: Answer | Delayed | None) -> Answer | Delayed:
        if isinstance(answer, Delayed):
            answer.bind(partial(self._run_later, plan, ctx, request), partial(_description, plan, ctx))
            return answer
        log.error("%s returned nothing", plan.handle.__module__)
        return cast("Answer", self.run(plan, ctx, request, _fail))

    def _run_later(self, plan: Plan, ctx: RequestContext, request: Any, work: MakeResponse) -> Answer | Delayed | None:
        try:
            return self.run(plan, ctx, request, work)
        except WireError as error:
            log.warning("closing a connection from %s: %s", ctx.connection.client_host, error)
            raise

    def _respond(self, plan: Plan, ctx: RequestContext, request: Any, work: MakeResponse) -> Any:
        """Run `work` for a piece of a request.

        Returns a response or a Delayed. All errors except WireError become responses.
        """
        try:
            return work()
        except WireError:
            raise
        except Exception as error:  # noqa: BLE001  the request is answered
            return _error_response(plan, ctx, request, _failure(plan, ctx, error))

    def run(self, plan: Plan, ctx: RequestContext, request: Any, work: MakeResponse | None = None) -> Answer | Delayed | None:
        """Run `work`, or the handler if it is None, and encode the response.

        None and a Delayed are returned as they are.

        An error becomes an answer.

        Raises:
            WireError: the error answer failed as well.
        """
        is_error = False
        while True:
            try:
                quotas = self._services.quotas
                if quotas is not None:
                    response = _within(quotas, plan, ctx, work or partial(plan.handle, ctx, request))
                else:
                    response = plan.handle(ctx, request) if work is None else work()
                if response is None or isinstance(response, Delayed):
                    return response
                if response is NO_RESPONSE:
                    plan.without_answer(request)
                    return []
                return plan.encode(response, ctx.correlation_id)
            except WireError:
                raise
            except Exception as error:  # noqa: BLE001  the request is answered
                failure = _failure(plan, ctx, error)
            if is_error:
                raise WireError(f"{plan.api.name} version {plan.version} failed, and its error response failed as well")
            is_error = True
            work = partial(_error_response, plan, ctx, request, failure)

    def _new_plan(self, api: int) -> Plan | None:
        """Create the plan of an API and version at their first request; None for an unknown version of ApiVersions."""
        api_key, version = _signed(api >> 16), _signed(api & 0xFFFF)
        registry = self._services.registry
        supported = registry.api(api_key)
        if supported is None:
            raise WireError(f"API key {api_key} is not supported")
        if not supported.serves(version):
            if api_key == k18_api_versions.API_KEY:
                return None
            raise WireError(f"{supported.name} version {version} is not supported")
        handler = registry.get(api_key)
        if handler is None:
            raise WireError(f"{supported.name} has no handler")
        if self._services.authorizer is not None:
            from minibroker.dispatch.authorization.enforcement import authorized  # noqa: PLC0415  most brokers have no authorizer

            handler = authorized(handler)
        plan = self._plans[api] = self.plan_kind(handler, version)
        return plan


def _description(plan: Plan, ctx: RequestContext) -> str:
    """Name a request for the log."""
    where = f"client {ctx.client_id!r} at {ctx.connection.client_host}"
    return f"{plan.api.name} v{ctx.api_version} of {where} ({ctx.request_size:,} bytes)"


def _within(quotas: Quotas, plan: Plan, ctx: RequestContext, work: MakeResponse) -> Any:
    """Run `work` and count it for the quotas. An answer gets the throttle time."""
    began_ns = time.perf_counter_ns()
    response = work()
    spent_ns = time.perf_counter_ns() - began_ns
    if response is None or isinstance(response, Delayed):
        quotas.count_time(ctx, spent_ns)
        return response
    return quotas.hold(plan.api.key, ctx, response, spent_ns)


def _failure(plan: Plan, ctx: RequestContext, error: Exception) -> KafkaError:
    """Return the error for the client. Log the traceback of a defect of the broker."""
    if isinstance(error, KafkaError):
        return error.with_traceback(None)  # the traceback would be a reference cycle
    log.error(
        "%s version %d of client %r at %s failed", plan.api.name, plan.version, ctx.client_id, ctx.connection.client_host, exc_info=error
    )
    return UnknownServerError()


def _fail() -> NoReturn:
    raise UnknownServerError


def _error_response(plan: Plan, ctx: RequestContext, request: Any, error: KafkaError) -> Any:
    """Return the response to a request that failed as a whole.

    Raises WireError if it has no response.
    """
    response = plan.on_error(ctx, request, error) if plan.on_error else error_answer(plan.api.Response, request, error, plan.version)
    if response is NO_RESPONSE:
        raise WireError(f"{plan.api.name} failed, and the protocol has no response to it: {error}")
    return response


def _signed(number: int) -> int:
    """Convert 16 bits to an int16."""
    return number - 0x10000 if number & 0x8000 else number


def _unsupported_api_versions(correlation_id: int) -> Answer:
    own = k18_api_versions.ApiVersion(
        api_key=k18_api_versions.API_KEY, min_version=k18_api_versions.VERSIONS[0], max_version=k18_api_versions.VERSIONS[1]
    )
    response = k18_api_versions.Response(error_code=UnsupportedVersion.code, api_keys=[own])
    return Plan.encode_api_versions_v0(response, correlation_id)


MEMORY: Final = "minibroker.request.memory.bytes"

Decoding = Generator[None, None, tuple[Any, int]]  #: returns the request and the rest of the budget
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
        """Serve one piece after another.

        Returns one response, whose encoded parts take at most `budget` bytes.
        """
        ctx, plan = self._ctx, self._plan
        merged: MergedResponse | None = None
        throttle_ms = 0
        refusal = _refusal(pieces, ctx, request)
        for piece in pieces.cut(ctx, request):
            yield None
            if piece is None:
                continue
            if piece.is_refused:
                repeated = InvalidRequest(f"More than {REPEATED_MAX} elements have the same key.")
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
            except Exception as error:  # noqa: BLE001  the request is answered
                result = self._respond(request, partial(_raise, error))
        return result

    def _refuse(self, parts: str) -> NoReturn:
        ctx, api = self._ctx, self._plan.api
        raise WireError(
            f"{api.name} version {ctx.api_version} of client {ctx.client_id!r}, {ctx.request_size} bytes: its {parts} take more memory "
            f"than {MEMORY}={ctx.broker.config.minibroker_request_memory_bytes}"
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
