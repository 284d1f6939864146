"""The table of all of Kafka's broker configs: it is what Kafka answered, and its checks are Kafka's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from minibroker.config.broker_properties import BROKER_PROPERTIES, DYNAMIC_ONLY
from minibroker.config.kafka_table import FILE, UnknownProperty, base_name, check_value, is_fixed, is_per_broker, kafka_names, property_of
from minibroker.errors import InvalidConfig
from tests.config.kafka_configs import DESCRIBED, DOCUMENTATION
from tests.config.kafka_table import content
from tests.config.test_reference import DOCS


def test_table_matches_the_captured_answer() -> None:
    assert FILE.read_text() == content(), "run python -m tests.config.kafka_table"
    assert kafka_names() == set(DESCRIBED)
    assert set(DOCS["broker"]) - kafka_names() == DYNAMIC_ONLY


def test_config_without_effect_has_the_kafka_documentation() -> None:
    for name in kafka_names() - BROKER_PROPERTIES.keys():
        _, kind, _, is_read_only, is_sensitive, _ = DESCRIBED[name]
        prop = property_of(name)
        assert (name, prop.type, not prop.is_dynamic, prop.is_sensitive) == (name, kind, is_read_only, is_sensitive)
        assert prop.documentation == DOCUMENTATION[name]


def test_every_kafka_default_is_valid() -> None:
    for name in kafka_names() - BROKER_PROPERTIES.keys():
        prop = property_of(name)
        assert prop.parse(prop.default) is None or prop.default is not None


def test_dynamic_configs_match_the_kafka_documentation() -> None:
    for name, (*_, mode) in DOCS["broker"].items():
        if name not in BROKER_PROPERTIES:
            assert (name, is_fixed(name), is_per_broker(name)) == (name, mode == "read-only", mode == "per-broker")


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("listener.name.internal.ssl.keystore.location", "ssl.keystore.location"),
        ("listener.name.internal.plain.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.internal.", ""),
        ("listener.name.internal", None),
        ("ssl.keystore.location", None),
    ],
)
def test_base_name_of_a_listener_config(name: str, base: str | None) -> None:
    assert base_name(name) == base


def test_unknown_property_is_sensitive() -> None:
    for name in ("invalid", "listener.name.internal.anything", "zookeeper.connect"):
        assert isinstance(property_of(name), UnknownProperty)
        assert property_of(name).is_sensitive


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("sasl.kerberos.min.time.before.relogin", "x", "Not a number of type LONG"),
        ("listener.name.a.sasl.kerberos.min.time.before.relogin", "x", "configuration sasl.kerberos.min.time.before.relogin"),
        ("max.connection.creation.rate", "-1", "at least 0"),
        ("ssl.client.auth", "bad", "String must be one of: required, requested, none"),
        ("principal.builder.class", "org.example.X", "Class org.example.X could not be found."),
    ],
)
def test_invalid_value_is_refused(name: str, text: str, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        check_value(name, text)


def test_only_dynamic_configs_are_checked() -> None:
    check_value("listener.name.a.log.retention.hours", "x")
    check_value("invalid", "x")
    check_value("principal.builder.class", property_of("principal.builder.class").default or "")


def test_start_does_not_load_the_table() -> None:
    code = "import minibroker.server.broker, minibroker.dispatch.registry as r, sys; r.load(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    assert "minibroker.dispatch.registry" in modules
    later = {"minibroker.config.kafka_table", "minibroker.handlers.k32_describe_configs", "minibroker.cluster.configs.config_changes"}
    later |= {"minibroker.cluster.directories.replica_moves", "minibroker.log.copying"}
    assert not later & set(modules)
