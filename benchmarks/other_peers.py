"""Other stand-ins for a broker: franz-go's kfake (Go; on disk, in memory), the mock cluster of librdkafka (C, in memory), Tansu (Rust).

kfake is built from benchmarks/kfake once; the mock cluster comes with confluent-kafka; Tansu is taken as it is installed.
One that cannot run is left out with a line.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

from peers import CACHE, START_TIMEOUT_S, Need, Peer, Unavailable

KFAKE = Path(__file__).parent / "kfake"


class Kfake(Peer):
    """kfake with its data in a folder."""

    name = "kfake"
    gives = frozenset({Need.KEEPS, Need.TOPICS, Need.SYNC, Need.GROUPS, Need.TRANSACTIONS})

    def prepare(self) -> None:
        """Build kfake once for these sources."""
        super().prepare()
        program = _kfake_program()
        if program.exists():
            return
        if shutil.which("go") is None:
            raise Unavailable("no go on this machine")
        built = subprocess.run(["go", "build", "-o", str(program), "."], cwd=KFAKE, capture_output=True, text=True, check=False)
        if built.returncode:
            raise Unavailable(f"go could not build it: {built.stderr.strip().splitlines()[-1:]}")

    def command(self) -> list[str]:
        """Return the command with the port, the data directory and whether each record is synced."""
        is_synced = self.properties.get("log.flush.interval.messages") == "1"
        return [str(_kfake_program()), str(self.port), str(self.data_dir), *(["sync"] if is_synced else [])]


class KfakeInMemory(Kfake):
    """kfake that keeps nothing."""

    name = "kfake in memory"
    gives = Kfake.gives - {Need.SYNC}

    def command(self) -> list[str]:
        """Return the command with the port only."""
        return [str(_kfake_program()), str(self.port)]


class MockCluster(Peer):
    """librdkafka's mock cluster in its own process, which prints the port on which it listens."""

    name = "librdkafka mock"
    has_create_topics = False
    gives = frozenset()  # it keeps 5 MB a partition; a group waits 3 s for members

    def command(self) -> list[str]:
        """Return the command that runs the end of this file."""
        return [sys.executable, __file__]

    def _answers(self) -> bool:
        lines = (self.folder / "output.log").read_text(errors="replace").splitlines()
        ports = [line.removeprefix("port ") for line in lines if line.startswith("port ")]
        if not ports:
            return False
        self.port = int(ports[0])
        return super()._answers()


class Tansu(Peer):
    """Tansu with its storage in memory, where somebody has put it on the PATH: it is no package of a registry that this project uses."""

    name = "tansu"
    gives = frozenset({Need.GROUPS})

    def prepare(self) -> None:
        """Find the program; nothing is fetched."""
        super().prepare()
        if shutil.which("tansu") is None:
            raise Unavailable("no tansu on this machine")

    def command(self) -> list[str]:
        """Return the command that serves."""
        place = f"tcp://127.0.0.1:{self.port}/"
        where = ["--kafka-listener-url", place, "--kafka-advertised-listener-url", place]
        return ["tansu", "broker", *where, "--storage-engine", "memory://tansu/"]


def _kfake_program() -> Path:
    sources = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        sources.update((KFAKE / name).read_bytes())
    CACHE.mkdir(parents=True, exist_ok=True)
    return CACHE / f"kfake-{sources.hexdigest()[:16]}"


def _serve_mock_cluster() -> None:
    from confluent_kafka import Producer  # noqa: PLC0415  only the child needs it

    # The cluster lives as long as the client that began it.
    client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
    (broker,) = client.list_topics(timeout=START_TIMEOUT_S).brokers.values()
    print(f"port {broker.port}", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    _serve_mock_cluster()
