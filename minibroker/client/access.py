"""Manage access control lists (ACLs), SCRAM credentials of users, and delegation tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minibroker.client.client import Client
from minibroker.client.errors import check
from minibroker.errors import ResourceNotFound
from minibroker.schemas import k29_describe_acls as k29
from minibroker.schemas import k30_create_acls as k30
from minibroker.schemas import k31_delete_acls as k31
from minibroker.schemas import k38_create_delegation_token as k38
from minibroker.schemas import k39_renew_delegation_token as k39
from minibroker.schemas import k40_expire_delegation_token as k40
from minibroker.schemas import k41_describe_delegation_token as k41
from minibroker.schemas import k50_describe_user_scram_credentials as k50
from minibroker.schemas import k51_alter_user_scram_credentials as k51
from minibroker.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from minibroker.security.scram import NUMBERS, new_salt, salted_password

MECHANISM_NAMES = {number: name for name, number in NUMBERS.items()}


class Credential(NamedTuple):
    """One SCRAM mechanism that a user has a password for."""

    user: str
    mechanism: str
    iterations: int


class Token(NamedTuple):
    """A delegation token. `hmac` is the secret with which it logs in."""

    token_id: str
    owner: str  #: User:NAME
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    latest_ms: int  #: a renewal cannot move `expires_ms` past this
    hmac: bytes

    def __repr__(self) -> str:
        """Hide the secret."""
        return f"Token({self.token_id}, [hidden])"


def list_acls(client: Client, acl_filter: AclFilter) -> list[Acl]:
    """Return the ACLs that a filter matches."""
    fields = filter_fields(acl_filter)
    response: k29.Response = client.ask(k29, k29.Request(**fields))
    check(response.error_code, "ACLs", response.error_message)
    return [
        Acl(
            ResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            each.principal,
            each.host,
            Operation(each.operation),
            Permission(each.permission_type),
        )
        for resource in response.resources
        for each in resource.acls
    ]


def add_acls(client: Client, acls: Sequence[Acl]) -> None:
    """Create ACLs. Existing ACLs stay as they are. After a KafkaError, the other ACLs may exist."""
    response: k30.Response = client.ask_controller(k30, k30.Request(creations=[creation_of(each) for each in acls]))
    for result in response.results:
        check(result.error_code, "ACLs", result.error_message)


def creation_of(acl: Acl) -> k30.AclCreation:
    """Return the element of a CreateAcls request."""
    return k30.AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def remove_acls(client: Client, acl_filters: Sequence[AclFilter]) -> list[Acl]:
    """Remove the ACLs that filters match, and return them."""
    filters = [k31.DeleteAclsFilter(**filter_fields(each)) for each in acl_filters]
    response: k31.Response = client.ask_controller(k31, k31.Request(filters=filters))
    removed = []
    for result in response.filter_results:
        check(result.error_code, "ACLs", result.error_message)
        for each in result.matching_acls:
            check(each.error_code, "ACLs", each.error_message)
            removed.append(
                Acl(
                    ResourceType(each.resource_type),
                    each.resource_name,
                    PatternType(each.pattern_type),
                    each.principal,
                    each.host,
                    Operation(each.operation),
                    Permission(each.permission_type),
                )
            )
    return removed


def exactly(acl: Acl) -> AclFilter:
    """Return the filter that matches one ACL."""
    return AclFilter(*acl)


def filter_fields(acl_filter: AclFilter) -> dict[str, Any]:
    """Return the fields of a filter in requests of DescribeAcls and DeleteAcls."""
    return {
        "resource_type_filter": acl_filter.resource_type,
        "resource_name_filter": acl_filter.resource_name,
        "pattern_type_filter": acl_filter.pattern_type,
        "principal_filter": acl_filter.principal,
        "host_filter": acl_filter.host,
        "operation": acl_filter.operation,
        "permission_type": acl_filter.permission,
    }


def list_credentials(client: Client, user: str | None = None) -> list[Credential]:
    """Return the SCRAM credentials of a user, or of all users; empty if the user has none."""
    request = k50.Request(users=None if user is None else [k50.User(name=user)])
    response: k50.Response = client.ask(k50, request)
    check(response.error_code, "users", response.error_message)
    found = []
    for result in response.results:
        if result.error_code == ResourceNotFound.code:
            continue
        check(result.error_code, f"user {result.user}", result.error_message)
        found += [Credential(result.user, MECHANISM_NAMES.get(each.mechanism, "?"), each.iterations) for each in result.credential_infos]
    return sorted(found)


def set_password(client: Client, user: str, mechanisms: Sequence[str], password: str, iterations: int) -> None:
    """Set the password of a new or existing user. The password is hashed here, and not sent."""
    upsertions = []
    for mechanism in mechanisms:
        salt = new_salt()
        hashed = salted_password(mechanism, password.encode(), salt, iterations)
        number = NUMBERS[mechanism]
        upsertions.append(k51.Upsertion(name=user, mechanism=number, iterations=iterations, salt=salt, salted_password=hashed))
    for each in upsertions:  # Kafka accepts one change of a user in a request
        _alter_credentials(client, k51.Request(deletions=[], upsertions=[each]))


def remove_credential(client: Client, user: str, mechanism: str) -> None:
    """Remove the password of a user for one mechanism."""
    _alter_credentials(client, k51.Request(deletions=[k51.Deletion(name=user, mechanism=NUMBERS[mechanism])], upsertions=[]))


def _alter_credentials(client: Client, request: k51.Request) -> None:
    response: k51.Response = client.ask_controller(k51, request)
    for result in response.results:
        check(result.error_code, f"user {result.user}", result.error_message)


def create_token(client: Client, *, owner: str | None = None, renewers: Sequence[str] = (), max_lifetime_ms: int = -1) -> Token:
    """Create a delegation token. `owner` and `renewers` are principals (User:NAME); the owner defaults to the connection's user."""
    owner_type, _, owner_name = (owner or "").partition(":")
    request = k38.Request(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[k38.Renewer(principal_type=each.partition(":")[0], principal_name=each.partition(":")[2]) for each in renewers],
        max_lifetime_ms=max_lifetime_ms,
    )
    response: k38.Response = client.ask_controller(k38, request)
    check(response.error_code, "delegation token")
    return Token(
        response.token_id,
        f"{response.principal_type}:{response.principal_name}",
        f"{response.token_requester_principal_type}:{response.token_requester_principal_name}",
        tuple(renewers),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
        bytes(response.hmac),
    )


