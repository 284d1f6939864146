"""Debian's Prometheus scrapes a broker: its rules fire when the lab makes the broker misbehave, and each query of the dashboard runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minibroker.testing import BrokerThread
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
OBSERVE = ROOT / "docker" / "observe"
WAITS = re.compile(r"\bfor: \w+")
VARIABLES = {"$__rate_interval": "1m", '=~"$instance"': '=~".*"', '=~"$topic"': '=~".*"'}

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None, reason="needs prometheus and promtool (Debian: prometheus)"
)


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as answer:  # noqa: S310  our own
            return json.load(answer)["data"]

    def query(self, text: str) -> list[Any]:
        found: list[Any] = self.get("query", query=text)["result"]
        return found

    def is_up(self) -> bool:
        try:
            return any(float(each["value"][1]) == 1 for each in self.query("up"))
        except OSError:
            return False

    def firing(self) -> set[str]:
        return {each["labels"]["alertname"] for each in self.get("alerts")["alerts"] if each["state"] == "firing"}


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Prometheus with our files; each rule fires at once."""
    text = (OBSERVE / "prometheus.yaml").read_text().replace("broker:9308", target)
    (folder / "prometheus.yaml").write_text(re.sub(r"(_interval): \w+", r"\1: 1s", text))
    (folder / "alerts.yaml").write_text(WAITS.sub("for: 0s", (OBSERVE / "alerts.yaml").read_text()))
    port = free_port()
    options = {"config.file": f"{folder}/prometheus.yaml", "storage.tsdb.path": f"{folder}/tsdb", "web.listen-address": f"127.0.0.1:{port}"}
    command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "prometheus.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) as process:
        try:
            found = Prometheus(f"http://127.0.0.1:{port}")
            wait_until(found.is_up, lambda: (folder / "prometheus.log").read_text()[-2000:], 60)
            yield found
        finally:
            process.terminate()


def dashboard() -> list[tuple[str, str]]:
    """Title and query of each target."""
    panels = json.loads((OBSERVE / "dashboard.json").read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]


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
        lab = process.output.partition("lab ")[2].partition(",")[0]

        def do(command: str, **arguments: Any) -> Any:
            request = urllib.request.Request(  # noqa: S310  our own
                f"{lab}/{command}", json.dumps(arguments).encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  as above
                return json.load(answer)["result"]

        produce(process.bootstrap)
        with prometheus(tmp_path, target) as found:
            wait_until(lambda: bool(found.query('kafka_topic_partition_current_offset{topic="orders"} == 1')), "no record was scraped")
            assert "RecordsNotShown" not in found.firing()
            do("high_watermark.hold", topic="orders", partition=0)
            produce(process.bootstrap)
            wait_until(lambda: "RecordsNotShown" in found.firing(), lambda: str(found.get("alerts")))
            do("high_watermark.release")
            wait_until(lambda: "RecordsNotShown" not in found.firing(), lambda: str(found.get("alerts")))
            failed = {}
            for title, query in dashboard():
                for variable, value in VARIABLES.items():
                    query = query.replace(variable, value)  # noqa: PLW2901  step by step
                result = found.get("query", query=query)["result"]
                if not result and title not in MAY_BE_EMPTY:
                    failed[title] = query
            assert failed == {}


#: panels of what there is none of in the test: open connections, consumers, errors, held records, transactions
MAY_BE_EMPTY = {
    "Clients",
    "Errors",
    "High watermark behind the log end",
    "Lag in offsets",
    "Lag in records, without markers",
    "Last stable offset behind the high watermark",
    "Members",
    "Unread records",
}


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
