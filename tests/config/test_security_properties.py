"""Properties of TLS and SASL: as Kafka has them, with the prefixes of listeners and mechanisms, and never shown if they are secret."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from minibroker.cli.main import main
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.definition import TYPE_NAMES
from minibroker.config.kafka_only import ignored
from minibroker.config.secret import Secret
from minibroker.config.security_properties import SECURITY_PROPERTIES, ListenerProperties, security_property
from minibroker.errors import ConfigurationError, InvalidConfig
from tests.config.kafka_configs import DESCRIBED
from tests.config.test_reference import DOCS

_DEFAULT_SOURCE = 5


def test_types_and_defaults_match_apache_kafka() -> None:
    for name, prop in SECURITY_PROPERTIES.items():
        _, kind, _, is_read_only, is_sensitive, synonyms = DESCRIBED[name]
        default = next((value for other, value, source in synonyms if other == name and source == _DEFAULT_SOURCE), None)
        assert (name, prop.type, not prop.is_dynamic, prop.is_sensitive) == (name, kind, is_read_only, is_sensitive)
        assert (name, prop.default) == (name, default)
        assert (name, TYPE_NAMES[prop.type].lower()) == (name, DOCS["broker"][name][0])
        assert (name, prop.parse(prop.default)) == (name, prop.parse(default))


def test_every_kafka_security_property_is_supported_or_has_a_reason() -> None:
    families = ("ssl.", "sasl.", "delegation.", "connections.max.reauth", "connection.failed", "principal.")
    missing = {name for name in DESCRIBED if name.startswith(families) and name not in SECURITY_PROPERTIES and ignored(name) is None}
    assert missing == set()


TEXTS = {
    "ssl.client.auth": "none",
    "ssl.keystore.location": "/all.jks",
    "sasl.jaas.config": "ignored",
    "listener.name.internal.ssl.client.auth": "required",
    "listener.name.internal.sasl.jaas.config": "also ignored",
    "listener.name.internal.plain.sasl.jaas.config": "plain's",
    "connections.max.reauth.ms": "1",
    "listener.name.internal.connections.max.reauth.ms": "2",
    "listener.name.internal.scram-sha-256.connections.max.reauth.ms": "3",
}


def test_longest_prefix_wins() -> None:
    internal, other = ListenerProperties(TEXTS, "INTERNAL"), ListenerProperties(TEXTS, "OTHER")
    assert (internal.text("ssl.client.auth"), other.text("ssl.client.auth")) == ("required", "none")
    assert (internal.text("ssl.keystore.location"), other.text("ssl.keystore.type")) == ("/all.jks", "JKS")
    assert internal.is_own("ssl.client.auth")
    assert not internal.is_own("ssl.keystore.location")
    name = "connections.max.reauth.ms"
    assert [internal.integer(name, each) for each in ("SCRAM-SHA-256", "PLAIN", None)] == [3, 2, 2]
    assert other.integer(name, "PLAIN") == 1
    assert internal.full_name(name, "SCRAM-SHA-256") == "listener.name.internal.scram-sha-256.connections.max.reauth.ms"
    assert other.full_name("ssl.truststore.location") is None
    assert other.name_to_set("ssl.truststore.location") == "listener.name.other.ssl.truststore.location"
    assert other.name_to_set("ssl.client.auth") == "ssl.client.auth"


def test_jaas_config_needs_listener_and_mechanism() -> None:
    internal = ListenerProperties(TEXTS, "INTERNAL")
    found = internal.secret("sasl.jaas.config", "PLAIN")
    assert found is not None
    assert found.reveal() == "plain's"
    assert internal.secret("sasl.jaas.config", "SCRAM-SHA-256") is None
    assert internal.secret("sasl.jaas.config") is None


def test_errors_contain_the_full_name() -> None:
    texts = {"ssl.enabled.protocols": "TLSv1.3, ,", "listener.name.a.ssl.client.auth": "maybe", "ssl.allow.dn.changes": "TRUE"}
    properties = ListenerProperties(texts, "A")
    assert properties.items("ssl.enabled.protocols") == ("TLSv1.3",)
    assert properties.is_true("ssl.allow.dn.changes")
    with pytest.raises(InvalidConfig, match=r"Invalid value maybe for configuration listener\.name\.a\.ssl\.client\.auth: String must be"):
        properties.get("ssl.client.auth")
    with pytest.raises(InvalidConfig, match="needs a number"):
        properties.integer("ssl.enabled.protocols")


def test_secret_is_never_printed() -> None:
    secret = Secret("hunter2")
    properties = ListenerProperties({"ssl.key.password": "hunter2"}, "A")
    assert f"{secret} {secret!r} {properties!r} {properties.get('ssl.key.password')}".count("hunter2") == 0
    assert secret == properties.secret("ssl.key.password")
    assert secret != Secret("hunter3")
    assert secret != "hunter2"
    assert secret.reveal() == "hunter2"
    for attempt in (lambda: pickle.dumps(secret), lambda: copy.deepcopy(secret), lambda: hash(secret)):
        with pytest.raises(TypeError, match=r"Secret|unhashable"):
            attempt()
    with pytest.raises(ValueError, match="sensitive"):
        properties.text("ssl.key.password")


def test_prefixed_names_use_the_base_property() -> None:
    for name in ("listener.name.a.ssl.key.password", "listener.name.a.scram-sha-256.sasl.jaas.config", "delegation.token.secret.key"):
        prop = security_property(name)
        assert prop is not None
        assert (prop.name, prop.is_sensitive) == (name, True)
    for name in ("ssl.key.pasword", "listener.name.a.max.connections", "listener.name.ssl.key.password"):
        assert security_property(name) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ssl.client.auth", "need"),
        ("listener.name.a.ssl.client.auth", "need"),
        ("connections.max.reauth.ms", "1 h"),
        ("connection.failed.authentication.delay.ms", "-1"),
        ("principal.builder.class", "com.example.Builder"),
        ("delegation.token.max.lifetime.ms", "0"),
    ],
)
def test_start_refuses_values_that_kafka_refuses(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Invalid value {text} for configuration {name}: "):
        BrokerConfig({name: text})


def test_dynamic_value_overrides_a_static_one() -> None:
    config = BrokerConfig({"listener.name.a.ssl.keystore.location": "/old"})
    config.set_dynamic({}, {"listener.name.a.ssl.keystore.location": "/new"})
    assert ListenerProperties(config.security_texts, "A").text("ssl.keystore.location") == "/new"


def test_config_check_hides_secrets(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "listener.name.plaintext.ssl.key.password=hunter2\nssl.keystore.key=hunter2\nssl.keystore.type=PEM\n"
        'listener.name.plaintext.plain.sasl.jaas.config=x.PlainLoginModule required user_a="hunter2";\n'
    )
    result = CliRunner().invoke(main, ["config", "check", str(file)])
    assert result.exit_code == 0, result.output
    assert "hunter2" not in result.output
    assert "set: ssl.keystore.key=[hidden] (default: none)" in result.output
    assert "set: ssl.keystore.type=PEM (default: JKS)" in result.output
    assert "warning: ssl.keystore.key, ssl.keystore.type have no effect: no listener uses TLS or SASL" in result.output


def test_plain_start_does_not_import_the_security_table() -> None:
    code = (
        "import sys, minibroker.server.broker, minibroker.dispatch.registry as r; r.load();"
        "from minibroker.config.broker_config import BrokerConfig; BrokerConfig({'listeners': 'PLAINTEXT://:0'}); print(*sys.modules)"
    )
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    assert "minibroker.config.broker_config" in modules
    assert not {"minibroker.config.security_properties", "minibroker.config.secret"} & set(modules)
