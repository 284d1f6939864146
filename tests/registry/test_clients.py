"""Registry clients of other makes: each registers, evolves, reads back, meets an incompatible schema, and gets its own error.

The programs in `clients` check what they get, and print a line for each step. confluent-kafka's client is in test_served.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.spoken_clients import building, go_program
from tests.support.broker_process import BrokerProcess
from tests.support.soak import IS_SOAK

HERE = Path(__file__).parent / "clients"
NODE_STEPS = {
    "confluent_js": ["evolves avro", "evolves json", "evolves protobuf with a reference", "asks for subjects and configurations"],
    "kafkajs": [
        "evolves kafkajs-avro",
        "evolves kafkajs-avro-reference",
        "evolves kafkajs-json",
        "evolves kafkajs-protobuf-reference",
        "meets errors",
    ],
}
GO_STEPS = [
    "evolves go-avro",
    "evolves go-json",
    "evolves go-protobuf",
    "encodes and decodes",
    "changes settings, deletes, and meets errors",
]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with BrokerProcess(tmp_path, "--registry-port", "0") as broker:
        found = re.search(r"registry (http://\S+?),", broker.output)
        assert found is not None
        yield found[1]


def steps(*command: str) -> list[str]:
    """The lines that a program printed; it ends with 0."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def node_program(name: str) -> Path:
    """A program for Node.js, beside its packages, which npm fetches once."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed")
    sources = sorted((HERE / name).iterdir())
    with building(f"registry-{name}", sources) as folder:
        if not (folder / "node_modules").exists():
            for each in sources:
                shutil.copy(each, folder)
            npm = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
            if subprocess.run(npm, cwd=folder, capture_output=True, check=False).returncode != 0:
                pytest.skip(f"the packages of {name} cannot be fetched")
    return folder / "client.js"


def test_kafkajs(url: str) -> None:
    assert steps("node", str(node_program("kafkajs")), url) == NODE_STEPS["kafkajs"]


@pytest.mark.skipif(not IS_SOAK, reason="fetches 180 MB: MINIBROKER_SOAK=1 runs it")
def test_confluents_client_for_node(url: str) -> None:
    assert steps("node", str(node_program("confluent_js")), url) == NODE_STEPS["confluent_js"]


def test_franz_go(url: str) -> None:
    assert steps(str(go_program("registry-franz-go", HERE / "franz_go")), url) == GO_STEPS
