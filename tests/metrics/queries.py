"""Ask a real Prometheus for everything that dashboards query: python -m tests.metrics.queries

A broker with all sets of names gets traffic of each kind. Prometheus scrapes it. For each name of
wanted_names.txt there is one query, which selects the series that have all the labels that
dashboards use. The script prints what is empty. tests/metrics/test_queries.py knows why.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from minibroker.metrics.names import ALL
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.confluent import Consumer, Producer
from tests.support.ports import free_port

OBSERVE = Path(__file__).parents[2] / "docker" / "observe"
WANTED = Path(__file__).parent / "wanted_names.txt"
LABEL_VALUES = re.compile(r"^label_values\((\w+), (\w+)\)$")  #: Grafana's, not a function of Prometheus
WAITS = re.compile(r"\bfor: \w+")
VARIABLES = {"$__rate_interval": "1m", '=~"$instance"': '=~".*"', '=~"$topic"': '=~".*"'}
CLIENT = {"client.id": "slow", "statistics.interval.ms": 0}


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


class Lab:
    """The lab of a broker in another process."""

    def __init__(self, url: str) -> None:
        self._url = url

    def do(self, command: str, **arguments: Any) -> Any:
        request = urllib.request.Request(  # noqa: S310  our own
            f"{self._url}/{command}", json.dumps(arguments).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  as above
            return json.load(answer)["result"]


@contextmanager
def traffic(bootstrap: str, lab: Lab) -> Iterator[None]:
    """Everything that a dashboard shows: requests, an error, lag, members, an open transaction, a record that is held, a quota."""
    quotas = ("producer_byte_rate=1e9", "consumer_byte_rate=1e9", "request_percentage=1000")
    client = ("--user", "ANONYMOUS", "--client-id", "slow", "-b", bootstrap)
    subprocess.run(
        [sys.executable, "-m", "minibroker", "quotas", "alter", *client, *(part for quota in quotas for part in ("--set", quota))],
        check=True,
        timeout=60,
    )
    producer = Producer({"bootstrap.servers": bootstrap, **CLIENT})
    for number in range(20):
        producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    lab.do("faults.inject", rule={"kind": "error", "api": "Produce", "error": "NOT_ENOUGH_REPLICAS", "often": {"times": 1}})
    producer.produce("orders", b"again", partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False} | CLIENT
    )
    consumer.subscribe(["orders"])
    assert consumer.consume(10, timeout=30)
    consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
    idle = [Consumer({"bootstrap.servers": bootstrap, "group.id": "idle"}) for _ in range(2)]
    for each in idle:
        each.subscribe(["orders"])
    for _ in range(100):
        for each in idle:
            each.poll(0.1)
        if all(each.memberid() for each in idle) and sum(len(each.assignment()) for each in idle) == 1:
            break  # one of them has no partition
    payments = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments"})
    payments.init_transactions(30)
    for is_open in (False, True):
        payments.begin_transaction()
        payments.produce("orders", b"paid", partition=0)
        assert payments.flush(30) == 0
        if not is_open:
            payments.commit_transaction(30)
    lab.do("high_watermark.hold", topic="orders", partition=0)
    held = Producer({"bootstrap.servers": bootstrap, "acks": "1", "enable.idempotence": False})
    held.produce("orders", b"held", partition=0)
    assert held.flush(30) == 0
    yield
    for each in (consumer, *idle):
        each.close()


def wanted() -> dict[str, set[str]]:
    """The labels that queries use, by name."""
    lines = [line.split() for line in WANTED.read_text().splitlines() if not line.startswith("#")]
    return {name: set() if labels == "-" else set(labels.split(",")) for name, labels, _ in lines}


def query_of(name: str, labels: set[str]) -> str:
    """The query for the series of a name that have all of these labels."""
    matchers = ",".join(f'{label}!=""' for label in sorted(labels))
    return f"{name}{{{matchers}}}"


def panels() -> dict[str, str]:
    """The queries of our dashboard by the titles of their panels, and those of its variables."""
    dashboard = json.loads((OBSERVE / "dashboard.json").read_text())
    variables = [each for each in dashboard["templating"]["list"] if each["type"] == "query"]
    found = {f"${each['name']}": LABEL_VALUES.sub(r'\1{\2!=""}', each["query"]["query"]) for each in variables}
    for panel in dashboard["panels"]:
        for number, target in enumerate(panel["targets"]):
            query = target["expr"]
            for variable, value in VARIABLES.items():
                query = query.replace(variable, value)
            found[f"{panel['title']} {number}"] = query
    return found


@contextmanager
def scraped(folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that has scraped a broker with traffic, twice since its end."""
    arguments = ["--metrics-port", "0", "--lab-port", "0", "--metrics-names", ",".join(ALL)]
    broker = BrokerProcess(folder, *arguments)
    try:
        target = broker.output.partition("metrics http://")[2].partition(",")[0]
        lab = Lab(broker.output.partition("lab ")[2].partition(",")[0])
        with prometheus(folder, target) as found, traffic(broker.bootstrap, lab):
            began_s = time.time()
            ready = f"count_over_time((timestamp(minibroker_build_info) > {began_s})[1m:1s]) >= 3"
            wait_until(lambda: bool(found.query(ready)), lambda: str(found.query("up")), 60)
            yield found
    finally:
        broker.kill()


def empty(found: Prometheus, queries: dict[str, str]) -> dict[str, str]:
    """The queries without a result, by key."""
    return {key: query for key, query in queries.items() if not found.query(query)}


def main() -> None:
    """Print what is empty."""
    names = wanted()
    queries = {name: query_of(name, labels) for name, labels in names.items()} | panels()
    with tempfile.TemporaryDirectory() as folder, scraped(Path(folder)) as found:
        missing = empty(found, queries)
    for key, query in missing.items():
        print(f"{key:<70} {query}")
    print(f"{len(queries) - len(missing)} of {len(queries)} queries have a result")


if __name__ == "__main__":
    main()
