"""Capture Apache Kafka's configs of groups, client metrics and brokers from a running broker.

Writes own_configs_kafka_4.3.1.json:
    described   resource type -> name -> value, type, source, read_only, is_sensitive, synonyms [name, value, source] when none is stored
    altered     [resource type, resource name, [[config, operation, value], ...], error code, message], of IncrementalAlterConfigs
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minibroker.schemas import k44_incremental_alter_configs as k44
from tests.golden.captures.admin import ask
from tests.golden.captures.configs import describe, topic_row

FILE = Path(__file__).parents[1] / "own_configs_kafka_4.3.1.json"
BROKER, METRICS, GROUP = 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

NUMBERS = [
    "", "abc", "-1", "0", "1", "2", "5", "10", "11", "99", "100", "999", "1000", "4000", "4001", "4999", "5000", "14999", "15000", "15001",
    "45000", "60000", "60001", "2147483648", " 50000 ",
]  # fmt: skip
OFFSET_RESETS = [
    "", "LATEST", "latest", "earliest", "none", "by_duration:", "by_duration:PT1H", "by_duration:-PT1H", "by_duration:PT-1H",
    "by_duration:P",
    "by_duration:P1DT2H3M4.5S", "by_duration:pt1s", "by_duration:PT", "by_duration:PT0S", "BY_DURATION:PT1S", "by_duration:1h",
    "by_duration:+PT1S", "by_duration:PT.5S", "by_duration:P1W", "by_duration:PT1.S", "by_duration:PT1,5S",
]  # fmt: skip
PATTERNS = [
    "", "a", "client_id=x", "client_id=", "client_id=a=b", "client_id=[", "client_id=a,client_id=a", "client_id=a,", "foo=1", ",",
    " client_id = a ", "client_software_name = Java, client_software_version = 11.1.*",
]  # fmt: skip
Changes = list[tuple[str, int, str | None]]

TOGETHER: list[Changes] = [
    [("foo", SET, "x")],
    [("foo", DELETE, None)],
    [("consumer.session.timeout.ms", APPEND, "1")],
    [("consumer.session.timeout.ms", SET, None)],
    [("consumer.session.timeout.ms", SET, "45000"), ("consumer.session.timeout.ms", SET, "46000")],
    [("consumer.session.timeout.ms", SET, "60000"), ("share.heartbeat.interval.ms", SET, "15000")],
    [("streams.session.timeout.ms", SET, "45000"), ("streams.heartbeat.interval.ms", SET, "1")],
]


OF_METRICS: list[Changes] = [[("metrics", APPEND, "a")], [("metrics", SUBTRACT, "a")], [("foo", SET, "x")]]

#: of one broker, and of all
OF_BROKERS: list[Changes] = [
    [("max.connections", APPEND, "5")],
    [("max.connections", SUBTRACT, "5")],
    [("foo", APPEND, "5")],
    [("foo", DELETE, None)],
    [("node.id", SET, "5")],
    [("node.id", DELETE, None)],
    [("node.id", SET, "1"), ("log.dirs", SET, "x")],
    [("log.retention.hours", SET, "5")],
    [("advertised.listeners", SET, "PLAINTEXT://:1")],
    [("quota.window.num", SET, "5")],
    [("log.retention.ms", SET, "abc")],
    [("log.retention.bytes", SET, "")],
    [("max.connections", SET, "-5")],
    [("max.connections", SET, None)],
    [("max.connections", SET, "5"), ("max.connections", SET, "6")],
    [("max.connections.per.ip.overrides", SET, "127.0.0.1:5")],
    [("group.consumer.assignment.interval.ms", SET, "20000")],
    [("group.consumer.assignment.interval.ms", SET, "2000")],
    [("group.consumer.session.timeout.ms", SET, "50000")],
    [("min.insync.replicas", SET, "1")],
    [("min.insync.replicas", DELETE, None)],
    [("log.cleanup.policy", APPEND, "compact")],
    [("log.cleanup.policy", APPEND, "foo")],
    [("log.cleanup.policy", SET, "")],
    [("background.threads", SET, "5")],
    [("num.io.threads", SET, "0")],
    [("compression.type", SET, "foo")],
    [("log.message.timestamp.type", SET, "x")],
    [("unclean.leader.election.enable", SET, "x")],
    [("producer.id.expiration.ms", SET, "5")],
    [("transaction.partition.verification.enable", SET, "false")],
    [("message.max.bytes", SET, " 100 ")],
    [("leader.replication.throttled.rate", SET, "100")],
    [("follower.replication.throttled.rate", SET, "-1")],
    [("log.flush.interval.messages", SET, "0")],
]


def tried(kind: int, resource: str, name: str, text: str) -> tuple[int, str, Changes]:
    """One config set to one text."""
    return kind, resource, [(name, SET, text)]


def changes() -> list[tuple[int, str, Changes]]:
    """Every change that is tried."""
    numbers = [f"{kind}.{name}" for kind in ("consumer", "share", "streams") for name in ("session.timeout.ms", "heartbeat.interval.ms")]
    numbers += [f"{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams")]
    numbers += ["share.delivery.count.limit", "share.partition.max.record.locks", "share.record.lock.duration.ms"]
    numbers += ["streams.initial.rebalance.delay.ms", "streams.num.standby.replicas"]
    texts = dict.fromkeys(numbers, NUMBERS)
    texts["share.auto.offset.reset"] = OFFSET_RESETS
    texts["share.isolation.level"] = ["", "read_committed", "READ_COMMITTED", " read_uncommitted ", "x"]
    texts["share.renew.acknowledge.enable"] = ["", "true", "FALSE", "1"]
    of_metrics = {
        "interval.ms": ["", "abc", "99", "100", "3600000", "3600001", " 500 "],
        "match": PATTERNS,
        "metrics": ["", "a,b", "a,,b", ",", "*"],
    }
    found: list[tuple[int, str, Changes]] = []
    for name, some in texts.items():
        found += [tried(GROUP, "g", name, text) for text in some]
    found += [(GROUP, "g", each) for each in TOGETHER]
    for name, some in of_metrics.items():
        found += [tried(METRICS, "m", name, text) for text in some]
    found += [(METRICS, "m", each) for each in OF_METRICS]
    found += [(BROKER, name, each) for name in ("1", "") for each in OF_BROKERS]
    found += [(BROKER, name, [("max.connections", SET, "5")]) for name in ("2", "x")]
    found += [(METRICS, "", [("metrics", SET, "a")]), (GROUP, "", [("consumer.session.timeout.ms", SET, "45000")])]
    return found


def request(kind: int, name: str, configs: Changes) -> k44.Request:
    """A change that is only tried."""
    settings = [k44.Config(name=key, config_operation=operation, value=value) for key, operation, value in configs]
    return k44.Request(resources=[k44.Resource(resource_type=kind, resource_name=name, configs=settings)], validate_only=True)


def answer(response: k44.Response) -> list[Any]:
    """As in the file."""
    return [response.responses[0].error_code, response.responses[0].error_message]


def capture(port: int) -> None:
    """Ask everything and write the file."""
    described = {str(kind): {each.name: topic_row(each) for each in describe(port, kind, "nobody")} for kind in (METRICS, GROUP)}
    altered = [[kind, name, configs, *answer(ask(port, request(kind, name, configs)))] for kind, name, configs in changes()]
    provenance = "Apache Kafka 4.3.1, one KRaft node; asked by python -m tests.golden capture own_configs"
    content = {"provenance": provenance, "described": described, "altered": altered}
    FILE.write_text(json.dumps(content, separators=(",", ":")).replace("],[", "],\n["))
