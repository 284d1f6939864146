"""Set and remove quotas of users, client ids and addresses."""

from __future__ import annotations

import math
from typing import Any, Final

from minibroker.console.asking import check
from minibroker.console.forms import text
from minibroker.console.page import Visit
from minibroker.schemas import k49_alter_client_quotas as schema

DEFAULT: Final = "<default>"  #: the name of a type's default, as in Kafka's tools
_TYPES: Final = {"user": "user", "client_id": "client-id", "ip": "ip"}  #: types of entities, by the fields of the form


async def alter(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Set the quota `quota` of `user`, `client_id` or `ip`, or of a user with a client id, to `value`; without a value, remove it."""
    entity = [
        schema.Entity(entity_type=kind, entity_name=None if name == DEFAULT else name)
        for field, kind in _TYPES.items()
        if (name := text(body, field, "").strip())
    ]
    if not entity:
        raise ValueError(f"name a user, a client id or an address, or write {DEFAULT} for those without their own quota")
    quota, value = text(body, "quota").strip(), text(body, "value", "").strip()
    operation = schema.Operation(key=quota, value=_number(value) if value else 0.0, remove=not value)
    request = schema.Request(entries=[schema.Entry(entity=entity, ops=[operation])], validate_only=False)
    for result in (await visit.ask(request)).entries:
        check(result.error_code, result.error_message)
    return {"message": f"{quota} is {value}" if value else f"removed {quota}", "go": "/access"}


def _number(value: str) -> float:
    try:
        found = float(value[:40])
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"value must be a number, got {value[:40]!r}")
    return found
