"""DescribeUserScramCredentials (key 50): the SCRAM mechanisms for which users have a password (KIP-554).

Versions: 0; flexible. An empty list or null requests all users. A user without a credential is
RESOURCE_NOT_FOUND. A repeated user is DUPLICATE_RESOURCE and has one result. Salts and keys are
never returned.
"""

from __future__ import annotations

from typing import Final

from minibroker.cluster.metadata.scram_credentials import described, users
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import DuplicateResource, KafkaError
from minibroker.schemas import k50_describe_user_scram_credentials as schema

_STEP: Final = 200  #: users described between two pauses


@handles(schema, Pieces("users", "results", key=lambda _ctx, user: user.name), has_long_answer=True)
def describe_user_scram_credentials(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Describe each user."""
    if not request.users:
        return ctx.broker.slices.run(_describe_all(ctx))
    counts: dict[str, int] = {}
    for user in request.users:
        counts[user.name] = counts.get(user.name, 0) + 1
    results = [_describe(ctx, name, is_twice=count > 1) for name, count in counts.items()]
    return schema.Response(error_code=0, error_message="", results=results)


def _describe_all(ctx: RequestContext) -> Steps:
    """Describe all current users, except those whose credentials are removed during a pause."""
    results: dict[str, schema.Result] = {}
    for number, name in enumerate(users(ctx.cluster.image.kept)):
        if name not in results:
            result = _describe(ctx, name, is_twice=False)
            if result.error_code == 0:
                results[name] = result
        if number % _STEP == _STEP - 1:
            yield None
    return schema.Response(error_code=0, error_message="", results=list(results.values()))


def _describe(ctx: RequestContext, name: str, *, is_twice: bool) -> schema.Result:
    try:
        if is_twice:
            raise DuplicateResource(f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}")
        found = described(ctx.cluster.image.kept, name)
    except KafkaError as error:
        return schema.Result(user=name, error_code=error.code, error_message=str(error), credential_infos=[])
    infos = [schema.Credential(mechanism=mechanism, iterations=iterations) for mechanism, iterations in found]
    return schema.Result(user=name, error_code=0, error_message="", credential_infos=infos)


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` once for each user in the request, without its name, as Kafka does."""
    results = [schema.Result(user="", error_code=error.code, error_message=str(error), credential_infos=[]) for _ in request.users or ()]
    return schema.Response(error_code=error.code, error_message=str(error), results=results)
