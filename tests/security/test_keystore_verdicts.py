"""Key stores and trust stores as people have them: what Apache Kafka 4.3.1 takes, minibroker takes, with a handshake of a client."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import load_der_x509_certificate
from cryptography.x509.oid import NameOID

from minibroker.config.security_properties import ListenerProperties
from minibroker.errors import ConfigurationError
from minibroker.security.tls import ListenerTls, tls_of
from tests.golden.keystore_cases import CASES, client_context, properties_of, seen
from tests.support.failing import failing

_GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "keystores_kafka_4.3.1.json").read_text())
_CHAIN, _WHOLE_CHAIN = ["broker", "intermediate"], ["broker", "intermediate", "root"]
#: What differs from Apache Kafka on Java 17: names of certificates, clients that are served, or why the listener does not open.
DIFFERENCES: dict[str, Any] = {
    "PEM ed25519": _CHAIN,
    # Certificates are put in order; Kafka wants them in order.
    "PEM reversed": _WHOLE_CHAIN,
    "PEM intermediate-first": _CHAIN,
    "PEM issuers-out-of-order": _WHOLE_CHAIN,
    "PEM a-stranger-behind": [*_CHAIN, "other root"],
    "PEM a-stranger-first": [*_CHAIN, "other root"],
    "PEM leaf-twice": _CHAIN,
    "inline reversed": _WHOLE_CHAIN,
    # Keys are read by OpenSSL, which knows more.
    **{f"PEM {name}": _CHAIN for name in ("pkcs1", "sec1", "sec1-with-parameters", "pkcs1-aes256", "pkcs1-3des")},
    **{f"PEM pbes2-{name}": _CHAIN for name in ("aes256", "aes128-sha1", "3des", "scrypt")},
    "inline pkcs1": _CHAIN,
    "PEM not encrypted, but a password": _CHAIN,
    "PKCS12 openssl-plain": _WHOLE_CHAIN,
    "PKCS12 openssl-odd-password": _CHAIN,
    "PKCS12 with another password of the key": _WHOLE_CHAIN,  # ssl.key.password is for PEM and JKS alone
    # Kafka starts, and then no handshake succeeds.
    "PEM of-another-key": "ssl.keystore.location: the private key is that of another certificate",
    "PKCS12 trust store": "ssl.keystore.location: the file has no private key with a certificate",
    "JKS trust store": "ssl.keystore.location: the file has no private key",
    "trust PKCS12 keytool, no password": "listener.name.secure.ssl.truststore.password: the file is encrypted, and its password is not set",
    "trust PKCS12 with a key": "ssl.truststore.location: the file has no trusted certificate",
    "trust PKCS12 openssl": ["client", "other"],  # Java trusts only certificates that keytool has marked
    # A gap.
    "JCEKS": "ssl.keystore.type: JCEKS is not served: use PEM, PKCS12 or JKS",
}
#: Why a listener does not open, where Kafka refuses it as well.
REASONS = {
    "PEM two-keys": "ssl.keystore.location: 2 private keys found: exactly one is needed (BEGIN PRIVATE KEY)",
    "PEM no-certificate": "ssl.keystore.location: no certificate found (BEGIN CERTIFICATE)",
    "PEM no-key": "ssl.keystore.location: no private keys found: exactly one is needed (BEGIN PRIVATE KEY)",
    "PEM empty": "ssl.keystore.location: no private keys found: exactly one is needed (BEGIN PRIVATE KEY)",
    "PEM damaged-certificate": "ssl.keystore.location: OpenSSL cannot use the key or its certificates (unknown format)",
    "PEM damaged-key": "ssl.keystore.location: OpenSSL cannot use the key or its certificates (unknown format)",
    "PEM encrypted, no password": ("listener.name.secure.ssl.key.password: the private key is encrypted, and ssl.key.password is not set"),
    "PEM encrypted, wrong password": "ssl.key.password: the password of the key is wrong, or its encryption is not supported",
    "PEM of type PKCS12": "ssl.keystore.location: the file is PEM: set the type to PEM",
    "PKCS12 of type PEM": "ssl.keystore.location: the file is not PEM: set the type to PKCS12 or JKS",
    "PKCS12 wrong password": "ssl.keystore.password: the password is wrong, or the file is damaged",
    "JKS wrong password": "ssl.keystore.password: the password is wrong, or the file is damaged",
    "JKS without the password of the key": "listener.name.secure.ssl.key.password: the password of the key is wrong",
    "trust PEM damaged": "ssl.truststore.location: certificate 2 is damaged",
    "trust PEM no": "ssl.truststore.location: no certificate found (BEGIN CERTIFICATE)",
    "trust PKCS12 wrong password": "ssl.truststore.password: the password is wrong, or the file is damaged",
}


def test_stores_are_taken_as_by_apache_kafka(folder: Path) -> None:
    def check(case: str) -> None:
        kafkas = _GOLDEN["outcomes"][case]
        expected = REASONS[case] if case in REASONS else DIFFERENCES.get(case, kafkas)
        assert outcome(case, folder) == expected
        assert (case in REASONS) <= ("refused" in kafkas), kafkas
        assert case not in DIFFERENCES or expected != kafkas

    assert failing(CASES, check) == {}
    assert {*_GOLDEN["outcomes"]} == {*CASES}
    assert {*DIFFERENCES, *REASONS} <= {*CASES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    for name, text in _GOLDEN["files"].items():
        encoded = text.removeprefix("base64:")
        (folder / name).write_bytes(text.encode() if encoded == text else base64.b64decode(encoded))
    return folder


def outcome(case: str, folder: Path) -> Any:
    """Open a listener, and return what clients see."""
    try:
        tls = tls_of(ListenerProperties(properties_of(case, folder), "SECURE"), "SSL")
    except ConfigurationError as error:
        return str(error)
    return seen(case, lambda client: _connect(tls, client_context(folder, client)))


def _connect(tls: ListenerTls, context: ssl.SSLContext) -> list[str]:
    """Shake hands in memory; return the names of the certificates that are sent, or raise OSError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = tls.context.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    while waiting:
        for each in [*waiting]:
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                if each is client:
                    raise
                raise ConnectionError from error  # the server refuses the client
            waiting.remove(each)
    names = [load_der_x509_certificate(each).subject for each in tls.chain]
    return [str(name.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value) for name in names]
