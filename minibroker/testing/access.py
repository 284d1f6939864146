"""TLS, users and access control of a broker under test, and the configuration with which a client connects and logs in.

Such a broker has one listener, whose protocol follows from them: SSL, SASL_PLAINTEXT or SASL_SSL.
The test kit connects as its own super user.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from minibroker.errors import ConfigurationError
from minibroker.security.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from minibroker.server.initial_access import MECHANISMS, PLAIN, InitialAccess, User, initial_access

if TYPE_CHECKING:
    from minibroker.testing.certificates import Certificates

KIT_USER: Final = "minibroker-testing"
#: by whether there are users and TLS; the listener has the name of its protocol
_PROTOCOLS: Final = {(True, False): "SASL_PLAINTEXT", (False, True): "SSL", (True, True): "SASL_SSL"}


class Access:
    """Who may connect to a broker under test, how, and what they may do."""

    def __init__(
        self,
        users: Mapping[str, str],
        super_users: Iterable[str] = (),
        acls: Iterable[str] = (),
        certificates: Certificates | None = None,
        kit_password: str = "",
    ) -> None:
        """Check the arguments.

        Args:
            users: passwords by name.
            super_users: names of users who may do everything.
            acls: entries such as `alice allow READ TOPIC orders-*`.
            certificates: of the broker and its clients; None: no TLS.
            kit_password: of the user of the test kit, if another process made it.

        Raises:
            ConfigurationError: an entry is malformed, or names users though clients have no names.
        """
        self.certificates = certificates
        self.kit_password = kit_password or secrets.token_urlsafe()
        self._arguments: dict[str, Any] = {"users": dict(users), "super_users": [*super_users], "acls": [*acls]}
        self._passwords = {**users, KIT_USER: self.kit_password} if users else {}
        self._is_mutual = certificates is not None and certificates.is_mutual
        parsed = initial_access([], self._arguments["super_users"], self._arguments["acls"])
        own = [f"User:{KIT_USER}"] if parsed.super_users or parsed.acls else []
        if own and not users and not self._is_mutual:
            raise ConfigurationError("super_users and acls need users={NAME: PASSWORD} or mtls=True: otherwise every client is ANONYMOUS")
        self.protocol = _PROTOCOLS[bool(users), certificates is not None]
        all_users = tuple(User(name, password, MECHANISMS) for name, password in self._passwords.items())
        self.initial = InitialAccess(all_users, (*parsed.super_users, *own), parsed.acls)

    def to_json(self) -> dict[str, Any]:
        """Encode the arguments for the process of the broker."""
        tls = None if self.certificates is None else self.certificates.to_json() | {"is_mutual": self.certificates.is_mutual}
        return self._arguments | {"kit_password": self.kit_password, "tls": tls}

    def broker_properties(self) -> dict[str, str]:
        """Return the properties of the broker."""
        found = self.initial.properties(self.protocol)
        return found if self.certificates is None else found | self.certificates.broker_properties(self.protocol)

    @property
    def kit_properties(self) -> dict[str, str]:
        """Client properties of the user of the test kit.

        It accepts any certificate, also faulty ones.
        """
        return self._java(KIT_USER, PLAIN) | {"enable.ssl.certificate.verification": "false", "ssl.endpoint.identification.algorithm": ""}

    def client_config(self, client: str, user: str | None, mechanism: str) -> dict[str, Any]:
        """Return the configuration of a client, without the address."""
        has_names = bool(self._passwords) or self._is_mutual
        if has_names and user is None:
            raise ConfigurationError("the broker has users: say who connects, with user=NAME")
        if not has_names and user is not None:
            raise ConfigurationError(f"the broker has no users, so {user!r} cannot log in: start it with users={{{user!r}: PASSWORD}}")
        if self._passwords and user not in self._passwords:
            known = ", ".join(name for name in self._passwords if name != KIT_USER)
            raise ConfigurationError(f"user {user!r} is not one of the broker's: {known}")
        if mechanism not in MECHANISMS:
            raise ConfigurationError(f"mechanism {mechanism!r} is not one of {', '.join(MECHANISMS)}")
        return self._forms()[client](user or "", mechanism)

    def _forms(self) -> dict[str, Callable[[str, str], dict[str, Any]]]:
        return {
            "confluent": self._librdkafka,
            "kafka-python": self._python,
            "aiokafka": self._python,
            "java": self._java,
            "spark": self._spark,
        }

    def _librdkafka(self, user: str, mechanism: str) -> dict[str, Any]:
        found = {"security.protocol": self.protocol}
        if self.certificates is not None:
            found |= self.certificates.librdkafka(user)
        if self._passwords:
            found |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": self._passwords[user]}
        return found

    def _python(self, user: str, mechanism: str) -> dict[str, Any]:
        found: dict[str, Any] = {"security_protocol": self.protocol}
        if self.certificates is not None:
            found["ssl_context"] = self.certificates.context(user)
        if self._passwords:
            found |= {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": self._passwords[user]}
        return found

    def _java(self, user: str, mechanism: str) -> dict[str, Any]:
        found = {"security.protocol": self.protocol}
        if self.certificates is not None:
            found |= self.certificates.java(user)
        if self._passwords:
            module = PLAIN_LOGIN_MODULE if mechanism == PLAIN else SCRAM_LOGIN_MODULE
            password = self._passwords[user].replace("\\", "\\\\").replace('"', '\\"')
            jaas = f'{module} required username="{user}" password="{password}";'
            found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
        return found

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
    """Return the configuration of a client: the address, and how it connects and logs in as `user`.

    Raises:
        ConfigurationError: client, user or mechanism are unknown, or the user is missing.
    """
    if client not in BOOTSTRAP:
        raise ConfigurationError(f"client {client!r} is not one of {', '.join(BOOTSTRAP)}")
    found = {BOOTSTRAP[client]: bootstrap_servers}
    if access is not None:
        return found | access.client_config(client, user, mechanism)
    if user is not None:
        raise ConfigurationError(f"the broker has no users, so {user!r} cannot log in: start it with users={{{user!r}: PASSWORD}}")
    return found
