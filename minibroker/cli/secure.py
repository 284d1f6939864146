"""The security options of `serve`: users, access control entries, a folder of certificates, and the first super user.

The folder is beside the data directory, because Apache Kafka does not open a data directory that has folders other than those
of partitions.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError

if TYPE_CHECKING:
    from minibroker.server.initial_access import InitialAccess

ADMIN: Final = "admin"  #: the super user of --secure
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
#: (has users, has TLS) -> protocol, which is also the name of the listener
_PROTOCOLS: Final = {(False, False): "PLAINTEXT", (True, False): "SASL_PLAINTEXT", (False, True): "SSL", (True, True): "SASL_SSL"}


class TlsFolder(NamedTuple):
    """The folder of certificates that `serve` creates."""

    path: Path
    protocol: str
    is_mutual: bool

    def properties(self) -> dict[str, str]:
        """Return the properties of a broker whose listener uses it."""
        prefix = f"listener.name.{self.protocol.lower()}.ssl."
        found = {f"{prefix}keystore.type": "PEM", f"{prefix}keystore.location": str(self.path / "broker.pem")}
        if self.is_mutual:
            found |= {
                f"{prefix}client.auth": "required",
                f"{prefix}truststore.type": "PEM",
                f"{prefix}truststore.location": str(self.path / "ca.pem"),
            }
        return found

    def write(self, config: BrokerConfig) -> None:
        """Create missing files, with certificates for this machine and the advertised hosts.

        Raises:
            ConfigurationError: the folder cannot be used, or a package is missing.
        """
        from minibroker.security.certificates import write_folder  # noqa: PLC0415  needs the package cryptography

        hosts = [*_LOCAL_HOSTS, socket.gethostname(), *(listener.host for listener in config.advertised_listeners)]
        try:
            write_folder(self.path, [host for host in hosts if host], protocol=self.protocol)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"--tls-dir: {self.path} cannot be used: {error}") from error

    def admin_password(self) -> tuple[str, bool]:
        """Return the password of the super user of --secure, and whether it is a new one."""
        import secrets  # noqa: PLC0415  only --secure needs it

        from minibroker.security.certificates import write_key  # noqa: PLC0415  needs the package cryptography

        file = self.path / "admin.password"
        try:
            if file.exists():
                return file.read_text(encoding="ascii").strip(), False
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            password = secrets.token_urlsafe(18)
            write_key(file, password + "\n")
            write_key(self.path / "admin.properties", self._admin_properties(password))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"--tls-dir: {self.path} cannot be used: {error}") from error
        return password, True

    def _admin_properties(self, password: str) -> str:
        lines: Mapping[str, str] = {
            "security.protocol": self.protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.path.absolute() / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{ADMIN}" password="{password}";',
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())


class SecurityOptions(NamedTuple):
    """The result of the security options."""

    protocol: str  #: of the listener
    option: str | None  #: the option that requires another protocol than PLAINTEXT
    access: InitialAccess | None  #: None: clients need no login and may do everything
    tls: TlsFolder | None
    new_password: str | None  #: of the super user of --secure, if this start created it

    @property
    def admin_file(self) -> Path | None:
        """The client properties of the super user of --secure."""
        return None if self.tls is None else self.tls.path.absolute() / "admin.properties"

    def properties(self) -> dict[str, str]:
        """Return the broker's properties."""
        found = {} if self.access is None else self.access.properties(self.protocol)
        return found | ({} if self.tls is None else self.tls.properties())

    def prepare(self, config: BrokerConfig) -> None:
        """Create the certificates that the broker needs.

        Raises:
            ConfigurationError: the folder cannot be used, or a package is missing.
        """
        if self.tls is not None:
            self.tls.write(config)


def protocol_of(*, has_users: bool, has_tls: bool) -> str:
    """Return the security protocol of the listener, which is also its name."""
    return _PROTOCOLS[has_users, has_tls]


def security_of(
    users: tuple[str, ...],
    super_users: tuple[str, ...],
    acls: tuple[str, ...],
    folder: str,
    *,
    is_secure: bool,
    has_tls: bool,
    is_mutual: bool,
) -> SecurityOptions:
    """Read the options.

    Raises:
        ConfigurationError: one of them is malformed, or the folder cannot be used.
    """
    has_tls = has_tls or is_mutual or is_secure
    option = "--secure" if is_secure else "--sasl" if users else "--tls" if has_tls else None
    protocol = protocol_of(has_users=bool(users) or is_secure, has_tls=has_tls)
    tls = TlsFolder(Path(folder), protocol, is_mutual) if has_tls else None
    password, is_new = tls.admin_password() if is_secure and tls is not None else ("", False)
    if is_secure:
        users, super_users = (*users, f"{ADMIN}:{password}"), (*super_users, ADMIN)
    access = None
    if users or super_users or acls:
        from minibroker.server.initial_access import initial_access  # noqa: PLC0415  most brokers have no access control

        access = initial_access(users, super_users, acls)
    return SecurityOptions(protocol, option, access, tls, password if is_new else None)
