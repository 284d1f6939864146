"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses (KIP-546).

Versions: 0 and 1; 1 is flexible. Each entity is altered or rejected (INVALID_REQUEST) as a whole,
independently of the others. A repeated entity has one result. Removing a quota that does not exist
succeeds. validate_only runs all checks and changes nothing. Quotas are records of the metadata log,
as in Apache Kafka (cluster/metadata/client_quotas.py). The response is sent when they are on the
disk. They apply from the next request on (dispatch/quotas.py).
"""

from __future__ import annotations

from typing import Final

from minibroker.cluster.metadata.client_quotas import Entity, QuotaAlteration, alter, in_order
from minibroker.config.request_limits import QUOTA_ALTERATIONS_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k49_alter_client_quotas as schema

_TYPES_REPEATED_MAX: Final = 100  #: entity types that a result repeats; there are three


@handles(schema, Pieces("entries", "entries", beside=("entity", "ops"), most=QUOTA_ALTERATIONS_MAX))
def alter_client_quotas(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Alter each entity, in the order of the request."""
    alterations = [
        QuotaAlteration(_entity(entry), [(op.key, None if op.remove else op.value) for op in entry.ops]) for entry in request.entries
    ]
    records, outcomes = alter(ctx.cluster.image.kept, alterations)
    if not request.validate_only:
        ctx.cluster.write_quotas_and_credentials(records)
    return schema.Response(entries=[_result(entity, error) for entity, error in outcomes])


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` for each entity.

    The result of an entity with too many types is empty; it may have hundreds of thousands.
    """
    entities = [_entity(entry) if len(entry.entity) <= _TYPES_REPEATED_MAX else {} for entry in request.entries]
    return schema.Response(entries=[_result(entity, error) for entity in entities])


def _entity(entry: schema.Entry) -> Entity:
    return {part.entity_type: part.entity_name for part in entry.entity}  # the last name of a type is used, as in Kafka


def _result(entity: Entity, error: KafkaError | None) -> schema.EntryResult:
    return schema.EntryResult(
        error_code=error.code if error else 0,
        error_message=str(error) if error else None,
        entity=[schema.Entity(entity_type=each, entity_name=name) for each, name in in_order(entity)],
    )
