"""A broker and a client that are on two machines, as far as the kernel lets them see: network namespaces with a cable between them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

BROKER_IP, CLIENT_IP = "10.213.77.2", "10.213.77.3"


class Machines(NamedTuple):
    """Names of two namespaces."""

    broker: str
    client: str

    def on(self, name: str, *words: str) -> list[str]:
        """A call of minibroker in one of them."""
        return ["ip", "netns", "exec", name, sys.executable, "-m", "minibroker", *words]


@pytest.fixture
def machines() -> Iterator[Machines]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    names = Machines(f"mb-{os.getpid()}", f"mc-{os.getpid()}")
    cable = ["ip", "link", "add", "mb0", "netns", names.broker, "type", "veth", "peer", "name", "mb0", "netns", names.client]
    try:
        try:
            for name in names:
                subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True)
            subprocess.run(cable, check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        for name, address in zip(names, (BROKER_IP, CLIENT_IP), strict=True):
            for words in (("addr", "add", f"{address}/24", "dev", "mb0"), ("link", "set", "mb0", "up"), ("link", "set", "lo", "up")):
                subprocess.run(["ip", "-n", name, *words], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_localhost_advertised_to_another_machine(machines: Machines, tmp_path: Path) -> None:
    """The log says so, doctor says so, and what doctor advises helps."""
    assert findings(machines, tmp_path / "told", [])[0] == (
        "advertises localhost:9092, which is the machine of the client itself, not the broker's, and nothing listens there",
        f"Set advertised.listeners=PLAINTEXT://{BROKER_IP}:9092 (KAFKA_ADVERTISED_LISTENERS in a container's environment)",
    )
    log = (tmp_path / "told" / "log").read_text()
    assert (
        f"a client at {CLIENT_IP} connected to listener PLAINTEXT, but the advertised address localhost:9092 is the client's own machine"
        in log
    )
    assert f"(it connected to {BROKER_IP})" in log

    assert findings(machines, tmp_path / "set", ["--set", f"advertised.listeners=PLAINTEXT://{BROKER_IP}:9092"]) == []
    assert "WARNING" not in (tmp_path / "set" / "log").read_text()


def findings(machines: Machines, folder: Path, settings: list[str]) -> list[tuple[str, str]]:
    """Problems that the client's doctor finds, with its advice."""
    folder.mkdir()
    serve = machines.on(machines.broker, "serve", "--data-dir", str(folder / "data"), "--port", "9092", *settings)
    with (folder / "log").open("wb") as log, subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=log, text=True) as broker:
        try:
            assert broker.stdout is not None
            assert "minibroker ready" in broker.stdout.readline()
            words = machines.on(machines.client, "doctor", "-b", f"{BROKER_IP}:9092", "-o", "json")
            ran = subprocess.run(words, capture_output=True, text=True, check=False)
        finally:
            broker.terminate()
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return [(each["text"], each["advice"]) for each in found if each["severity"] == "problem"]
