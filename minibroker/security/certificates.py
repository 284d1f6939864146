"""Make a certificate authority and certificates for a broker and a client: what `serve --tls` and tests use.

Keys are ECDSA P-256, whose handshakes cost a fifth of those of RSA-2048. A folder has:

    ca.pem, ca.key          the authority
    broker.pem              key and chain of the broker, for ssl.keystore.location
    client.pem              key and chain of a client, for mutual TLS
    truststore.p12          the authority for Java, with the password of `TRUSTSTORE_PASSWORD`, which protects nothing
    client.properties       what Java clients need; librdkafka.properties the same for clients of librdkafka

Files with keys have the mode 0600.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.config.secret import Secret
from minibroker.security import needs_extra

if TYPE_CHECKING:
    from cryptography import x509

try:
    from cryptography import x509 as _x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import pkcs12
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise needs_extra("creating certificates") from None

TRUSTSTORE_PASSWORD: Final = "minibroker"  # noqa: S105  Java wants one; the file has public certificates only
_DAYS: Final = 3650
_CA_NAME: Final = "minibroker CA"
_KEY_MODE: Final = 0o600


class Issued(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> str:
        """The certificate as PEM text."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self, password: Secret | None = None) -> str:
        """Return the key as PEM text (PKCS#8), encrypted if there is a password."""
        encryption: Any = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.reveal().encode())
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


class Authority:
    """A certificate authority that signs certificates."""

    def __init__(self, issued: Issued) -> None:
        self.issued = issued

    @classmethod
    def create(cls, name: str = _CA_NAME) -> Authority:
        """Create an authority with a new key."""
        return cls(_issue(name, None, is_authority=True))

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """Read ca.pem and ca.key of a folder. Raise OSError or ValueError if they cannot be used."""
        return cls.of_pem((folder / "ca.pem").read_text("ascii"), (folder / "ca.key").read_text("ascii"))

    @classmethod
    def of_pem(cls, certificate: str, key: str) -> Authority:
        """Read an authority from PEM texts. Raise ValueError if they cannot be used."""
        found = serialization.load_pem_private_key(key.encode(), None)
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise ValueError("ca.key is not an ECDSA key")  # noqa: TRY004  a file, not an argument
        return cls(Issued(_x509.load_pem_x509_certificate(certificate.encode()), found))

    def issue(
        self,
        name: str,
        hosts: Iterable[str] = (),
        *,
        valid_from: datetime | None = None,
        valid_until: datetime | None = None,
        subject: x509.Name | None = None,
    ) -> Issued:
        """Sign a certificate.

        Args:
            name: The common name, for example of a user.
            hosts: Names and addresses that a broker's certificate is valid for.
            valid_from: An hour ago by default.
            valid_until: Ten years from now by default. An earlier time makes an expired certificate.
            subject: The whole distinguished name, if it has more than the common name.
        """
        return _issue(name, self.issued, hosts, valid_from=valid_from, valid_until=valid_until, subject=subject)


