"""BrokerConfig: every source, every check, and each mistake answered with one line that says what to do."""

from __future__ import annotations

import logging
import typing
from pathlib import Path

import pytest

from minibroker.config import sources
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import BROKER_PROPERTIES, DYNAMIC_ONLY
from minibroker.config.definition import LONG_MAX
from minibroker.config.differences import NOT_KAFKAS, READ_ONLY_HERE
from minibroker.config.listeners import Listener
from minibroker.errors import ConfigurationError, InvalidConfig
from tests.config.kafka_configs import BROKER_CONFIGS


def test_names_types_and_modes_match_a_running_kafka() -> None:
    """Defaults and valid values: test_reference.py."""
    for name in sorted((set(BROKER_PROPERTIES) - NOT_KAFKAS - DYNAMIC_ONLY) & set(BROKER_CONFIGS)):
        _, kind, is_read_only, is_sensitive = BROKER_CONFIGS[name]
        prop = BROKER_PROPERTIES[name]
        assert (name, prop.type) == (name, kind)
        if name not in READ_ONLY_HERE:
            assert (name, prop.is_dynamic) == (name, not is_read_only)
        assert (name, prop.is_sensitive) == (name, is_sensitive)
    assert set(BROKER_PROPERTIES) - NOT_KAFKAS - DYNAMIC_ONLY <= set(BROKER_CONFIGS)


def test_every_property_is_an_attribute() -> None:
    declared = set(typing.get_type_hints(BrokerConfig))
    resolved = {"log_dir", "broker_id", "log_retention_minutes", "log_retention_hours", "log_roll_hours", "log_roll_jitter_hours"}
    parsed = {"listener_security_protocol_map", "controller_listener_names"}
    assert {name.replace(".", "_") for name in BROKER_PROPERTIES} == declared | resolved | parsed
    config = BrokerConfig()
    assert all(hasattr(config, name) for name in declared)


def test_defaults_suit_one_node() -> None:
    config = BrokerConfig()
    assert (config.node_id, config.log_dirs, config.num_partitions) == (1, ("data",), 1)
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.log_retention_ms == 168 * 3_600_000
    assert config.log_flush_interval_ms == LONG_MAX
    assert config.group_initial_rebalance_delay_ms == 0


@pytest.mark.parametrize(
    ("properties", "retention_ms", "roll_ms"),
    [
        ({"log.retention.hours": "1", "log.roll.hours": "2"}, 3_600_000, 7_200_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "5"}, 300_000, 604_800_000),
        ({"log.retention.minutes": "5", "log.retention.ms": "7", "log.roll.ms": "9", "log.roll.hours": "2"}, 7, 9),
        ({"log.retention.ms": "-1"}, -1, 604_800_000),
        ({"log.retention.hours": "-1"}, -1, 604_800_000),
    ],
    ids=["hours", "minutes over hours", "ms over all", "never", "never, in hours"],
)
def test_times_have_synonyms(properties: dict[str, str], retention_ms: int, roll_ms: int) -> None:
    config = BrokerConfig(properties)
    assert (config.log_retention_ms, config.log_roll_ms) == (retention_ms, roll_ms)


