"""Debian's Prometheus scrapes a broker: its rules fire when the lab makes the broker misbehave."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from minibroker.testing import BrokerThread
from tests.metrics.queries import OBSERVE, Lab, prometheus
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None, reason="needs prometheus and promtool (Debian: prometheus)"
)


def test_the_rules_are_valid() -> None:
    result = subprocess.run(
        ["promtool", "check", "rules", OBSERVE / "alerts.yaml"], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "11 rules found" in result.stdout


def test_promtool_finds_no_fault_in_names(tmp_path: Path) -> None:
    """Of our own names. Those of others are what they are."""
    with BrokerProcess(tmp_path, "--metrics-port", "0", "--metrics-names", "minibroker") as process:
        url = process.output.partition("metrics ")[2].partition(",")[0]
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:  # noqa: S310  our own
            text = answer.read()
    result = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert [line for line in result.stderr.decode().splitlines() if line.startswith("minibroker_")] == []


def test_an_alert_fires_while_the_high_watermark_is_held(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--metrics-port", "0", "--lab-port", "0") as process:
        target = process.output.partition("metrics http://")[2].partition(",")[0]
        do = Lab(process.output.partition("lab ")[2].partition(",")[0]).do
        produce(process.bootstrap)
        with prometheus(tmp_path, target) as found:
            wait_until(lambda: bool(found.query('kafka_topic_partition_current_offset{topic="orders"} == 1')), "no record was scraped")
            assert "RecordsNotShown" not in found.firing()
            do("high_watermark.hold", topic="orders", partition=0)
            produce(process.bootstrap)
            wait_until(lambda: "RecordsNotShown" in found.firing(), lambda: str(found.get("alerts")))
            do("high_watermark.release")
            wait_until(lambda: "RecordsNotShown" not in found.firing(), lambda: str(found.get("alerts")))


def produce(bootstrap: str) -> None:
    """One record, acknowledged by the leader alone."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "1", "enable.idempotence": False})
    producer.produce("orders", b"one", partition=0)
    assert producer.flush(30) == 0


def test_the_test_kit_shows_the_same(tmp_path: Path) -> None:
    """An alert can be tried without Prometheus."""
    with BrokerThread(topics={"orders": 1}) as broker, broker.hold_high_watermark("orders", 0):
        produce(broker.bootstrap_servers)
        behind = broker.metrics["kafka_log_log_logendoffset"].value(topic="orders")
        assert behind - broker.metrics["kafka_topic_partition_current_offset"].value(topic="orders") == 1