def _issue(
    name: str,
    authority: Issued | None,
    hosts: Iterable[str] = (),
    *,
    is_authority: bool = False,
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
    subject: x509.Name | None = None,
) -> Issued:
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    own_name = subject or _x509.Name([_x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer_key = key if authority is None else authority.key
    builder = (
        _x509.CertificateBuilder()
        .subject_name(own_name)
        .issuer_name(own_name if authority is None else authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(_x509.random_serial_number())
        .not_valid_before(valid_from or min(now, valid_until or now) - timedelta(hours=1))
        .not_valid_after(valid_until or now + timedelta(days=_DAYS))
        .add_extension(_x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(_x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(_usage(is_authority=is_authority), critical=True)
    )
    if not is_authority:
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(_x509.ExtendedKeyUsage(usages), critical=False)
    names = [_general_name(host) for host in dict.fromkeys(hosts)]
    if names:
        builder = builder.add_extension(_x509.SubjectAlternativeName(names), critical=False)
    return Issued(builder.sign(issuer_key, hashes.SHA256()), key)


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return _x509.KeyUsage(
        digital_signature=True, key_cert_sign=is_authority, crl_sign=is_authority, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general_name(host: str) -> x509.GeneralName:
    try:
        return _x509.IPAddress(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return _x509.DNSName(host)


def write_folder(folder: Path, hosts: Iterable[str], client_name: str = "client", protocol: str = "SSL") -> None:
    """Write all files of a folder, which keeps its authority and, while they fit the hosts, its certificates.

    Args:
        folder: Created if it is missing.
        hosts: Names and addresses that the broker's certificate must be valid for.
        client_name: The common name of the client's certificate.
        protocol: SSL or SASL_SSL, for the files of properties.

    Raises:
        OSError: A file cannot be read or written.
        ValueError: ca.pem or ca.key cannot be used.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / "ca.key").exists():
        authority = Authority.load(folder)
    else:
        authority = Authority.create()
        write_key(folder / "ca.key", authority.issued.key_pem())
        (folder / "ca.pem").write_text(authority.issued.certificate_pem, encoding="ascii")
        (folder / "broker.pem").unlink(missing_ok=True)
        (folder / "client.pem").unlink(missing_ok=True)
    wanted = list(dict.fromkeys(hosts))
    if not _is_valid_for(folder / "broker.pem", wanted):
        write_pem(folder / "broker.pem", authority.issue("broker", wanted), authority)
    if not _is_valid_for(folder / "client.pem", []):
        write_pem(folder / "client.pem", authority.issue(client_name), authority)
    write_truststore(folder / "truststore.p12", authority)
    _write_client_properties(folder, protocol)


def write_pem(path: Path, issued: Issued, authority: Authority, password: Secret | None = None) -> None:
    """Write key and chain into one file with the mode 0600, as ssl.keystore.location with the type PEM takes it."""
    write_key(path, issued.key_pem(password) + issued.certificate_pem + authority.issued.certificate_pem)


def write_truststore(path: Path, authority: Authority) -> None:
    """Write a PKCS12 trust store that Java reads."""
    encryption = serialization.BestAvailableEncryption(TRUSTSTORE_PASSWORD.encode())
    path.write_bytes(pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(authority.issued.certificate, b"ca")], encryption))


def write_keystore(path: Path, issued: Issued, authority: Authority, password: Secret) -> None:
    """Write key and chain as PKCS12 with the mode 0600."""
    encryption = serialization.BestAvailableEncryption(password.reveal().encode())
    chain = [authority.issued.certificate]
    _write_private(path, pkcs12.serialize_key_and_certificates(b"key", issued.key, issued.certificate, chain, encryption))


def write_key(path: Path, text: str) -> None:
    """Write a text with a key: the mode is 0600 from the start."""
    _write_private(path, text.encode("ascii"))


def _write_private(path: Path, data: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _KEY_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    new.replace(path)


def _is_valid_for(path: Path, hosts: list[str]) -> bool:
    """Whether a certificate is there, lives for another month, and has all hosts."""
    try:
        certificate = _x509.load_pem_x509_certificate(path.read_bytes())
        if certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=30):
            return False
        if not hosts:
            return True
        names = certificate.extensions.get_extension_for_class(_x509.SubjectAlternativeName).value
    except (OSError, ValueError, _x509.ExtensionNotFound):
        return False
    return all(_general_name(host) in list(names) for host in hosts)


def _write_client_properties(folder: Path, protocol: str) -> None:
    where = folder.absolute()
    java = f"security.protocol={protocol}\nssl.truststore.type=PEM\nssl.truststore.location={where / 'ca.pem'}\n"
    mutual = f"# mutual TLS:\n#ssl.keystore.type=PEM\n#ssl.keystore.location={where / 'client.pem'}\n"
    (folder / "client.properties").write_text(java + mutual, encoding="utf-8")
    pem = where / "client.pem"
    (folder / "librdkafka.properties").write_text(
        f"security.protocol={protocol.lower()}\nssl.ca.location={where / 'ca.pem'}\n"
        f"# mutual TLS:\n#ssl.certificate.location={pem}\n#ssl.key.location={pem}\n",
        encoding="utf-8",
    )
