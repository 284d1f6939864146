"""The users and access control entries that a broker has from its first request on: the options --sasl, --super-user and --acl of `serve`.

They become Kafka's own properties and records: PLAIN users are a JAAS entry of the listener, SCRAM users and access control entries are
records of the metadata log, which stay there. Writing them again at the next start changes a password, and adds no second entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.cluster.metadata.scram_credentials import ITERATIONS_MIN, ScramUpsertion, alter
from minibroker.config.broker_properties import STANDARD_AUTHORIZER
from minibroker.errors import ConfigurationError, KafkaError
from minibroker.security.acl import parse_acl, principal_of
from minibroker.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from minibroker.security.scram import NUMBERS, new_salt, salted_password

if TYPE_CHECKING:
    from minibroker.dispatch.context import Services
    from minibroker.security.acl import Acl

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *NUMBERS)


class User(NamedTuple):
    """A user that may log in."""

    name: str
    password: str
    mechanisms: tuple[str, ...]

    def __repr__(self) -> str:
        """Hide the password."""
        return f"User({self.name!r}, [hidden])"


class InitialAccess(NamedTuple):
    """Users, super users and access control entries."""

    users: tuple[User, ...] = ()
    super_users: tuple[str, ...] = ()  #: principals
    acls: tuple[Acl, ...] = ()

    def properties(self, listener_name: str) -> dict[str, str]:
        """Return the properties of a broker whose users log in at this listener."""
        found: dict[str, str] = {}
        if self.super_users or self.acls:
            found["authorizer.class.name"] = STANDARD_AUTHORIZER
        if self.super_users:
            found["super.users"] = ";".join(self.super_users)
        mechanisms = [each for each in MECHANISMS if any(each in user.mechanisms for user in self.users)]
        if mechanisms:
            prefix = f"listener.name.{listener_name.lower()}."
            found[f"{prefix}sasl.enabled.mechanisms"] = ",".join(mechanisms)
            for mechanism in mechanisms:
                found[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = self._jaas(mechanism)
        return found

    def write(self, services: Services) -> None:
        """Write SCRAM credentials and access control entries to the metadata log of a broker that has just opened its data.

        Raises:
            ConfigurationError: a user or an entry is invalid.
        """
        cluster = services.cluster
        changes = [_upsertion(user, mechanism) for user in self.users for mechanism in user.mechanisms if mechanism in NUMBERS]
        for mechanism in NUMBERS.values():  # two changes of one user in one call are refused
            records, outcomes = alter(cluster.image.kept, cluster.image.features, [each for each in changes if each.mechanism == mechanism])
            _check(outcomes)
            cluster.write_quotas_and_credentials(records)
        if self.acls and services.acls is not None:
            _check(dict(zip(map(str, self.acls), services.acls.create(self.acls), strict=True)))

    def _jaas(self, mechanism: str) -> str:
        if mechanism != PLAIN:
            return f"{SCRAM_LOGIN_MODULE} required;"
        users = " ".join(f"user_{user.name}={_quoted(user.password)}" for user in self.users if PLAIN in user.mechanisms)
        return f"{PLAIN_LOGIN_MODULE} required {users};"


def initial_access(users: Sequence[str], super_users: Sequence[str], acls: Sequence[str]) -> InitialAccess:
    """Read the options.

    Args:
        users: `NAME:PASSWORD` or `NAME:PASSWORD:MECHANISM`; without a mechanism the user may log in by PLAIN and both SCRAMs.
        super_users: names or principals.
        acls: as `parse_acl` reads them.

    Raises:
        ConfigurationError: one of them is malformed; the message has no password.
    """
    found = tuple(_user(text) for text in users)
    names = [user.name for user in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"--sasl: user {name} is given twice")
    entries = tuple(acl for text in acls for acl in parse_acl(text))
    return InitialAccess(found, tuple(map(principal_of, super_users)), entries)


def _user(text: str) -> User:
    name, colon, rest = text.partition(":")
    password, second, mechanism = rest.rpartition(":")
    if not second or mechanism not in MECHANISMS:
        password, mechanism = rest, ""
    if not name or not colon or not password:
        raise ConfigurationError(f"--sasl: write USER:PASSWORD or USER:PASSWORD:MECHANISM with a mechanism of {', '.join(MECHANISMS)}")
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise ConfigurationError(f"--sasl: the name {name!r} may have letters, digits, '.', '_' and '-' only")
    if not password.isprintable():
        raise ConfigurationError(f"--sasl: the password of {name} has a character that cannot be printed")
    return User(name, password, (mechanism,) if mechanism else MECHANISMS)


def _upsertion(user: User, mechanism: str) -> ScramUpsertion:
    salt = new_salt()
    salted = salted_password(mechanism, user.password.encode(), salt, ITERATIONS_MIN)
    return ScramUpsertion(user.name, NUMBERS[mechanism], ITERATIONS_MIN, salt, salted)


def _quoted(password: str) -> str:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _check(outcomes: Mapping[str, KafkaError | None]) -> None:
    for name, error in outcomes.items():
        if error is not None:
            raise ConfigurationError(f"{name}: {error}")
