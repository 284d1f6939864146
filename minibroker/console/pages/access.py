"""Who may do what: access control entries, quotas, and the users that the cluster knows."""

from __future__ import annotations

from typing import Any, Final

from minibroker.console.asking import check
from minibroker.console.page import Page, Visit
from minibroker.console.values import visible
from minibroker.errors import KafkaError
from minibroker.schemas import k29_describe_acls, k48_describe_client_quotas, k50_describe_user_scram_credentials
from minibroker.security.acl import Operation, PatternType, Permission, ResourceType

_ANY: Final = 1
_SHOWN: Final = 500
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


async def access(visit: Visit) -> dict[str, Any]:
    """Show entries, quotas and users, as far as the visitor may see them."""
    config = visit.services.config
    acls, acls_why = await _or_why(_acls(visit)) if visit.services.authorizer is not None else ([], "")
    quotas, quotas_why = await _or_why(_quotas(visit))
    users, users_why = await _or_why(_users(visit))
    return {
        "has_authorizer": visit.services.authorizer is not None,
        "super_users": sorted(config.super_users) if visit.may(Operation.DESCRIBE, ResourceType.CLUSTER) else [],
        "principal": visit.visitor.principal,
        "acls": acls,
        "acls_why": acls_why,
        "quotas": quotas,
        "quotas_why": quotas_why,
        "users": users,
        "users_why": users_why,
        "command": "minibroker acls list" if visit.services.authorizer is not None else "minibroker quotas describe",
    }


async def _or_why(asked: Any) -> tuple[list[dict[str, Any]], str]:
    try:
        return await asked, ""
    except KafkaError as error:
        return [], f"{error.name}: {error}"


async def _acls(visit: Visit) -> list[dict[str, Any]]:
    request = k29_describe_acls.Request(
        resource_type_filter=_ANY, resource_name_filter=None, pattern_type_filter=_ANY, principal_filter=None, host_filter=None,
        operation=_ANY, permission_type=_ANY,
    )  # fmt: skip
    response = await visit.ask(request)
    check(response.error_code, response.error_message)
    return [
        {
            "principal": visible(each.principal),
            "host": each.host,
            "permission": Permission(each.permission_type).name,
            "operation": Operation(each.operation).name,
            "resource_type": ResourceType(resource.resource_type).name,
            "resource_name": visible(resource.resource_name),
            "pattern": PatternType(resource.pattern_type).name,
        }
        for resource in response.resources
        for each in resource.acls
    ][:_SHOWN]


async def _quotas(visit: Visit) -> list[dict[str, Any]]:
    response = await visit.ask(k48_describe_client_quotas.Request(components=[], strict=False))
    check(response.error_code, response.error_message)
    return [
        {
            "entity": {part.entity_type: None if part.entity_name is None else visible(part.entity_name) for part in entry.entity},
            "limits": {value.key: value.value for value in entry.values},
        }
        for entry in response.entries or ()
    ][:_SHOWN]


async def _users(visit: Visit) -> list[dict[str, Any]]:
    response = await visit.ask(k50_describe_user_scram_credentials.Request(users=None))
    check(response.error_code, response.error_message)
    return [
        {
            "user": visible(each.user),
            "mechanisms": [
                f"{_MECHANISMS.get(one.mechanism, one.mechanism)}, {one.iterations} iterations" for one in each.credential_infos
            ],
        }
        for each in response.results
        if not each.error_code
    ][:_SHOWN]


PAGES = (Page("/access", "Access", "access.html", access),)
