"""Portable client configurations: they need no files, keep their settings, and are valid for Java's clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from minibroker.client.security.settings import read_settings
from minibroker.client.security.tls import ClientTls
from minibroker.errors import ConfigurationError
from minibroker.spark.client_config import portable
from tests.support.certificates import Authority, pkcs12_of

STORE = "of the store"


@pytest.mark.parametrize("form", ["librdkafka", "PEM", "PKCS12", "encrypted"])
def test_files_become_texts(tmp_path: Path, form: str) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("alice", key_password=STORE if form == "encrypted" else None)
    properties = {"security.protocol": "ssl", "client.id": "x", "ssl.endpoint.identification.algorithm": "none"}
    if form == "librdkafka":
        (tmp_path / "key").write_text(issued.key_pem)
        (tmp_path / "certificate").write_text(issued.chain_pem)
        properties |= {"ssl.ca.location": str(authority.file), "ssl.key.location": str(tmp_path / "key")}
        properties |= {"ssl.certificate.location": str(tmp_path / "certificate"), "enable.ssl.certificate.verification": "true"}
    else:
        if form == "PKCS12":
            issued.file.write_bytes(pkcs12_of(issued, STORE))
        properties |= {"ssl.truststore.location": str(authority.file), "ssl.keystore.location": str(issued.file)}
        properties |= {"PKCS12": {"ssl.keystore.password": STORE}, "encrypted": {"ssl.key.password": STORE}}.get(form, {})
    found = portable(properties)
    assert found["ssl.truststore.certificates"].count("BEGIN CERTIFICATE") == 1
    assert found["ssl.keystore.certificate.chain"].count("BEGIN CERTIFICATE") == 2
    assert found["ssl.keystore.key"].startswith(f"-----BEGIN {'ENCRYPTED ' if form == 'encrypted' else ''}PRIVATE KEY-----\n")
    assert {name for name in found if "location" in name or name == "client.id"} == set()
    assert ("ssl.key.password" in found) == (form == "encrypted")
    assert found["ssl.endpoint.identification.algorithm"] == ""
    assert portable(found) == found
    settings = read_settings(found).tls
    assert settings is not None
    ClientTls(settings)


def test_logins() -> None:
    for mechanism, module in (("PLAIN", "plain.Plain"), ("SCRAM-SHA-256", "scram.Scram")):
        user = {"sasl.mechanisms": mechanism, "sasl.username": "al\\ice", "sasl.password": 'pa"ss; x'}
        found = portable({"security.protocol": "SASL_PLAINTEXT", **user})
        assert found["sasl.jaas.config"].startswith(f"org.apache.kafka.common.security.{module}LoginModule required username=")
        sasl = read_settings(found).sasl
        assert sasl is not None
        assert (sasl.mechanism, sasl.user, sasl.password.reveal()) == (mechanism, "al\\ice", 'pa"ss; x')
    token = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="id" password="hmac" tokenauth=true;'
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": token}
    assert read_settings(portable(login)) == read_settings(login)
    bearer = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": "principal=alice"}
    sasl = read_settings(portable(bearer)).sasl
    assert sasl is not None
    assert sasl.user == "alice"
    assert portable({"bootstrap.servers": "x:1"}) == {"security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}, "Java's clients always verify certificates"),
        ({"security.protocol": "SSL", "ssl.keystore.certificate.chain": "x", "ssl.keystore.key": "y"}, "it has no private key"),
        (
            {
                "security.protocol": "SSL",
                "ssl.keystore.certificate.chain": "x",
                "ssl.keystore.key": "-----BEGIN RSA PRIVATE KEY-----\n-----END RSA PRIVATE KEY-----",
            },
            "PKCS#8 only",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.password": "a.b.c"}, "signed token"),
    ],
)
def test_properties_that_java_cannot_have(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        portable(properties)