def list_tokens(client: Client, owners: Sequence[str] = ()) -> list[Token]:
    """Return the delegation tokens that the connection's user may see, filtered by owner if `owners` is not empty."""
    owner_entries = [k41.Owner(principal_type=each.partition(":")[0], principal_name=each.partition(":")[2]) for each in owners]
    response: k41.Response = client.ask(k41, k41.Request(owners=owner_entries or None))
    check(response.error_code, "delegation tokens")
    return [
        Token(
            each.token_id,
            f"{each.principal_type}:{each.principal_name}",
            f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
            tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
            bytes(each.hmac),
        )
        for each in response.tokens
    ]


def renew_token(client: Client, hmac: bytes, period_ms: int = -1) -> int:
    """Renew a token for a period (-1: the broker's default), and return when it expires, in milliseconds since the epoch."""
    response: k39.Response = client.ask_controller(k39, k39.Request(hmac=hmac, renew_period_ms=period_ms))
    check(response.error_code, "delegation token")
    return response.expiry_timestamp_ms


def expire_token(client: Client, hmac: bytes, period_ms: int = -1) -> int:
    """Let a token expire after a period (-1: at once), and return when, in milliseconds since the epoch."""
    response: k40.Response = client.ask_controller(k40, k40.Request(hmac=hmac, expiry_time_period_ms=period_ms))
    check(response.error_code, "delegation token")
    return response.expiry_timestamp_ms
