"""Users and access control of a broker under test, and the configuration with which a client logs in.

A broker with users has one listener, SASL_PLAINTEXT. The test kit logs in as a user of its own, which is a super user.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from minibroker.errors import ConfigurationError
from minibroker.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from minibroker.server.initial_access import MECHANISMS, PLAIN, InitialAccess, User, initial_access

SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
_KIT: Final = "minibroker-testing"


class Access:
    """Who may log in at a broker under test, and what they may do."""

    def __init__(self, users: Mapping[str, str], super_users: Iterable[str] = (), acls: Iterable[str] = (), kit_password: str = "") -> None:
        """Check the entries.

        Args:
            users: passwords by name.
            super_users: names of users who may do everything.
            acls: entries such as `alice allow READ TOPIC orders-*`.
            kit_password: that of the kit's user, if another process made it.

        Raises:
            ConfigurationError: an entry is malformed.
        """
        self.kit_password = kit_password or secrets.token_urlsafe()
        self._given: dict[str, Any] = {"users": dict(users), "super_users": [*super_users], "acls": [*acls]}
        self._passwords = {**users, _KIT: self.kit_password}
        given = initial_access([], self._given["super_users"], self._given["acls"])
        own = [f"User:{_KIT}"] if given.super_users or given.acls else []
        everybody = tuple(User(name, password, MECHANISMS) for name, password in self._passwords.items())
        self.initial = InitialAccess(everybody, (*given.super_users, *own), given.acls)

    def to_json(self) -> dict[str, Any]:
        """Encode the arguments for the process of the broker."""
        return self._given | {"kit_password": self.kit_password}

    @property
    def kit_properties(self) -> dict[str, str]:
        """Client properties of the kit's user."""
        return self._java(_KIT, PLAIN)

    def client_config(self, client: str, user: str, mechanism: str) -> dict[str, Any]:
        """Return what a client's configuration needs besides the address."""
        if user not in self._passwords:
            raise ConfigurationError(
                f"user {user!r} is not one of the broker's: {', '.join(name for name in self._passwords if name != _KIT)}"
            )
        if mechanism not in MECHANISMS:
            raise ConfigurationError(f"mechanism {mechanism!r} is not one of {', '.join(MECHANISMS)}")
        make = self._forms().get(client)
        if make is None:
            raise ConfigurationError(f"client {client!r} is not one of {', '.join(self._forms())}")
        return make(user, mechanism)

    def _forms(self) -> dict[str, Callable[[str, str], dict[str, Any]]]:
        return {
            "confluent": self._librdkafka,
            "kafka-python": self._python,
            "aiokafka": self._python,
            "java": self._java,
            "spark": self._spark,
        }

    def _librdkafka(self, user: str, mechanism: str) -> dict[str, Any]:
        return {
            "security.protocol": SASL_PLAINTEXT,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": self._passwords[user],
        }

    def _python(self, user: str, mechanism: str) -> dict[str, Any]:
        return {
            "security_protocol": SASL_PLAINTEXT,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": self._passwords[user],
        }

    def _java(self, user: str, mechanism: str) -> dict[str, Any]:
        module = PLAIN_LOGIN_MODULE if mechanism == PLAIN else SCRAM_LOGIN_MODULE
        password = self._passwords[user].replace("\\", "\\\\").replace('"', '\\"')
        return {
            "security.protocol": SASL_PLAINTEXT,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
        }

    def _spark(self, user: str, mechanism: str) -> dict[str, Any]:
        return {f"kafka.{name}": value for name, value in self._java(user, mechanism).items()}


#: the name of the property with the brokers' addresses, by client
BOOTSTRAP: Final = {
    "confluent": "bootstrap.servers",
    "kafka-python": "bootstrap_servers",
    "aiokafka": "bootstrap_servers",
    "java": "bootstrap.servers",
    "spark": "kafka.bootstrap.servers",
}


def client_config(access: Access | None, bootstrap_servers: str, client: str, user: str | None, mechanism: str) -> dict[str, Any]:
    """Return the configuration of a client: the address, and how it logs in as `user`.

    Raises:
        ConfigurationError: client, user or mechanism are unknown, or the user is missing.
    """
    if client not in BOOTSTRAP:
        raise ConfigurationError(f"client {client!r} is not one of {', '.join(BOOTSTRAP)}")
    found = {BOOTSTRAP[client]: bootstrap_servers}
    if access is None:
        if user is not None:
            raise ConfigurationError(f"the broker has no users, so {user!r} cannot log in: start it with users={{{user!r}: PASSWORD}}")
        return found
    if user is None:
        raise ConfigurationError("the broker has users: say who logs in, with user=NAME")
    return found | access.client_config(client, user, mechanism)
