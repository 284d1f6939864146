"""Who may do what: access control entries, quotas, and the users that the cluster knows."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from minibroker.client.access import filter_fields
from minibroker.client.configs import QUOTA_NAMES
from minibroker.console.asking import check
from minibroker.console.page import Page, Visit
from minibroker.console.values import visible
from minibroker.errors import KafkaError
from minibroker.schemas import k29_describe_acls, k48_describe_client_quotas, k50_describe_user_scram_credentials
from minibroker.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType, text_of

T = TypeVar("T")

_SHOWN: Final = 500
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


async def access(visit: Visit) -> dict[str, Any]:
    """Show entries, quotas and users, as far as the visitor may see them."""
    config = visit.services.config
    acls, acls_why = await _or_why(acls_of(visit, AclFilter())) if visit.services.authorizer is not None else ([], "")
    may_alter = not visit.is_read_only and visit.may(Operation.ALTER, ResourceType.CLUSTER)
    quotas, quotas_why = await _or_why(_quotas(visit))
    users, users_why = await _or_why(_users(visit))
    return {
        "has_authorizer": visit.services.authorizer is not None,
        "super_users": sorted(config.super_users) if visit.may(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER) else [],
        "principal": visit.visitor.principal,
        "acls": [_acl_row(each) for each in acls[:_SHOWN]],
        "acl_count": len(acls),
        "operations": [each.name for each in Operation if each > Operation.ANY],
        "resource_types": [each.name for each in ResourceType if each > ResourceType.ANY],
        "quota_names": QUOTA_NAMES,
        "may_alter_acls": may_alter and visit.services.authorizer is not None,
        "may_alter_quotas": not visit.is_read_only and visit.may(Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
        "acls_why": acls_why,
        "quotas": quotas,
        "quotas_why": quotas_why,
        "users": users,
        "users_why": users_why,
        "command": "minibroker acls list" if visit.services.authorizer is not None else "minibroker quotas describe",
    }


async def _or_why(asked: Awaitable[list[T]]) -> tuple[list[T], str]:
    try:
        return await asked, ""
    except KafkaError as error:
        return [], f"{error.name}: {error}"


async def acls_of(visit: Visit, wanted: AclFilter) -> list[Acl]:
    """Return the entries that a filter matches. Raises KafkaError."""
    request = k29_describe_acls.Request(**filter_fields(wanted))
    response = await visit.ask(request)
    check(response.error_code, response.error_message)
    return [
        Acl(
            ResourceType(resource.resource_type), resource.resource_name, PatternType(resource.pattern_type), each.principal, each.host,
            Operation(each.operation), Permission(each.permission_type),
        )
        for resource in response.resources
        for each in resource.acls
    ]  # fmt: skip


def _acl_row(acl: Acl) -> dict[str, Any]:
    return {
        "acl": visible(text_of(acl)),
        "entry": [*acl],
        "principal": visible(acl.principal),
        "host": acl.host,
        "permission": acl.permission.name,
        "operation": acl.operation.name,
        "resource_type": acl.resource_type.name,
        "resource_name": visible(acl.resource_name),
        "pattern": acl.pattern_type.name,
    }


async def _quotas(visit: Visit) -> list[dict[str, Any]]:
    response = await visit.ask(k48_describe_client_quotas.Request(components=[], strict=False))
    check(response.error_code, response.error_message)
    return [
        {
            "entity": {part.entity_type: part.entity_name for part in entry.entity},
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
