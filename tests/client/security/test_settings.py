"""Settings from client properties of Java and librdkafka. Errors name the property and contain no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from minibroker.client.security import settings as module
from minibroker.client.security.settings import SecuritySettings, read_settings
from minibroker.errors import ConfigurationError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism="


def settings(text: str) -> SecuritySettings:
    return read_settings(dict(line.split("=", 1) for line in text.strip().splitlines()))


def test_without_properties_the_protocol_is_plaintext() -> None:
    assert read_settings({}) == SecuritySettings("PLAINTEXT")


def test_java_and_librdkafka_mean_the_same_user() -> None:
    java = settings(
        f'security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required username="a" password="b=\\"c";'
    )
    librdkafka = settings('security.protocol=sasl_plaintext\nsasl.mechanisms=PLAIN\nsasl.username=a\nsasl.password=b="c')
    assert java.sasl is not None
    assert (java.sasl.user, java.sasl.password.reveal()) == ("a", 'b="c')
    assert java.protocol == librdkafka.protocol == "SASL_PLAINTEXT"
    assert java.sasl == librdkafka.sasl


def test_java_and_librdkafka_mean_the_same_authority() -> None:
    java = settings("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/ca.pem").tls
    librdkafka = settings("security.protocol=ssl\nssl.ca.location=/ca.pem").tls
    assert java is not None
    assert librdkafka is not None
    assert java.trust[:2] == librdkafka.trust[:2] == ("/ca.pem", "PEM")
    assert java.checks_host


@pytest.mark.parametrize("text", ["", "none"])
def test_host_names_are_checked_unless_the_algorithm_is_empty(text: str) -> None:
    found = settings(f"security.protocol=SSL\nssl.endpoint.identification.algorithm={text}").tls
    assert found is not None
    assert not found.checks_host


def test_a_delegation_token_is_a_user_of_scram() -> None:
    found = settings(SASL + f'SCRAM-SHA-256\nsasl.jaas.config={SCRAM} required username="id" password="h" tokenauth="true";').sasl
    assert found is not None
    assert found.is_delegation_token


def test_token_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a.b.c\n")
    found = settings(
        f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file://{tmp_path}/token"
    ).sasl
    assert found is not None
    assert found.password.reveal() == "a.b.c"


@pytest.mark.parametrize(
    "text, words",
    [
        ("security.protocol=TLS", "security.protocol=TLS is invalid"),
        ("security.protocol=SASL_SSL", "sasl.mechanism is missing"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI", "sasl.mechanism=GSSAPI is not supported"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "needs a user and a password"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a", "needs a password for user a"),
        (
            f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required username="a" password="hush"',
            "sasl.jaas.config",
        ),
        ("security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER", "needs a token"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://x/", "must be a file: URL"),
        (
            SASL + f'OAUTHBEARER\nsasl.jaas.config={OAUTHBEARER} required lifeSeconds="long";',
            "lifeSeconds must be a number",
        ),
        ("security.protocol=SSL\nssl.ca.location=/a\nssl.ca.pem=b", "exclude each other"),
        ("security.protocol=SSL\nssl.keystore.certificate.chain=b", "needs ssl.keystore.key"),
        ("security.protocol=SSL\nenable.ssl.certificate.verification=maybe", "give true or false"),
    ],
)
def test_an_error_names_the_property(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words.replace(".", r"\.")) as raised:
        settings(text)
    assert "\n" not in str(raised.value)
    assert "hush" not in repr(raised.getrepr(style="long", showlocals=False).reprcrash)
    assert raised.value.__cause__ is None


def test_secrets_have_no_representation() -> None:
    found = settings("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=hush\nssl.key.password=hush")
    assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("ssl.truststore.locaton", "ssl.truststore.locaton is ignored: no client has this property; did you mean ssl.truststore.location?"),
        ("sasl.mechansim", "sasl.mechansim is ignored: no client has this property; did you mean sasl.mechanism?"),
        ("security.brotocol", "security.brotocol is ignored: no client has this property; did you mean security.protocol?"),
        ("ssl.xyz.zyx", "ssl.xyz.zyx is ignored: no client has this property"),
    ],
)
def test_unknown_names_are_reported(caplog: pytest.LogCaptureFixture, name: str, problem: str) -> None:
    read_settings({name: "x", "client.id": "x", "ssl.provider": "SunJSSE", "sasl.kerberos.service.name": "kafka"})
    assert [record.getMessage() for record in caplog.records] == [problem]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.engine.factory.class", "com.example.Factory"),
        ("ssl.crl.location", "/crl.pem"),
        ("sasl.client.callback.handler.class", "com.example.Handler"),
        ("sasl.login.callback.handler.class", "com.example.Handler"),
    ],
)
def test_unsupported_properties_are_rejected(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}.* is not supported: "):
        read_settings({name: value})
    read_settings({name: ""})


def test_names_of_java_are_known() -> None:
    """Checked with the names of AdminClientConfig and ProducerConfig of Kafka 4.3.1."""
    assert {name for name in module._KNOWN if name.startswith("ssl.truststore.")} == {
        "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type"
    }  # fmt: skip
    for names in (module._NOT_SUPPORTED, [module._LOGIN_HANDLER]):
        assert set(names) <= module._KNOWN
