"""Certificates for tests: an authority, and keys with certificates that it signs, as PEM files."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import NameOID

HERE = ("localhost", "127.0.0.1", "::1")


class Authority:
    """A certificate authority with its certificate in `folder`/NAME.pem."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = builder.sign(self._key, hashes.SHA256())
        self._certificate = certificate
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(
        self, name: str, hosts: tuple[str, ...] = HERE, *, days: tuple[int, int] = (-1, 30), key_password: str | None = None
    ) -> Issued:
        """Sign a certificate that is valid between two days from now; its file holds the key (PKCS#8), then the chain."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_alternative(host) for host in hosts]
        builder = _builder(_name(name), self._name, key.public_key(), days)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        encryption = BestAvailableEncryption(key_password.encode()) if key_password else NoEncryption()
        key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        chain_pem = certificate.public_bytes(Encoding.PEM) + self._certificate.public_bytes(Encoding.PEM)
        file = self._folder / f"{name}.pem"
        file.write_bytes(key_pem + chain_pem)
        return Issued(file, key_pem.decode(), chain_pem.decode())


class Issued(NamedTuple):
    """A key and its certificate."""

    file: Path
    key_pem: str
    chain_pem: str


def pkcs12_of(issued: Issued, password: str) -> bytes:
    """Return a key and its certificate as a PKCS12 file."""
    key = load_pem_private_key(issued.key_pem.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    own, *others = x509.load_pem_x509_certificates(issued.chain_pem.encode())
    return pkcs12.serialize_key_and_certificates(b"key", key, own, others, BestAvailableEncryption(password.encode()))


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: tuple[int, int] = (-1, 30)
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(issuer_name=issuer, subject_name=name, public_key=key, serial_number=x509.random_serial_number())
    return builder.not_valid_before(now + dt.timedelta(days=days[0])).not_valid_after(now + dt.timedelta(days=days[1]))
