"""`minibroker doctor`, at brokers that are well and at one that tells a wrong address; and what docs/doctor.md shows of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minibroker.cli import doctor
from minibroker.client.connection import Connection
from minibroker.client.doctor.addresses import Network
from minibroker.client.errors import BrokerUnreachable
from minibroker.client.transport import Address, Deadline
from minibroker.schemas import k03_metadata as k03
from tests.cli.conftest import Cluster, Commands
from tests.client.doctor.test_checkup import cluster as fake_cluster
from tests.client.fake_broker import FakeBroker
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "doctor.md"
BLOCK = re.compile(r"(<!-- doctor -->\n```text\n)(.*?)(```\n)", re.DOTALL)


def test_healthy_cluster(cli: Commands, cluster: Cluster) -> None:
    result = cli("doctor")
    assert result.lines[-1] == "no problem found"
    port = cluster.bootstrap.rpartition(":")[2]
    assert re.search(rf"^ok +broker 1: advertises (localhost|127\.0\.0\.1):{port}, and answers there$", result.out, re.MULTILINE)
    items = json.loads(cli("doctor", "-o", "json").out)
    assert [set(item) for item in items] == [{"severity", "subject", "text", "advice"}] * len(items)
    assert {item["severity"] for item in items} <= {"ok", "note"}
    assert f"log directory {cluster.data_dir} is online" in {item["text"] for item in items}


def test_no_broker_listens(offline: Commands) -> None:
    result = offline("doctor", code=1)
    assert result.lines[0] == "problem  127.0.0.1:1: nothing listens there"
    assert result.lines[-1] == "1 problem found"
    assert result.err == ""


def test_wrong_advertised_address(tmp_path: Path, offline: Commands) -> None:
    port = free_port()
    settings = [f"listeners=PLAINTEXT://127.0.0.1:{port}", "advertised.listeners=PLAINTEXT://localhost:1"]
    words = [sys.executable, "-m", "minibroker", "serve", "--data-dir", str(tmp_path), "--set", settings[0], "--set", settings[1]]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            assert "ready" in broker.stdout.readline()
            (problem,) = [
                item
                for item in json.loads(offline("doctor", "-b", f"localhost:{port}", "-o", "json", code=1).out)
                if item["severity"] == "problem"
            ]
        finally:
            broker.terminate()
    assert problem["text"] == f"advertises localhost:1, where nothing listens: from here the broker is at port {port}"
    assert f"Set advertised.listeners=PLAINTEXT://localhost:{port} " in problem["advice"]


def shown(monkeypatch: pytest.MonkeyPatch, offline: Commands) -> str:
    """Return the output of doctor for a container whose port 9092 is mapped to 32768."""
    broker: FakeBroker = fake_cluster({"advertised.listeners": "PLAINTEXT://localhost:9092"})

    def connect(address: Address, deadline: Deadline) -> Connection:
        if address.port == 9092:
            raise BrokerUnreachable("no connection") from ConnectionRefusedError(111, "Connection refused")
        return broker.connect(address, deadline)

    partitions = [
        k03.PartitionResult(error_code=0, partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1]) for index in range(3)
    ]
    topics = [k03.TopicResult(error_code=0, name="orders", partitions=partitions)]
    node = k03.Broker(node_id=1, host="localhost", port=9092)
    broker.on(
        k03,
        lambda request, _: k03.Response(
            brokers=[node], controller_id=1, cluster_id="4L6g3nShT-eMCtK--X86sw", topics=topics if request.topics is None else []
        ),
    )
    monkeypatch.setattr(doctor, "network", lambda: Network(lambda _: ("127.0.0.1",), connect))
    return f"$ minibroker doctor -b localhost:32768\n{offline('doctor', '-b', 'localhost:32768', code=1).out}"


def test_documented_output_is_up_to_date(monkeypatch: pytest.MonkeyPatch, offline: Commands) -> None:
    (block,) = BLOCK.findall(PAGE.read_text())
    numbers = re.compile(r"(?<=serves ).*")  # of APIs and their versions: those of the day
    assert numbers.sub("", block[1]) == numbers.sub("", shown(monkeypatch, offline))


@pytest.mark.parametrize(
    "words",
    [
        "which is the machine of the client itself",
        " is unknown here",
        "where nothing listens: from here the broker is at port",
        "where another cluster answers",
        "an address of a network that cannot be reached from here",
        "where a server can listen, but to which no client can connect",
        "something listens there, but does not answer as a Kafka listener",
    ],
)
def test_documented_problems_match_the_source(words: str) -> None:
    source = "".join(file.read_text() for file in (ROOT / "minibroker" / "client" / "doctor").glob("*.py"))
    assert words in source
    assert words in PAGE.read_text().partition("## What is wrong")[2]
