"""Answers that may be long though their requests are short, such as the list of all groups: they are encoded in slices.

    @handles(schema, has_long_answer=True)
    def list_groups(ctx, request):
        return ctx.broker.slices.run(_list(ctx, request))        # a generator, which makes the elements in slices as well

The elements exist as objects until they are encoded, so functions around a handler (dispatch/middleware.py) can leave some of them out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.middleware import then
from minibroker.wire.sliced_encoder import encode_arrays, is_long

if TYPE_CHECKING:
    from minibroker.dispatch.context import RequestContext
    from minibroker.dispatch.slices import Steps

SORTED_AT_ONCE: Final = 2_000  #: names, in about a millisecond


def encoded_in_slices(handle: Callable[[Any, Any], Any], version: int, *, flexible: bool) -> Callable[[Any, Any], Any]:
    """Return the same handler. Where its answer took longer than a slice, its arrays are encoded in slices as well."""

    def serve(ctx: RequestContext, request: Any) -> Any:
        def encode(response: Any) -> Any:
            return ctx.broker.slices.run(_encode(response, version, flexible)) if is_long(response, version) else response

        result = handle(ctx, request)
        return then(result, encode) if isinstance(result, Delayed) else result

    return serve


def _encode(response: Any, version: int, flexible: bool) -> Steps:
    yield from encode_arrays(response, version, flexible=flexible)
    return response


def in_order(names: Iterable[str]) -> Generator[None, None, Iterator[str]]:
    """Sort names in slices. The result is an iterator, which does a part of the work."""
    rest, runs = iter(names), []
    while run := sorted(islice(rest, SORTED_AT_ONCE)):
        runs.append(run)
        yield
    return merge(*runs)
