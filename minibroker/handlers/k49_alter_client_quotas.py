"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses (KIP-546).

Versions: 0 and 1; 1 is flexible. Each entity is altered or refused on its own, whole, with INVALID_REQUEST; it is answered once, however
often it is named. Removing what is not there is fine. validate_only checks everything and changes nothing.
Quotas are records of the metadata log, as Apache Kafka has them (cluster/metadata/client_quotas.py); answered when they are on the disk.
They hold from the next request on (dispatch/quotas.py).
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

_TYPES_REPEATED_MAX: Final = 100  #: types of an entity that an answer repeats; there are three


@handles(schema, Pieces("entries", "entries", beside=("entity", "ops"), most=QUOTA_ALTERATIONS_MAX))
def alter_client_quotas(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each entity in the order of the request."""
    alterations = [
        QuotaAlteration(_entity(entry), [(op.key, None if op.remove else op.value) for op in entry.ops]) for entry in request.entries
    ]
    records, outcomes = alter(ctx.cluster.image.kept, alterations)
    if not request.validate_only:
        ctx.cluster.write_quotas_and_credentials(records)
    return schema.Response(entries=[_result(entity, error) for entity, error in outcomes])


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """All entities failed. One that no quota can be of is not repeated: it may have hundreds of thousands of types."""
    entities = [_entity(entry) if len(entry.entity) <= _TYPES_REPEATED_MAX else {} for entry in request.entries]
    return schema.Response(entries=[_result(entity, error) for entity in entities])


def _entity(entry: schema.Entry) -> Entity:
    return {part.entity_type: part.entity_name for part in entry.entity}  # of two names of one type Kafka takes the last, too


def _result(entity: Entity, error: KafkaError | None) -> schema.EntryResult:
    return schema.EntryResult(
        error_code=error.code if error else 0,
        error_message=str(error) if error else None,
        entity=[schema.Entity(entity_type=each, entity_name=name) for each, name in in_order(entity)],
    )