def test_sources_by_strength(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# a comment\nnum.partitions=2\nmessage.max.bytes = 2000\nlog.retention.hours: 5\nbroker.rack=r\\u00e4ck\n")
    config = BrokerConfig.load(
        file=file,
        environment={"KAFKA_NUM_PARTITIONS": "3", "KAFKA_CFG_LOG_RETENTION_HOURS": "6", "PATH": "/bin"},
        assignments=["num.partitions=4"],
        arguments={"log.dirs": str(tmp_path)},
    )
    assert (config.num_partitions, config.message_max_bytes, config.log_retention_ms) == (4, 2000, 6 * 3_600_000)
    assert (config.broker_rack, config.log_dirs) == ("räck", (str(tmp_path),))


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_A__B_C", "a_b.c"),
        ("KAFKA_A___B", "a-b"),
        ("KAFKA_CFG_NODE_ID", "node.id"),
        ("CLUSTER_ID", "cluster.id"),
    ],
)
def test_environment_names(variable: str, name: str) -> None:
    assert sources.from_environment({variable: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "variable", ["KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_VERSION", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_JMX_OPTS", "HOME"]
)
def test_other_environment_variables_are_ignored(variable: str) -> None:
    assert sources.from_environment({variable: "x"}) == {}


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({"num.partitions": "many"}, "Invalid value many for configuration num.partitions: Not a number of type INT (default: 1)"),
        ({"log.retention.ms": "7d"}, "log.retention.ms: Not a number of type LONG (in milliseconds; default: none)"),
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1 (default: 1)"),
        ({"auto.create.topics.enable": "yes"}, "Expected value to be either true or false"),
        ({"log.cleanup.policy": "shred"}, "String must be one of: compact, delete"),
        ({"node.id": "1", "broker.id": "2"}, "node.id=1 and broker.id=2 differ"),
        ({"log.dirs": "a,,b"}, "log.dirs: 'a,,b' has an empty or a doubled directory"),
        ({"log.dirs": "a,a"}, "empty or a doubled"),
        ({"log.retention.ms": "0"}, "use -1 to keep everything"),
        ({"topic.partition.count.map": "orders"}, "'orders' is not topic:count"),
        ({"topic.partition.count.map": "orders:0"}, "'orders:0' is not topic:count"),
        ({"max.connections.per.ip.overrides": "10.0.0.7"}, "'10.0.0.7' is not address:count"),
        ({"listeners": "9092"}, "listeners: '9092' is not NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://:70000"}, "is not NAME://HOST:PORT"),
        ({"listeners": ""}, "listeners: at least one is needed"),
        ({"listeners": "HOST://:1"}, "add HOST:PLAINTEXT to listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "PLAINTEXT is listed twice"),
        ({"listeners": "A://:1,B://:1", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}, "1 is listed twice"),
        ({"listener.security.protocol.map": "A=PLAINTEXT"}, "'A=PLAINTEXT' is not NAME:PROTOCOL"),
        (
            {"advertised.listeners": "OTHER://x:1", "listener.security.protocol.map": "OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
            "no listener of that name",
        ),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "clients cannot connect to 0.0.0.0"),
        ({"group.consumer.assignors": ""}, "Configuration 'group.consumer.assignors' must not be empty."),
        ({"group.consumer.assignors": "range,range"}, "Configuration 'group.consumer.assignors' values must not be duplicated."),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "Disabling the 'classic' protocol is not supported."),
    ],
)
def test_errors_are_one_clear_line(properties: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        BrokerConfig(properties)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files_and_arguments(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        BrokerConfig.load(file=tmp_path / "absent.properties")
    with pytest.raises(ConfigurationError, match="name=value"):
        BrokerConfig.load(assignments=["num.partitions"])


def test_listeners_with_names() -> None:
    config = BrokerConfig(
        {
            "listeners": "HOST://0.0.0.0:9092,DOCKER://:19092,CONTROLLER://:9093,V6://[::1]:5",
            "advertised.listeners": "HOST://localhost:9092,DOCKER://broker:19092",
            "listener.security.protocol.map": "HOST:PLAINTEXT,DOCKER:PLAINTEXT,CONTROLLER:PLAINTEXT,V6:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert config.listeners == (Listener("HOST", "0.0.0.0", 9092), Listener("DOCKER", "", 19092), Listener("V6", "::1", 5))
    assert str(config.listeners[2]) == "V6://[::1]:5"
    assert config.advertised_listeners[1] == Listener("DOCKER", "broker", 19092)


def test_unknown_properties_warn_with_the_nearest_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    BrokerConfig.load(assignments=["num.partition=3", "process.roles=broker", "controller.quorum.voters=1@x:1", "zzz=1"])
    assert [record.getMessage() for record in caplog.records] == [
        "unknown property num.partition is ignored: did you mean num.partitions?",
        "unknown property zzz is ignored",
    ]


def test_dynamic_values_override_and_an_invalid_one_changes_nothing() -> None:
    config = BrokerConfig({"message.max.bytes": "10"})
    config.set_dynamic({"message.max.bytes": "20", "log.retention.ms": "5"}, {"message.max.bytes": "30"})
    assert (config.message_max_bytes, config.log_retention_ms) == (30, 5)

    with pytest.raises(InvalidConfig):
        config.set_dynamic({}, {"message.max.bytes": "x"})
    assert config.message_max_bytes == 30

    config.set_dynamic({}, {})
    assert (config.message_max_bytes, config.log_retention_ms) == (10, 604_800_000)
