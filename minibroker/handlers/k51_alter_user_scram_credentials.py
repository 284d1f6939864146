"""AlterUserScramCredentials (key 51): set and remove users' passwords for SCRAM mechanisms (KIP-554).

Versions: 0; flexible; extra bytes after the request are ignored (librdkafka sends one). Each user
is altered or rejected independently and has one result; successful ones come first. A second change
of a user is DUPLICATE_RESOURCE. A request of more than 1,000 changes is rejected: POLICY_VIOLATION
(config/request_limits.py). Credentials are records of the metadata log, as in Apache Kafka
(cluster/metadata/scram_credentials.py). The response is sent when they are on the disk. New logins
use them; open connections continue (server/sasl/listener.py).
"""

from __future__ import annotations

from minibroker.cluster.metadata.scram_credentials import ScramDeletion, ScramUpsertion, alter
from minibroker.config.request_limits import SCRAM_CHANGES_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k51_alter_user_scram_credentials as schema


@handles(schema, Pieces("deletions", "results", others=("upsertions",), most=SCRAM_CHANGES_MAX))
def alter_user_scram_credentials(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Alter the credentials of each user."""
    changes: list[ScramDeletion | ScramUpsertion] = [ScramDeletion(each.name, each.mechanism) for each in request.deletions]
    changes += [ScramUpsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password) for each in request.upsertions]
    records, outcomes = alter(ctx.cluster.image.kept, ctx.cluster.image.features, changes)
    ctx.cluster.write_quotas_and_credentials(records)
    return schema.Response(results=[_result(user, error) for user, error in outcomes.items()])


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` for each user."""
    names = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    return schema.Response(results=[_result(user, error) for user in dict.fromkeys(names)])


def _result(user: str, error: KafkaError | None) -> schema.Result:
    return schema.Result(user=user, error_code=error.code if error else 0, error_message=str(error) if error else None)
