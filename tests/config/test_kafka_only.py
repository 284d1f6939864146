"""What Apache Kafka has and we do not: every name of Kafka's is accounted for, and only those are warned of that somebody may miss."""

from __future__ import annotations

import logging

import pytest

from minibroker.config import sources
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.kafka_only import KAFKA_ONLY, families, ignored, warnings_of
from minibroker.config.security_properties import SECURITY_PROPERTIES
from tests.config.kafka_configs import BROKER_CONFIGS
from tests.config.test_reference import DOCS

KNOWN = BROKER_PROPERTIES.keys() | SECURITY_PROPERTIES.keys()
KRAFT = {
    "process.roles": "broker,controller",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "replica.fetch.max.bytes": "1",
    "zookeeper.connect": "localhost:2181",
    "confluent.license.topic.replication.factor": "1",
    "num.network.threads": "3",
}


def test_every_kafka_property_is_supported_or_has_a_reason() -> None:
    kafkas = set(DOCS["broker"]) | set(BROKER_CONFIGS)
    assert [name for name in sorted(kafkas) if name not in KNOWN and ignored(name) is None] == []
    assert [name for name in KNOWN if ignored(name) is not None and name in KAFKA_ONLY] == []


def test_kraft_properties_do_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    config = BrokerConfig.load(arguments=KRAFT)
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://:9092"]
    assert not caplog.records


def test_security_properties_without_effect_warn_once_per_reason() -> None:
    unknown = {"sasl.enabled.mechanisms": "PLAIN", "ssl.keystore.location": "/k.jks", "ssl.key.password": ""}
    unknown["create.topic.policy.class.name"] = "com.example.Policy"
    assert warnings_of(unknown) == [
        "create.topic.policy.class.name has no effect: Java classes are not loaded",
        "sasl.enabled.mechanisms, ssl.keystore.location have no effect: no listener uses TLS or SASL",
    ]


def test_listener_properties_warn_unless_the_listener_uses_them() -> None:
    names = ("ssl.client.auth", "listener.name.controller.ssl.client.auth", "listener.name.secure.ssl.client.auth")
    unknown = dict.fromkeys((*names, "listener.name.open.ssl.client.auth", "listener.name.opne.ssl.client.auth"), "none")
    unknown |= {"listener.name.secure.max.connections.per.ip": "1", "listener.name.secure.ssl.client.auht": "none"}
    unknown |= {"listener.name.open.max.connections": "1", "listener.name.opne.max.connections": "1"}
    unknown |= {"listener.name.secure.ssl.engine.factory.class": "com.example.Engine"}
    assert warnings_of(unknown, listeners={"controller": "", "secure": "SSL", "open": "PLAINTEXT"}) == [
        "unknown property listener.name.secure.ssl.client.auht is ignored: did you mean ssl.client.auth?",
        "listener.name.open.ssl.client.auth has no effect: its listener uses neither TLS nor SASL",
        "listener.name.opne.max.connections, listener.name.opne.ssl.client.auth have no effect: there is no listener of this name",
        "listener.name.secure.max.connections.per.ip has no effect: it is the same for all listeners",
        "listener.name.secure.ssl.engine.factory.class has no effect: Java classes are not loaded",
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("log.retention.hour", "unknown property log.retention.hour is ignored: did you mean log.retention.hours?"),
        # one of a family of Kafka's that has no effect, and yet a misspelt one of ours
        ("zzz", "unknown property zzz is ignored"),
        ("port", "port has no effect: Kafka 4 no longer knows it: use listeners=PLAINTEXT://:PORT"),
        (
            "advertised.host.name",
            "advertised.host.name has no effect: Kafka 4 no longer knows it: use advertised.listeners=PLAINTEXT://HOST:PORT",
        ),
    ],
)
def test_each_property_has_one_warning(name: str, line: str) -> None:
    assert warnings_of({name: "1"}) == [line]


def test_environment_variable_is_named_in_the_warning(caplog: pytest.LogCaptureFixture) -> None:
    environment = {"KAFKA_NUM_PARTITION": "3", "KAFKA_CFG_LOG_DIRR": "x", "KAFKA_NODE_IT": "1"}
    BrokerConfig.load(environment=environment, assignments=["node.it=2"])
    assert [record.getMessage() for record in caplog.records] == [
        "unknown property log.dirr (KAFKA_CFG_LOG_DIRR) is ignored: did you mean log.dir?",
        "unknown property node.it is ignored: did you mean node.id?",
        "unknown property num.partition (KAFKA_NUM_PARTITION) is ignored: did you mean num.partitions?",
    ]


def test_misspelled_property_in_an_ignored_family_warns() -> None:
    name = "replica.high.watermark.checkpoint.interval.ms"
    assert ignored(name[:-1]) is not None
    assert warnings_of({name[:-1]: "1", "replica.fetch.max.bytes": "1"}) == [
        f"unknown property {name[:-1]} is ignored: did you mean {name}?"
    ]


def test_ignored_families_are_readable() -> None:
    names = [name for names in families().values() for name in names]
    assert len(names) == len(set(names))
    assert {"sasl.kerberos.*", "process.roles", "remote.*"} <= set(names)
    assert all(why.reason and not why.reason.endswith(".") for why in families())


@pytest.mark.parametrize("variable", ["KAFKA_SERVICE_HOST", "KAFKA_SERVICE_PORT_CLIENT", "KAFKA_PORT_9092_TCP", "KAFKA_PORT_9092_TCP_ADDR"])
def test_kubernetes_service_variables_are_ignored(variable: str) -> None:
    assert sources.from_environment({variable: "10.0.0.1"}) == {}


def test_kafka_port_from_kubernetes_or_the_user() -> None:
    assert sources.from_environment({"KAFKA_PORT": "tcp://10.0.0.1:9092"}) == {}
    assert sources.from_environment({"KAFKA_PORT": "9092"}) == {"port": "9092"}
