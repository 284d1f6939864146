"""From properties to a context: what may be set together (DefaultSslEngineFactory), versions, cipher suites, and errors of one line."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest

from minibroker.config.secret import Secret
from minibroker.config.security_properties import ListenerProperties
from minibroker.errors import ConfigurationError
from minibroker.security.certificates import Authority, write_folder, write_keystore, write_pem
from minibroker.security.principals import NoPrincipal
from minibroker.security.tls import ListenerTls, tls_of

PASSWORD = "hunter2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    write_folder(folder, ["localhost", "127.0.0.1"])
    authority = Authority.load(folder)
    issued = authority.issue("broker", ["localhost"])
    write_keystore(folder / "broker.p12", issued, authority, Secret(PASSWORD))
    write_pem(folder / "encrypted.pem", issued, authority, Secret(PASSWORD))
    write_pem(folder / "mixed.pem", issued._replace(key=authority.issue("other").key), authority)
    return folder


def tls(folder: Path, protocol: str = "SSL", /, **properties: str) -> ListenerTls:
    texts = {name.replace("_", "."): text.replace("DIR", str(folder)) for name, text in properties.items()}
    return tls_of(ListenerProperties(texts, "SECURE"), protocol)


PEM = {"ssl_keystore_type": "PEM", "ssl_keystore_location": "DIR/broker.pem"}
TRUST = {"ssl_truststore_type": "PEM", "ssl_truststore_location": "DIR/ca.pem"}


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({}, r"ssl\.keystore\.location: listener SECURE has no private key"),
        (
            {"ssl_keystore_type": "JCEKS", "ssl_keystore_location": "x"},
            r"^ssl\.keystore\.type: JCEKS is not served: use PEM, PKCS12",
        ),
        ({"ssl_keystore_location": "x"}, r"ssl\.keystore\.password: it is missing: a key store of type JKS needs it"),
        ({"ssl_keystore_password": PASSWORD}, r"ssl\.keystore\.location: it is missing, although ssl\.keystore\.password is set"),
        (PEM | {"ssl_keystore_password": PASSWORD}, r"^ssl\.keystore\.password: a PEM key store has none: remove it"),
        ({"ssl_keystore_key": "k"}, r"ssl\.keystore\.type: a private key as text needs the type PEM, not JKS"),
        ({"ssl_keystore_type": "PEM", "ssl_keystore_key": "k"}, r"ssl\.keystore\.certificate\.chain: it is missing"),
        ({"ssl_keystore_type": "PEM", "ssl_keystore_certificate_chain": "c"}, r"ssl\.keystore\.key: it is missing"),
        (PEM | {"ssl_keystore_key": "k", "ssl_keystore_certificate_chain": "c"}, r"^ssl\.keystore\.location: remove it"),
        (
            {"ssl_keystore_type": "PEM", "ssl_keystore_key": "k", "ssl_keystore_certificate_chain": "c"},
            r"^ssl\.keystore\.key: no private keys found",
        ),
        (PEM | {"ssl_keystore_location": "DIR/missing"}, r"^ssl\.keystore\.location: .*missing: No such file"),
        (PEM | {"ssl_keystore_location": "DIR/broker.p12"}, r"^ssl\.keystore\.location: the file is not PEM"),
        (PEM | {"ssl_keystore_location": "DIR/ca.pem"}, r"^ssl\.keystore\.location: no private keys found"),
        (
            PEM | {"ssl_keystore_location": "DIR/mixed.pem"},
            r"^ssl\.keystore\.location: the private key is that of another certificate",
        ),
        (PEM | {"ssl_keystore_location": "DIR/encrypted.pem"}, r"ssl\.key\.password: .*encrypted"),
        (PEM | {"ssl_keystore_location": "DIR/encrypted.pem", "ssl_key_password": "wrong!"}, r"^ssl\.key\.password: the password is wrong"),
        (
            {"ssl_keystore_location": "DIR/broker.p12", "ssl_keystore_password": "wrong!"},
            r"^ssl\.keystore\.password: the password is",
        ),
        ({"ssl_keystore_location": "DIR/broker.pem", "ssl_keystore_password": PASSWORD}, r"the file is PEM: set the type to PEM"),
        (PEM | {"ssl_client_auth": "maybe"}, r"Invalid value maybe for configuration ssl\.client\.auth"),
        (PEM | {"ssl_enabled_protocols": "TLSv1.1"}, r"^ssl\.enabled\.protocols: none of these versions of TLS is supported"),
        (PEM | {"ssl_enabled_protocols": "TLS1.3"}, r"^ssl\.enabled\.protocols: TLS1\.3 is not a version of TLS"),
        (PEM | {"ssl_cipher_suites": "AES"}, r"^ssl\.cipher\.suites: none of these suites can be served"),
        (PEM | {"ssl_principal_mapping_rules": "RULE:x"}, r"Invalid rule"),
        (PEM | {"ssl_truststore_password": PASSWORD}, r"ssl\.truststore\.location: it is missing"),
        (PEM | TRUST | {"ssl_truststore_password": PASSWORD}, r"^ssl\.truststore\.password: a PEM trust store has none"),
        (PEM | TRUST | {"ssl_truststore_certificates": "c"}, r"^ssl\.truststore\.location: remove it"),
        (PEM | {"ssl_truststore_certificates": "c"}, r"ssl\.truststore\.type: certificates as text need the type PEM"),
        (PEM | TRUST | {"ssl_truststore_location": "DIR/ca.key"}, r"^ssl\.truststore\.location: no certificate found"),
    ],
)
def test_an_error_names_the_property_to_change(folder: Path, properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as refused:
        tls(folder, **properties)
    assert "\n" not in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert "wrong!" not in str(refused.value)


def test_the_error_names_the_prefix_in_force(folder: Path) -> None:
    texts = {"listener.name.secure.ssl.keystore.type": "PEM", "listener.name.secure.ssl.keystore.location": "/missing"}
    with pytest.raises(ConfigurationError, match=r"^listener\.name\.secure\.ssl\.keystore\.location: /missing: No such file"):
        tls_of(ListenerProperties(texts, "SECURE"), "SSL")
    texts = {"ssl.keystore.password": PASSWORD, "listener.name.secure.ssl.keystore.type": "PEM"}
    texts |= {"listener.name.secure.ssl.keystore.location": str(folder / "broker.pem")}
    with pytest.raises(ConfigurationError, match=r"^ssl\.keystore\.password: a PEM key store has none"):  # inherited
        tls_of(ListenerProperties(texts, "SECURE"), "SSL")


@pytest.mark.parametrize(
    "properties",
    [
        PEM,
        {"ssl_keystore_location": "DIR/broker.p12", "ssl_keystore_password": PASSWORD},
        {"ssl_keystore_type": "PKCS12", "ssl_keystore_location": "DIR/broker.p12", "ssl_keystore_password": PASSWORD},
        {"ssl_keystore_type": "PEM", "ssl_keystore_location": "DIR/encrypted.pem", "ssl_key_password": PASSWORD},
        PEM | TRUST | {"ssl_client_auth": "required"},
        PEM | {"ssl_truststore_location": "DIR/truststore.p12", "ssl_truststore_password": "minibroker", "ssl_client_auth": "requested"},
    ],
)
def test_what_kafka_accepts_is_accepted(folder: Path, properties: dict[str, str]) -> None:
    made = tls(folder, **properties)
    wanted = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL}.get(properties.get("ssl_client_auth", ""), ssl.CERT_NONE)
    assert made.context.verify_mode == wanted
    assert made.context.options & ssl.OP_NO_RENEGOTIATION
    assert bool(made.context.options & ssl.OP_NO_TICKET) == (wanted != ssl.CERT_NONE)


def test_inline_pem(folder: Path) -> None:
    text = (folder / "broker.pem").read_text()
    key, _, chain = text.partition("-----BEGIN CERTIFICATE")
    made = tls(
        folder, ssl_keystore_type="PEM", ssl_keystore_key=key, ssl_keystore_certificate_chain=f"-----BEGIN CERTIFICATE{chain}",
        ssl_truststore_type="PEM", ssl_truststore_certificates=(folder / "ca.pem").read_text(), ssl_client_auth="required",
    )  # fmt: skip
    assert len(made.chain) == 2
    assert made.context.cert_store_stats()["x509"] == 1


def test_versions_and_suites(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    new, old = ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"

    def limits(**properties: str) -> tuple[int, int]:
        context = tls(folder, **PEM, **properties).context
        return context.minimum_version, context.maximum_version

    assert limits() == (old, new)
    assert limits(ssl_enabled_protocols="TLSv1.3") == (new, new)
    assert limits(ssl_enabled_protocols="TLSv1.2") == (old, old)
    assert limits(ssl_cipher_suites=suite) == (old, old)
    assert limits(ssl_cipher_suites="TLS_AES_256_GCM_SHA384") == (new, new)
    assert limits(ssl_cipher_suites=f"TLS_AES_256_GCM_SHA384,{suite}") == (old, new)
    context = tls(folder, **PEM, ssl_cipher_suites=suite).context
    assert [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"] == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
    assert not caplog.records
    assert limits(ssl_cipher_suites=f"{suite},TLS_FOO", ssl_enabled_protocols="TLSv1.1,TLSv1.2") == (old, old)
    assert [record.getMessage() for record in caplog.records] == [
        "ssl.enabled.protocols: TLSv1.1 is not served, because it is not secure",
        "ssl.cipher.suites: TLS_FOO cannot be served: OpenSSL does not have it",
    ]


def test_sasl_ssl_asks_for_certificates_with_its_own_prefix_only(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    made = tls(folder, "SASL_SSL", **PEM, ssl_client_auth="required")
    assert made.context.verify_mode == ssl.CERT_NONE
    assert "set listener.name.secure.ssl.client.auth" in caplog.text
    assert made.principal_of(made.chain[0]) == "User:ANONYMOUS"
    own = tls(folder, "SASL_SSL", **PEM, **TRUST, listener_name_secure_ssl_client_auth="required")
    assert own.context.verify_mode == ssl.CERT_REQUIRED


def test_the_principal_of_a_certificate(folder: Path) -> None:
    made = tls(folder, **PEM, ssl_principal_mapping_rules="RULE:^CN=(.*)$/$1/U")
    assert made.principal_of(None) == "User:ANONYMOUS"
    assert made.principal_of(made.chain[0]) == "User:BROKER"
    with pytest.raises(NoPrincipal, match="cannot be read"):
        made.principal_of(made.chain[0][:-10])


def test_a_folder_is_kept_and_follows_its_hosts(tmp_path: Path) -> None:
    write_folder(tmp_path, ["localhost"])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name for name in before if (tmp_path / name).stat().st_mode & 0o077 == 0} == {"ca.key", "broker.pem", "client.pem"}
    write_folder(tmp_path, ["localhost"])
    assert (tmp_path / "broker.pem").read_bytes() == before["broker.pem"]
    write_folder(tmp_path, ["localhost", "other.example", "::1"])
    assert (tmp_path / "broker.pem").read_bytes() != before["broker.pem"]
    assert (tmp_path / "ca.pem").read_bytes() == before["ca.pem"]
    assert (tmp_path / "client.pem").read_bytes() == before["client.pem"]
