"""`minibroker.like.kafka`: Apache Kafka's defaults, which properties that are set override, and what shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from minibroker.cli.main import main
from minibroker.cluster.configs.config_entries import broker_synonyms
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import BROKER_PROPERTIES, LIKE_KAFKA
from minibroker.config.definition import SOURCE_DEFAULT, SOURCE_STATIC_BROKER
from minibroker.config.differences import KAFKA_DEFAULTS, LIKE_KAFKA_DEFAULTS
from minibroker.server.served_node import limits_of
from minibroker.testing.options import TEST_CONFIG, BrokerOptions

DELAY = "group.initial.rebalance.delay.ms"


def like_kafka(**properties: str) -> BrokerConfig:
    return BrokerConfig({LIKE_KAFKA: "true", **{name.replace("_", "."): text for name, text in properties.items()}})


def test_defaults_match_apache_kafka_except_node_properties() -> None:
    config, usual = like_kafka(), BrokerConfig()
    assert {name: config.text(name) for name in BROKER_PROPERTIES if config.text(name) != usual.text(name)} == {
        LIKE_KAFKA: "true",
        **LIKE_KAFKA_DEFAULTS,
    }
    assert KAFKA_DEFAULTS.keys() - LIKE_KAFKA_DEFAULTS.keys() == {"broker.id", "node.id", "log.dir"}
    assert config.group_initial_rebalance_delay_ms == 3000
    assert config.group_consumer_heartbeat_interval_ms == 5000


@pytest.mark.parametrize("text", ["false", "FALSE", " false "])
def test_switch_is_off_by_default(text: str) -> None:
    assert BrokerConfig({LIKE_KAFKA: text}).group_initial_rebalance_delay_ms == BrokerConfig().group_initial_rebalance_delay_ms == 0


def test_explicit_values_override_the_switch() -> None:
    config = like_kafka(group_initial_rebalance_delay_ms="7")
    assert config.group_initial_rebalance_delay_ms == 7
    config.set_dynamic({}, {"group.consumer.assignment.interval.ms": "11"})
    assert config.group_consumer_assignment_interval_ms == 11
    config.set_dynamic({}, {})
    assert config.group_consumer_assignment_interval_ms == 1000


def test_describe_configs_reports_the_kafka_default() -> None:
    assert [(each.value, each.source) for each in broker_synonyms(like_kafka(), DELAY)] == [("3000", SOURCE_DEFAULT)]
    config = like_kafka(group_initial_rebalance_delay_ms="7")
    assert [(each.value, each.source) for each in broker_synonyms(config, DELAY)] == [
        ("7", SOURCE_STATIC_BROKER),
        ("3000", SOURCE_DEFAULT),
    ]


def test_connection_limits_match_kafka() -> None:
    assert limits_of(like_kafka())._replace(queued_max_requests=0, queued_max_request_bytes=0) == limits_of(BrokerConfig())._replace(
        queued_max_requests=0, queued_max_request_bytes=0, send_buffer_bytes=102_400, receive_buffer_bytes=102_400
    )
    assert limits_of(like_kafka()).queued_max_requests == 1
    assert limits_of(like_kafka()).queued_max_request_bytes == -1


def test_test_kit_has_the_option() -> None:
    assert BrokerOptions(like_kafka=True).config == {LIKE_KAFKA: "true"}
    assert BrokerOptions(like_kafka=True, config={"offsets.topic.num.partitions": 3}).config == {
        LIKE_KAFKA: "true",
        "offsets.topic.num.partitions": "3",
    }
    assert BrokerOptions().config == TEST_CONFIG


def test_config_explain_and_check_report_the_effective_default(tmp_path: Path) -> None:
    explained = CliRunner().invoke(main, ["config", "explain", DELAY]).output
    assert "its default is 3000, as here with minibroker.like.kafka." in " ".join(explained.split())
    file = tmp_path / "server.properties"
    file.write_text(f"{LIKE_KAFKA}=true\n{DELAY}=3000\noffsets.topic.num.partitions=5\n")
    checked = CliRunner().invoke(main, ["config", "check", str(file)]).output
    assert DELAY not in checked
    assert f"set: {LIKE_KAFKA}=true" in checked
    assert "set: offsets.topic.num.partitions=5 (default: 50)" in checked
