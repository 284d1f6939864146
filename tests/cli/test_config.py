"""`minibroker config`: what is told of properties, and what is found in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minibroker.cli.config import variable_of
from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.reference import KINDS, entries
from minibroker.config.sources import from_environment
from tests.cli.conftest import Commands

CONFIG = Path(__file__).parents[2] / "config"


def test_all_properties_are_listed(offline: Commands) -> None:
    items = json.loads(offline("config", "list", "-o", "json").out)
    assert [(item["kind"], item["name"]) for item in items] == [(kind, entry.name) for kind in KINDS for entry in entries(kind)]
    (delay,) = [item for item in items if item["name"] == "group.initial.rebalance.delay.ms"]
    assert (delay["default"], delay["kafka_default"], delay["unit"], delay["update_mode"]) == ("0", "3000", "milliseconds", "read-only")
    assert offline("config", "list", "--kind", "client-metrics", "-o", "name").lines == ["interval.ms", "match", "metrics"]


def test_properties_different_from_kafka(offline: Commands) -> None:
    names = offline("config", "list", "--kind", "broker", "--different", "-o", "name").lines
    assert {"node.id", "cluster.id", "log.preallocate", "listeners", "log.segment.bytes"} <= set(names)
    assert {"num.partitions", "message.max.bytes"}.isdisjoint(names)
    assert offline("config", "list", "--different").lines[0].split() == [
        "KIND",
        "NAME",
        "DEFAULT",
        "KAFKA",
        "DEFAULT",
        "DIFFERENCE",
    ]
    output = {line.split()[1]: line for line in offline("config", "list", "--kind", "broker", "--different").lines}
    assert output["log.preallocate"].endswith("  No effect.")
    assert output["cluster.id"].endswith("  Kafka documents no property of this name.")
    assert output["listener.security.protocol.map"].split()[2:4] == ["SASL_SSL:SASL_SSL,PLA..."] * 2
    assert offline("config", "list").lines[0].split() == ["KIND", "NAME", "TYPE", "UNIT", "DEFAULT", "UPDATE", "MODE"]


def test_a_property_explained(offline: Commands) -> None:
    assert offline("config", "explain", "log.retention.ms").lines == [
        "log.retention.ms (broker property)",
        "  Age, by record timestamp, from which a segment is deleted. -1: never.",
        "  type            long, milliseconds",
        "  default         none: log.retention.hours=168 applies",
        "  may change      cluster-wide: also while the broker runs, for all brokers or for one",
        "  see also        log.retention.ms, log.retention.minutes, log.retention.hours: the first of these",
        "                  that is set applies",
        "  set it by       log.retention.ms=VALUE in a file or after 'serve --set', or",
        "                  KAFKA_LOG_RETENTION_MS, or 'minibroker configs alter brokers --default -c",
        "                  log.retention.ms=VALUE'",
        "  Apache Kafka    the same",
    ]


def test_differences_explained(offline: Commands) -> None:
    output = " ".join(offline("config", "explain", "group.initial.rebalance.delay.ms", "cluster.id").out.split())
    assert "Apache Kafka its default is 3000, as here with minibroker.like.kafka. Here: A group does not wait" in output
    assert "Apache Kafka does not document it, or has no such property" in output
    both = offline("config", "explain", "compression.type").out
    assert both.count("compression.type (") == 2
    assert "when not set    compression.type of the broker" in both
    assert "effect          none" in offline("config", "explain", "log.preallocate").out
    assert "process.roles\n  A property of Apache Kafka without effect here: " in offline("config", "explain", "process.roles").out


def test_unknown_property(offline: Commands) -> None:
    result = offline("config", "explain", "log.retention.hour", code=1)
    assert result.err == "Error: there is no property log.retention.hour: did you mean log.retention.hours?\n"


@pytest.mark.parametrize("kind", KINDS)
def test_every_property_can_be_explained(offline: Commands, kind: str) -> None:
    names = [entry.name for entry in entries(kind)]
    output = offline("config", "explain", *names).out
    assert all(f"{name} (" in output for name in names)
    assert max(map(len, output.splitlines())) <= 120


def test_variables_are_read_back() -> None:
    names = [*BROKER_PROPERTIES, "a_b-c.d"]
    assert from_environment({variable_of(name): "x" for name in names}) == dict.fromkeys(names, "x")


@pytest.mark.parametrize("name", ["server", "test", "durable"])
def test_our_files_are_fine(offline: Commands, name: str) -> None:
    file = CONFIG / f"{name}.properties"
    last = offline("config", "check", str(file), "--strict").lines[-1]
    assert last.startswith(f"{file}: 0 errors, 0 warnings, ")


def test_all_that_is_wrong_with_a_file(offline: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "num.partitions=many\nlog.cleanup.policy=shred\nnum.partition=3\nssl.keystore.location=/k\nprocess.roles=broker\nnode.id=1\n"
    )
    output = offline("config", "check", str(file), code=1).lines
    assert output == [
        (
            "error: Invalid value shred for configuration log.cleanup.policy: String must be one of: compact, delete. "
            f"log.cleanup.policy was set by {file}, line 2"
        ),
        f"error: Invalid value many for configuration num.partitions: Not a number of type INT. num.partitions was set by {file}, line 1",
        "warning: unknown property num.partition is ignored: did you mean num.partitions?",
        "warning: ssl.keystore.location has no effect: no listener uses TLS or SASL",
        "set: log.cleanup.policy=shred (default: delete)",
        "set: num.partitions=many (default: 1)",
        "set: ssl.keystore.location=/k (default: none)",
        f"{file}: 2 errors, 2 warnings, 3 of 6 not the default",
    ]
    file.write_text("num.partition=3\n")
    assert offline("config", "check", str(file)).lines[-1] == f"{file}: 0 errors, 1 warning, 0 of 1 not the default"
    offline("config", "check", str(file), "--strict", code=1)
    monkeypatch.setenv("KAFKA_LISTENERS", "OTHER://:1")
    assert "no security protocol is known" in offline("config", "check", "-e", str(file), code=1).lines[0]
    offline("config", "check", str(file))
