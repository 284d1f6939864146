"""Other stand-ins for a broker: franz-go's kfake (Go; on disk and in memory) and the mock cluster of librdkafka (C, in memory).

kfake is built from benchmarks/kfake once; the mock cluster comes with confluent-kafka. One that cannot be had is left out with a line.
Tansu is not here: it is no package of any registry that this project uses.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from peers import CACHE, START_TIMEOUT_S, Need, Peer, Unavailable

KFAKE = Path(__file__).parent / "kfake"
MOCK_PARTITIONS = 4  #: of each topic; the mock cluster makes them when a client first asks


class Kfake(Peer):
    """kfake with its data in a folder."""

    name = "kfake"
    gives = frozenset({Need.KEEPS, Need.TOPICS, Need.SYNC, Need.GROUPS, Need.TRANSACTIONS})

    def prepare(self) -> None:
        """Build it once for these sources."""
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
        """The port, and where its data go."""
        return [str(_kfake_program()), str(self.port), str(self.data_dir)]


class KfakeInMemory(Kfake):
    """kfake that keeps nothing."""

    name = "kfake in memory"

    def command(self) -> list[str]:
        """The port only."""
        return [str(_kfake_program()), str(self.port)]


class MockCluster(Peer):
    """librdkafka's mock cluster in a process of its own, which says on which port it listens."""

    name = "librdkafka mock"
    has_create_topics = False
    gives = frozenset()  # it keeps 5 MB a partition; a group waits 3 s for members

    def command(self) -> list[str]:
        """Run the end of this file."""
        return [sys.executable, __file__]

    def _answers(self) -> bool:
        said = (self.folder / "output.log").read_text(errors="replace").splitlines()
        ports = [line.removeprefix("port ") for line in said if line.startswith("port ")]
        if not ports:
            return False
        self.port = int(ports[0])
        return super()._answers()


def _kfake_program() -> Path:
    version = next(line.split()[-1] for line in (KFAKE / "go.mod").read_text().splitlines() if "pkg/kfake " in line)
    CACHE.mkdir(parents=True, exist_ok=True)
    return CACHE / f"kfake-{version}"


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
