"""Our client at each kind of listener of Apache Kafka 4.3.1, with the right configuration and with each wrong one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minibroker.client.client import Client
from minibroker.client.errors import SecurityFailed, SecurityPart
from minibroker.client.security.connecting import connector
from tests.support.secured_kafka import PASSWORD, SUPER_USER, SecuredKafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("kafka")) as made:
        yield made


def topics(kafka: SecuredKafka, listener: str, text: str) -> list[str | None]:
    """Ask for topics with properties in short form; CA and PW stand for the test's own."""
    text = text.replace("CA", f"ssl.ca.location={kafka.authority.file}").replace("PW", PASSWORD)
    properties = dict(part.split("=", 1) for part in text.split(" | "))
    with Client(kafka.addresses[listener], timeout_ms=20_000, connect=connector(properties)) as client:
        return [topic.name for topic in client.metadata(None).topics]


USER = f"sasl.mechanism=PLAIN | sasl.username={SUPER_USER} | sasl.password=PW"
TOKEN = f"sasl.mechanism=OAUTHBEARER | sasl.oauthbearer.config=principal={SUPER_USER}"


def test_every_security_protocol(kafka: SecuredKafka) -> None:
    assert topics(kafka, "PLAINTEXT", "security.protocol=PLAINTEXT") == []
    assert topics(kafka, "SSL", "security.protocol=SSL | CA") == []
    assert topics(kafka, "SASL_PLAINTEXT", f"security.protocol=SASL_PLAINTEXT | {USER}") == []
    assert topics(kafka, "SASL_SSL", f"security.protocol=SASL_SSL | {USER} | CA") == []
    assert topics(kafka, "SASL_SSL", f"security.protocol=SASL_SSL | {TOKEN} | CA") == []
    issued = kafka.authority.issue("client", (), key_password="of the key")
    mine = f"ssl.keystore.type=PEM | ssl.keystore.location={issued.file} | ssl.key.password=of the key"
    assert topics(kafka, "MUTUAL", f"security.protocol=SSL | CA | {mine}") == []
    assert topics(kafka, "STRANGER", "security.protocol=SSL | CA | ssl.endpoint.identification.algorithm=") == []


#: listener, properties -> what is wrong, and words of the message
WRONG = {
    ("SSL", "security.protocol=SSL"): (SecurityPart.CA, "does not trust the issuer"),
    ("STRANGER", "security.protocol=SSL | CA"): (SecurityPart.HOST_NAME, "but for broker.example"),
    ("EXPIRED", "security.protocol=SSL | CA"): (SecurityPart.EXPIRED, "has expired"),
    ("MUTUAL", "security.protocol=SSL | CA"): (SecurityPart.CLIENT_CERTIFICATE, "requires a certificate of the client"),
    ("SSL", "security.protocol=PLAINTEXT"): (SecurityPart.PROTOCOL, "a listener with TLS"),
    ("SASL_PLAINTEXT", "security.protocol=PLAINTEXT"): (SecurityPart.PROTOCOL, "a listener with SASL"),
    ("PLAINTEXT", "security.protocol=SSL | CA"): (SecurityPart.PROTOCOL, "without TLS: set security.protocol=PLAINTEXT"),
    ("SASL_PLAINTEXT", "security.protocol=SSL | CA"): (SecurityPart.PROTOCOL, "without TLS: set security.protocol=SASL_PLAINTEXT"),
    ("SASL_SSL", "security.protocol=SSL | CA"): (SecurityPart.PROTOCOL, "security.protocol=SASL_SSL"),
    ("SSL", f"security.protocol=SASL_SSL | CA | {USER}"): (SecurityPart.PROTOCOL, "a listener without SASL"),
    ("SASL_SSL", f"security.protocol=SASL_PLAINTEXT | {USER}"): (SecurityPart.PROTOCOL, "a listener with TLS"),
    ("SASL_SSL", f"security.protocol=SASL_SSL | CA | {USER}, "): (SecurityPart.PASSWORD, "rejects user admin"),
    ("SASL_SSL", "security.protocol=SASL_SSL | CA | sasl.mechanism=SCRAM-SHA-512 | sasl.username=nobody | sasl.password=PW"): (
        SecurityPart.PASSWORD,
        "unknown with SCRAM-SHA-512",
    ),
}


def test_each_mistake_is_named_at_once_in_one_line(kafka: SecuredKafka) -> None:
    found = {}
    for listener, properties in WRONG:
        with pytest.raises(SecurityFailed) as raised:
            topics(kafka, listener, properties)
        message = str(raised.value)
        assert PASSWORD not in message
        assert "\n" not in message
        assert WRONG[listener, properties][1] in message
        found[listener, properties] = (raised.value.part, WRONG[listener, properties][1])
    assert found == WRONG
