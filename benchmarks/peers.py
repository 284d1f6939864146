"""The brokers that are measured: each is a process on a free port of 127.0.0.1 with its own data directory.

Apache Kafka comes from Maven Central by its jars (kafka_2.13 and what it needs), with the heap and collector flags of its own start
script; it is left out with a line where Java or Maven is missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

KAFKA_VERSION = "4.3.1"
CACHE = Path(os.environ.get("MINIBROKER_BENCH_CACHE", Path.home() / ".cache" / "minibroker-bench"))
JVM_FLAGS = ["-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
START_TIMEOUT_S = 60.0
CPU_CLOCK_OF_PROCESS = 2  #: CPUCLOCK_SCHED of clock_getcpuclockid(3)
#: An ApiVersions v0 request, which every broker answers: size, key 18, version 0, correlation 1, no client id.
API_VERSIONS_V0 = bytes.fromhex("0000000a 0012 0000 00000001 ffff")

NO_LOGGING = "org.slf4j:slf4j-nop:1.7.36"
KAFKA_JARS = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}", NO_LOGGING)
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>jars</artifactId><version>1</version><dependencies>
{dependencies}
</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"

SERVER_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class Unavailable(Exception):  # noqa: N818  not our error: the peer cannot run on this machine
    """Why a peer is left out."""


def free_port() -> int:
    """Return a port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Need(Enum):
    """What a load may need of a broker beyond Produce, ListOffsets and creating topics."""

    KEEPS = "it keeps gigabytes, and gives them back"
    TOPICS = "topics of any size, with configs"
    RESTART = "it starts again with its data"
    LOG_FILES = "Apache Kafka's own files in data_dir"
    COMPACTION = "it compacts logs"
    SYNC = "it has a setting to sync each record to the disk"
    GROUPS = "classic consumer groups"
    TRANSACTIONS = "transactions"
    CLIENTS = "real clients of every kind, Spark and Kafka's tools work with it"


class Peer(ABC):
    """One broker process."""

    name: str
    gives: frozenset[Need] = frozenset(Need)
    start_timeout_s = START_TIMEOUT_S
    stop_timeout_s = 30.0
    has_create_topics = True  #: if false, topics exist once a client asks for them

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self.properties = dict(properties or {})
        self.folder = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        self.port = free_port()
        self.cold_start_ms = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        """The broker's log directory."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The process id of the server."""
        if self._process is None:
            raise Unavailable(f"{self.name} is not running")
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        """The address of the listener."""
        return ("127.0.0.1", self.port)

    def prepare(self) -> None:
        """Do what must not count as start time."""
        self.folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line of the server."""

    def start(self) -> None:
        """Start the broker and wait for its first answer; `cold_start_ms` is the time from exec to that answer."""
        self.prepare()
        log = (self.folder / "output.log").open("wb")
        started = time.perf_counter()
        self._process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        log.close()
        while not self._answers():
            if self._process.poll() is not None or time.perf_counter() - started > self.start_timeout_s:
                words = (self.folder / "output.log").read_text(errors="replace").strip().splitlines()[-3:]
                raise Unavailable(f"{self.name} did not start: {' '.join(words)}")
            time.sleep(0.002)
        self.cold_start_ms = (time.perf_counter() - started) * 1000

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(self.address, timeout=2) as connection:
            connection.sendall(API_VERSIONS_V0)
            return bool(connection.recv(4))
        return False

    def stop(self, *, keep: bool = False) -> None:
        """Stop the broker and delete its data, unless kept for a second start."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(self.stop_timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """Send SIGKILL; the data stay for a second start."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def cpu_seconds(self) -> float:
        """Return user and system time of the process with all its threads, to the nanosecond by Linux's clock of a process."""
        return time.clock_gettime(~self.pid << 3 | CPU_CLOCK_OF_PROCESS)

    def tree_cpu_seconds(self) -> float:
        """Return the same with its child processes, running and ended."""
        total = 0.0
        for pid in (self.pid, *_children(self.pid)):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                total += sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
        return total

    def memory_mb(self) -> float:
        """Return the resident set in MB of 2**20 bytes."""
        return _resident_mb(self.pid)

    def tree_memory_mb(self) -> float:
        """Return the same with all child processes."""
        return sum(_resident_mb(pid) for pid in (self.pid, *_children(self.pid)))


def _resident_mb(pid: int) -> float:
    """Return the resident set of one process, 0 if it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, StopIteration):
        status = Path(f"/proc/{pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024
    return 0.0


def _children(pid: int) -> list[int]:
    """Return the running descendants of `pid`."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


class Minibroker(Peer):
    """This project, with default settings."""

    name = "minibroker"
    python: Sequence[str] = (sys.executable,)  #: the command of the interpreter

    def command(self) -> list[str]:
        """Return the command that a user types."""
        settings = [part for name, value in self.properties.items() for part in ("--set", f"{name}={value}")]
        return [*self.python, "-m", "minibroker", "serve", "--port", str(self.port), "--data-dir", str(self.data_dir), *settings]


class ApacheKafka(Peer):
    """Apache Kafka, one KRaft node, with the flags of Kafka's start script."""

    name = f"kafka {KAFKA_VERSION}"

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(properties)
        self._properties = self.folder / "server.properties"

    def prepare(self) -> None:
        """Fetch the jars once, write the properties and format the directory."""
        super().prepare()
        data = self.data_dir
        if data.exists():
            return
        data.mkdir()
        more = "".join(f"{name}={value}\n" for name, value in self.properties.items())
        self._properties.write_text(SERVER_PROPERTIES.format(port=self.port, controller=free_port(), folder=data) + more)
        tool = ["java", "-cp", self._class_path, "kafka.tools.StorageTool", "format", "--standalone"]
        subprocess.run([*tool, "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(self._properties)], check=True, capture_output=True)

    @property
    def _class_path(self) -> str:
        return f"{kafka_jars()}/*"

    def command(self) -> list[str]:
        """Return the command of the server's main class."""
        return ["java", *JVM_FLAGS, "-cp", self._class_path, "kafka.Kafka", str(self._properties)]


def kafka_jars() -> Path:
    """Return the folder with Apache Kafka and its tools."""
    return fetch_jars(f"kafka-{KAFKA_VERSION}", *KAFKA_JARS)


def java_tool(main_class: str, *arguments: str) -> list[str]:
    """Return the command line of one of Kafka's tools."""
    return ["java", "-Xmx1G", "-cp", f"{kafka_jars()}/*", main_class, *arguments]


def fetch_jars(name: str, *coordinates: str) -> Path:
    """Return the cache folder `name` with these jars (group:artifact:version) and their dependencies, by Maven at the first call."""
    if shutil.which("java") is None:
        raise Unavailable("no java on this machine")
    folder = CACHE / name
    done = folder / ".done-with-tools"
    if not done.exists():
        if shutil.which("mvn") is None:
            raise Unavailable(f"no mvn on this machine, and the jars of {name} are not in the cache")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(POM.format(dependencies="\n".join(DEPENDENCY.format(*each.split(":")) for each in coordinates)))
        goal = ["mvn", "-B", "-q", f"-Dmaven.repo.local={CACHE / 'm2'}", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        fetched = subprocess.run(goal, cwd=folder, capture_output=True, text=True, check=False)
        if fetched.returncode:
            raise Unavailable(f"Maven could not fetch {name}: {fetched.stdout.strip().splitlines()[-1:]}")
        done.touch()
    return folder
