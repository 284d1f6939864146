"""DescribeUserScramCredentials (key 50): which users have a password for which SCRAM mechanisms (KIP-554).

Versions: 0; flexible. No users, or null, ask for all. A user without a credential is RESOURCE_NOT_FOUND, one who is there twice
DUPLICATE_RESOURCE and answered once. Salts and keys are never told.
"""

from __future__ import annotations

from minibroker.cluster.scram_credentials import described, users
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import DuplicateResource, KafkaError
from minibroker.schemas import k50_describe_user_scram_credentials as schema


@handles(schema, Pieces("users", "results", key=lambda _ctx, user: user.name))
def describe_user_scram_credentials(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each user once."""
    counts: dict[str, int] = {}
    for user in request.users or ():
        counts[user.name] = counts.get(user.name, 0) + 1
    results = [_describe(ctx, name, is_twice=counts.get(name, 0) > 1) for name in counts or users(ctx.cluster.image.kept)]
    return schema.Response(error_code=0, error_message="", results=results)


def _describe(ctx: RequestContext, name: str, *, is_twice: bool) -> schema.Result:
    try:
        if is_twice:
            raise DuplicateResource(f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}")
        found = described(ctx.cluster.image.kept, name)
    except KafkaError as error:
        return schema.Result(user=name, error_code=error.code, error_message=str(error), credential_infos=[])
    infos = [schema.Credential(mechanism=mechanism, iterations=iterations) for mechanism, iterations in found]
    return schema.Result(user=name, error_code=0, error_message="", credential_infos=infos)
