"""Add and remove access control entries, after a preview."""

from __future__ import annotations

import json
from typing import Any, Final

from minibroker.client.access import creation_of, filter_fields
from minibroker.console.asking import check
from minibroker.console.forms import counted, planned, text
from minibroker.console.page import Visit
from minibroker.console.pages.access import acls_of
from minibroker.console.values import visible
from minibroker.errors import ConfigurationError
from minibroker.schemas import k30_create_acls, k31_delete_acls
from minibroker.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType, parse_acl, principal_of, text_of

_LINES_MAX: Final = 100
_PREVIEWED_MAX: Final = 200
_COLUMNS: Final = {"acl": "Entry", "effect": "Effect"}
_PAGE: Final = "/access"


async def preview_add(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Return the entries that `add` would create, and which of them exist."""
    wanted = _entries(text(body, "acl"))
    known = set(await acls_of(visit, AclFilter()))
    new = [each for each in wanted if each not in known]
    rows = [{"acl": visible(text_of(each)), "effect": "exists already" if each in known else "is added"} for each in wanted]
    return planned(f"{len(new)} of {counted(len(wanted), 'entry', 'entries')} would be added", _COLUMNS, rows)


async def add(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Create the entries of `acl`, a line for each, as `minibroker acls add` takes them."""
    wanted = _entries(text(body, "acl"))
    response = await visit.ask(k30_create_acls.Request(creations=[creation_of(each) for each in wanted]))
    for result in response.results:
        check(result.error_code, result.error_message)
    return {"message": f"added {counted(len(wanted), 'entry', 'entries')}", "go": _PAGE}


def _entries(lines: str) -> list[Acl]:
    found: list[Acl] = []
    for line in lines.splitlines():
        if line.strip():
            try:
                found += parse_acl(line)
            except ConfigurationError as error:
                raise ValueError(str(error)) from None
        if len(found) > _LINES_MAX:
            raise ValueError(f"acl: at most {_LINES_MAX} entries at a time")
    if not found:
        raise ValueError("acl is empty: write an entry such as 'alice allow READ TOPIC orders-*'")
    return found


async def preview_remove(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Return the entries that `remove` would remove."""
    found: dict[Acl, None] = {}
    for each in _filters(body):
        found |= dict.fromkeys(await acls_of(visit, each))
    rows = [{"acl": visible(text_of(each)), "effect": "is removed"} for each in sorted(found)[:_PREVIEWED_MAX]]
    return planned(f"{counted(len(found), 'entry', 'entries')} would be removed", _COLUMNS, rows)


async def remove(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Remove the entries of `acl`, a line for each, or those that match `principal`, `type`, `resource`, `operation` and `host`.

    `entry` is the JSON of one entry, as the page lists it.
    """
    filters = [k31_delete_acls.DeleteAclsFilter(**filter_fields(each)) for each in _filters(body)]
    response = await visit.ask(k31_delete_acls.Request(filters=filters))
    count = 0
    for result in response.filter_results:
        check(result.error_code, result.error_message)
        for each in result.matching_acls:
            check(each.error_code, each.error_message)
            count += 1
    return {"message": f"removed {counted(count, 'entry', 'entries')}", "go": _PAGE}


def _filters(body: dict[str, Any]) -> list[AclFilter]:
    """Return the filters of a form. One that is empty would match everything: ValueError."""
    entry, lines = text(body, "entry", ""), text(body, "acl", "")
    if entry:
        return [_listed(entry)]
    if lines.strip():
        return [AclFilter(*each) for each in _entries(lines)]
    principal, name, host = (text(body, field, "").strip() or None for field in ("principal", "resource", "host"))
    kind, operation = text(body, "type", ""), text(body, "operation", "")
    if not any((principal, name, host, kind, operation)):
        raise ValueError("fill in at least one field: an empty filter would match every entry")
    try:
        resource_type = ResourceType[kind] if kind else ResourceType.ANY
        wanted = Operation[operation] if operation else Operation.ANY
    except KeyError as error:
        raise ValueError(f"{error.args[0]} is not a resource type or an operation") from None
    pattern = PatternType.ANY
    if name is not None and name != "*" and name.endswith("*"):
        name, pattern = name[:-1], PatternType.PREFIXED
    return [AclFilter(resource_type, name, pattern, principal and principal_of(principal), host, wanted, Permission.ANY)]


def _listed(entry: str) -> AclFilter:
    try:
        kind, name, pattern, principal, host, operation, permission = json.loads(entry)
        found = AclFilter(
            ResourceType(kind), str(name), PatternType(pattern), str(principal), str(host), Operation(operation), Permission(permission)
        )
    except (ValueError, TypeError, RecursionError):
        raise ValueError("entry must be the JSON of an entry, as the page lists it") from None
    if found.pattern_type not in {PatternType.LITERAL, PatternType.PREFIXED}:
        raise ValueError("entry must have the pattern type LITERAL or PREFIXED")
    return found
