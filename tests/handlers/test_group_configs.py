"""Configs of groups, client metrics and brokers are described, altered and listed as by Apache Kafka.

What it said is in tests/golden/own_configs_kafka_4.3.1.json (captures/own_configs.py).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from minibroker.config.definition import SOURCE_DYNAMIC_DEFAULT_BROKER, SOURCE_GROUP
from minibroker.errors import InvalidConfig
from minibroker.schemas import k32_describe_configs as k32
from minibroker.schemas import k33_alter_configs as k33
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.schemas import k74_list_config_resources as k74
from minibroker.schemas.internal.setting_records import ConfigRecord, FeatureLevelRecord
from tests.golden.captures.configs import topic_row
from tests.golden.captures.own_configs import FILE, GROUP, METRICS, answer, request
from tests.support.broker_in_memory import BrokerInMemory

KAFKA: dict[str, Any] = json.loads(FILE.read_text())
SESSION = "consumer.session.timeout.ms"
SET, DELETE = 0, 1


def describe(broker: BrokerInMemory, kind: int, name: str) -> dict[str, k32.Config]:
    resource = k32.Resource(resource_type=kind, resource_name=name, configuration_keys=None)
    return {each.name: each for each in broker.ask(k32.Request(resources=[resource], include_synonyms=True)).results[0].configs}


def alter(broker: BrokerInMemory, kind: int, name: str, *changes: tuple[str, str | None]) -> tuple[int, str | None]:
    configs = [k44.Config(name=key, config_operation=DELETE if value is None else SET, value=value) for key, value in changes]
    resource = k44.Resource(resource_type=kind, resource_name=name, configs=configs)
    result = broker.ask(k44.Request(resources=[resource], validate_only=False)).responses[0]
    return result.error_code, result.error_message


KINDS = ("consumer", "share", "streams")
DEFAULTS = {"streams.initial.rebalance.delay.ms": "0"} | {
    f"{kind}.{name}.interval.ms": value for kind in KINDS for name, value in (("heartbeat", "1000"), ("assignment", "0"))
}


@pytest.mark.parametrize("kind", [METRICS, GROUP])
def test_described_as_apache_kafka_does(kind: int) -> None:
    ours = {name: topic_row(config) for name, config in describe(BrokerInMemory(), kind, "nobody").items()}
    theirs = KAFKA["described"][str(kind)]
    if kind == GROUP:  # a small group need not wait
        for name, value in DEFAULTS.items():
            theirs[name][0] = theirs[name][5][0][1] = value
    assert ours == theirs


def test_altered_and_refused_as_apache_kafka_does() -> None:
    heartbeats = [f"group.{kind}.{name}" for kind in KINDS for name in ("heartbeat.interval.ms", "min.heartbeat.interval.ms")]
    intervals = [f"group.{kind}.assignment.interval.ms" for kind in KINDS]
    broker = BrokerInMemory(config=dict.fromkeys(heartbeats, "5000") | dict.fromkeys(intervals, "1000"))
    broker.cluster.image.apply(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    differences = []
    for kind, name, configs, *theirs in KAFKA["altered"]:
        ours = answer(broker.ask(request(kind, name, configs)))
        if ours != theirs:
            differences.append((name, configs, ours, theirs))
    assert differences == []


def test_group_configs_apply_and_survive_a_restart() -> None:
    broker = BrokerInMemory()
    assert broker.cluster.configs.of_group("billing").consumer_session_timeout_ms == 45_000

    assert alter(broker, GROUP, "billing", (SESSION, " 50000 "), ("share.auto.offset.reset", "earliest")) == (0, None)
    assert broker.cluster.configs.of_group("billing").consumer_session_timeout_ms == 50_000
    assert broker.cluster.configs.of_group("billing").share_auto_offset_reset == "earliest"
    assert broker.cluster.configs.of_group("other") is broker.cluster.configs.of_group("another")

    broker = broker.restart(clean=False)
    own = describe(broker, GROUP, "billing")[SESSION]
    assert (own.value, own.config_source) == ("50000", SOURCE_GROUP)
    assert broker.cluster.configs.of_group("billing").consumer_session_timeout_ms == 50_000
    alter(broker, GROUP, "billing", (SESSION, None))
    assert broker.cluster.configs.of_group("billing").consumer_session_timeout_ms == 45_000
    assert broker.cluster.configs.of_group("billing").share_auto_offset_reset == "earliest"


def test_groups_without_configs_follow_the_broker() -> None:
    broker = BrokerInMemory()
    name = "consumer.assignment.interval.ms"
    alter(broker, 4, "", (f"group.{name}", "2000"))
    assert broker.cluster.configs.of_group("billing").consumer_assignment_interval_ms == 2_000
    config = describe(broker, GROUP, "billing")[name]
    assert (config.value, config.config_source) == ("2000", SOURCE_DYNAMIC_DEFAULT_BROKER)
    alter(broker, GROUP, "billing", (name, "3000"))
    assert broker.cluster.configs.of_group("billing").consumer_assignment_interval_ms == 3_000


def test_stored_configs_are_clamped_to_new_limits(caplog: pytest.LogCaptureFixture) -> None:
    broker = BrokerInMemory()
    alter(broker, GROUP, "billing", ("share.delivery.count.limit", "10"), ("streams.num.standby.replicas", "2"))
    broker.services.coordinators.stop()
    broker.cluster.close()
    limits = {"group.share.max.delivery.count.limit": "5", "group.streams.max.standby.replicas": "1"}
    again = BrokerInMemory(folder=broker.folder, config=limits)
    config = again.cluster.configs.of_group("billing")
    assert (config.share_delivery_count_limit, config.streams_num_standby_replicas) == (5, 1)
    assert "share.delivery.count.limit=10 of group billing is outside the broker's limits: using 5" in caplog.text
    assert describe(again, GROUP, "billing")["share.delivery.count.limit"].value == "10"


@pytest.mark.parametrize(
    ("resource_type", "name", "value"),
    [
        (GROUP, "share.auto.offset.reset", "by_duration:PT" + "9" * 400 + "S"),
        (GROUP, "share.auto.offset.reset", "by_duration:P" + "9" * 5_000 + "D"),
        (GROUP, "share.auto.offset.reset", "by_duration:P106751991167301D"),
        (GROUP, SESSION, "9" * 5_000),
        (METRICS, "match", "client_id=" + "(" * 5_000 + ")" * 5_000),
        (METRICS, "match", "client_id=a{99999999999999999999}"),
    ],
)
def test_values_too_large_are_refused(resource_type: int, name: str, value: str) -> None:
    broker = BrokerInMemory()
    code, message = alter(broker, resource_type, "r", (name, value))
    assert (code, message is None) == (InvalidConfig.code, False)


def test_alter_configs_replaces_all() -> None:
    broker = BrokerInMemory()
    alter(broker, METRICS, "m", ("metrics", "a,b"), ("interval.ms", "500"))
    configs = [k33.Config(name="match", value="client_id=x")]
    resource = k33.Resource(resource_type=METRICS, resource_name="m", configs=configs)
    assert broker.ask(k33.Request(resources=[resource], validate_only=False)).responses[0].error_code == 0
    assert {name: config.value for name, config in describe(broker, METRICS, "m").items()} == {
        "interval.ms": "300000",
        "match": "client_id=x",
        "metrics": "",
    }


def test_resources_are_listed_while_they_have_configs() -> None:
    broker = BrokerInMemory()

    def listed() -> list[tuple[int, str]]:
        answer = broker.ask(k74.Request(resource_types=[METRICS, GROUP]))
        return [(each.resource_type, each.resource_name) for each in answer.config_resources]

    alter(broker, METRICS, "m", ("metrics", "a"))
    alter(broker, GROUP, "g", (SESSION, "50000"))
    assert listed() == [(GROUP, "g"), (METRICS, "m")]
    alter(broker, GROUP, "g", (SESSION, None))
    assert listed() == [(METRICS, "m")]


def test_invalid_stored_broker_configs_do_not_prevent_a_start(caplog: pytest.LogCaptureFixture) -> None:
    """Apache Kafka leaves them out, too; here more of them, for its listeners are altered while it runs."""
    broker = BrokerInMemory()
    stored = {"listeners": "PLAINTEXT://:1", "my.plugin": "x", "group.consumer.assignment.interval.ms": "2000", "max.connections": "5"}
    broker.cluster.metadata.commit(
        [ConfigRecord(resource_type=4, resource_name="1", name=name, value=text) for name, text in stored.items()]
    )
    broker.services.coordinators.stop()
    broker.cluster.close()
    again = BrokerInMemory(folder=broker.folder, config={"group.consumer.max.assignment.interval.ms": "1500"})
    assert (again.config.max_connections, again.config.group_consumer_assignment_interval_ms) == (5, 0)
    assert [listener.port for listener in again.config.listeners] == [9092]
    assert "the stored broker config listeners is ignored" in caplog.text
    assert "group.consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms" in caplog.text

    assert alter(again, 4, "1", ("max.connections", "6")) == (0, None)
    assert again.config.max_connections == 6
    assert again.cluster.image.config_of(4, "1") == {**stored, "max.connections": "6"}


def test_refused_broker_config_changes_nothing() -> None:
    broker = BrokerInMemory()
    assert alter(broker, 4, "", ("max.connections.per.ip.overrides", "nonsense"), ("max.connections", "5"))[0] == 42
    assert broker.config.max_connections == 2**31 - 1
    assert alter(broker, 4, "", ("max.connections", "5")) == (0, None)
    assert broker.config.max_connections == 5


def test_replication_throttles_are_described_only_if_set() -> None:
    broker = BrokerInMemory()
    name = "leader.replication.throttled.rate"
    assert name not in describe(broker, 4, "1")
    alter(broker, 4, "1", (name, "1000"))
    assert describe(broker, 4, "1")[name].value == "1000"
