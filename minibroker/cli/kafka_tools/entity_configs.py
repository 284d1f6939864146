"""kafka-configs for users, client ids and addresses: quotas and SCRAM credentials, with the texts of Kafka's ConfigCommand."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from minibroker.cli.kafka_tools.arguments import UsageError
from minibroker.client import access
from minibroker.client import configs as admin
from minibroker.client.client import Client
from minibroker.client.configs import CLIENT_ID, IP, QUOTA_NAMES, USER

USERS, CLIENTS, IPS = "users", "clients", "ips"
#: --entity-type -> entity type of a quota
QUOTA_TYPES: Final = {USERS: USER, CLIENTS: CLIENT_ID, IPS: IP}
_SHOWN: Final = {USERS: "user-principal", CLIENTS: "client-id", IPS: "ip"}
_MECHANISMS: Final = frozenset(access.MECHANISM_NAMES.values())
_CONNECTIONS: Final = "connection_creation_rate"
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)
_ITERATIONS_MIN, _ITERATIONS_MAX = 4096, 16_384

Entities = Sequence[tuple[str, str | None]]  #: --entity-type and name: "" is the default, None any


def check_entities(entities: Entities, *, is_change: bool) -> None:
    """Raise UsageError for types that cannot be combined, and for a change without a name."""
    kinds = [kind for kind, _ in entities]
    if len(kinds) > 1 and sorted(kinds) != [CLIENTS, USERS]:
        raise UsageError("Only 'users' and 'clients' entity types may be specified together")
    if not is_change:
        return
    for kind, name in entities:
        if name is None:
            raise UsageError("An entity-name or default entity must be specified with --alter of users, clients, brokers or ips")
        if kind == IPS and name and not _is_host(name):
            raise UsageError(f"The entity name for ips must be a valid IP or resolvable host, but it is: {name}")


def _is_host(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


def alter(client: Client, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Change quotas, or the SCRAM credentials of a user.

    Raises:
        UsageError: the names do not fit the entity, or a value is invalid. Nothing was changed.
        KafkaError: the broker rejects the change.
    """
    (kind, name), *others = entities
    is_user = kind == USERS and not others
    _check_names(kind, "added", list(added), is_user=is_user)
    _check_names(kind, "deleted", deleted, is_user=is_user)
    names = [*added, *deleted]
    credentials = [each for each in names if each in _MECHANISMS]
    if credentials and len(credentials) < len(names):
        raise UsageError("Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server.")
    if not credentials:
        _alter_quotas(client, entities, added, deleted)
    elif not name:
        raise UsageError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using --bootstrap-server."
        )
    else:
        _alter_credentials(client, name, added, deleted)


def _check_names(kind: str, verb: str, names: Sequence[str], *, is_user: bool) -> None:
    if kind == IPS:
        unknown = [each for each in names if each != _CONNECTIONS]
        if unknown:
            what = f"Only connection quota configs can be {verb} for 'ips' using --bootstrap-server."
            raise UsageError(f"{what} Unexpected config names: {','.join(unknown)}")
        return
    quotas = {each for each in QUOTA_NAMES if each != _CONNECTIONS}
    unknown = [each for each in names if each not in quotas and not (is_user and each in _MECHANISMS)]
    if unknown:
        what = "quota and SCRAM credential" if is_user else "quota"
        unexpected = f"Unexpected config names: Set({', '.join(unknown)})"
        raise UsageError(f"Only {what} configs can be {verb} for '{kind}' using --bootstrap-server. {unexpected}")


def _alter_quotas(client: Client, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    entity = {QUOTA_TYPES[kind]: name or None for kind, name in entities}
    values: dict[str, float | None] = {}
    for key, text in added.items():
        try:
            values[key] = float(text)
        except ValueError:
            raise UsageError(f"Cannot parse quota configuration value for {key}: {text}") from None
    existing = {each.name for each in admin.describe_quotas(client, entity, strict=True)} if deleted else set()
    missing = [each for each in deleted if each not in existing]
    if missing:
        raise UsageError(f"Invalid config(s): {','.join(missing)}")
    admin.alter_quotas(client, entity, values | dict.fromkeys(deleted))


def _alter_credentials(client: Client, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    found = {mechanism: _credential(mechanism, text) for mechanism, text in added.items()}
    for mechanism in deleted:
        access.remove_credential(client, user, mechanism)
    for mechanism, (password, iterations) in found.items():
        access.set_password(client, user, [mechanism], password, iterations)


def _credential(mechanism: str, text: str) -> tuple[str, int]:
    """Return the password and the iterations of `[iterations=8192,password=...]`."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise UsageError(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    iterations = int(found[1]) if found[1] else _ITERATIONS_MIN
    if iterations < _ITERATIONS_MIN:
        raise UsageError(f"Iterations {iterations} is less than the minimum {_ITERATIONS_MIN} required for {mechanism}")
    if iterations > _ITERATIONS_MAX:
        raise UsageError(f"Iterations {iterations} is greater than the maximum {_ITERATIONS_MAX} allowed for {mechanism}")
    return found[2], iterations


def describe(client: Client, entities: Entities) -> None:
    """Print the quotas of entities of exactly these types, and the SCRAM credentials of users."""
    named = {QUOTA_TYPES[kind]: name or None for kind, name in entities if name is not None}
    any_of = [QUOTA_TYPES[kind] for kind, name in entities if name is None]
    found: dict[str, list[str]] = {}
    for each in admin.describe_quotas(client, named, strict=True, any_of=any_of):
        parts = [_part(kind, each.entity[of_quota]) for kind, of_quota in QUOTA_TYPES.items() if of_quota in each.entity]
        found.setdefault(", ".join(parts), []).append(f"{each.name}={_java_double(each.value)}")
    for entity, values in found.items():
        print(f"Quota configs for {entity} are {', '.join(values)}")
    (kind, name), *others = entities
    if kind == USERS and not others and name != "":
        _describe_credentials(client, name)


def _describe_credentials(client: Client, user: str | None) -> None:
    found: dict[str, list[str]] = {}
    for each in access.list_credentials(client, user):
        found.setdefault(each.user, []).append(f"{each.mechanism}=iterations={each.iterations}")
    for name, credentials in found.items():
        print(f"SCRAM credential configs for user-principal '{name}' are {', '.join(credentials)}")


def _part(kind: str, name: str | None) -> str:
    return f"the default {_SHOWN[kind]}" if name is None else f"{_SHOWN[kind]} '{name}'"


def _java_double(value: float) -> str:
    """Return a number as Java's Double.toString does: 512.0, and 1.048576E7 from 10^7 on."""
    if 1e-3 <= abs(value) < 1e7 or value == 0:
        return repr(float(value))
    digits, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
