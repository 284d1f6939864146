"""Clients that are programs of their own, behind the face of tests/clients/transactional.py: Java of several versions, and franz-go.

A program gets commands on its standard input, one a line, words separated by tabs. Each answer ends with a line "ok" or "failed WHY".
HANDLE names a producer within its program.

    open HANDLE TRANSACTIONAL_ID TIMEOUT_MS          begin | flush | commit | abort | close HANDLE
    send HANDLE TOPIC PARTITION VALUE ...            offsets HANDLE GROUP TOPIC PARTITION OFFSET
    read ISOLATION (TOPIC PARTITION COUNT) ...       answers TOPIC PARTITION OFFSET VALUE for each record
    committed ISOLATION GROUP TOPIC PARTITION        answers an offset, or -1

Java's has two more: `open` takes settings, NAME=VALUE, and an empty TRANSACTIONAL_ID for a producer that is idempotent only;
`outcomes HANDLE` waits and answers for each record since the last time its offset, or what went wrong.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.clients.transactional import READ_COMMITTED, Fenced, Place, Row, TransactionalProducer
from tests.support.command_program import CommandProgram
from tests.support.java import KAFKA_VERSION, SHORT_LIVED, cache_folder, class_data, kafka_jars, require_java
from tests.support.old_java import client_jars

HERE = Path(__file__).parent
OLDEST_JAVA = "3.9.1"  #: Transactions.java is compiled against it
GO_FLAGS = ("-gcflags=all=-N -l",)  #: nothing is optimized: building a Go client costs more than all that it does in a test
FENCED = re.compile(r"ProducerFenced|InvalidProducerEpoch|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH")


class SpokenProducer:
    """A producer within a program."""

    def __init__(self, client: SpokenClient, handle: str) -> None:
        self._client, self._handle = client, handle

    def begin(self) -> None:
        self._client.ask("begin", self._handle)

    def send(self, place: Place, *values: bytes) -> None:
        self._client.ask("send", self._handle, *place, *(value.decode() for value in values))

    def flush(self) -> None:
        self._client.ask("flush", self._handle)

    def send_offset(self, group: str, place: Place, offset: int) -> None:
        self._client.ask("offsets", self._handle, group, *place, offset)

    def commit(self) -> None:
        self._client.ask("commit", self._handle)

    def abort(self) -> None:
        self._client.ask("abort", self._handle)

    def close(self) -> None:
        self._client.ask("close", self._handle)


class SpokenClient(CommandProgram):
    """A program that speaks to one bootstrap server; it starts here and ends with the context."""

    def __init__(self, command: list[str]) -> None:
        self._handles = (f"producer-{number}" for number in itertools.count())
        super().__init__(command)

    def open(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000) -> TransactionalProducer:
        handle = next(self._handles)
        self.ask("open", handle, transactional_id, timeout_ms)
        return SpokenProducer(self, handle)

    def read(self, bootstrap: str, isolation: str, counts: Mapping[Place, int]) -> dict[Place, list[Row]]:
        found: dict[Place, list[Row]] = {place: [] for place in counts}
        for line in self.ask("read", isolation, *(word for place, count in counts.items() for word in (*place, count))):
            topic, partition, offset, value = line.split("\t")
            found[Place(topic, int(partition))].append(Row(int(offset), value.encode()))
        return found

    def committed_offset(self, bootstrap: str, group: str, place: Place, isolation: str = READ_COMMITTED) -> int | None:
        (found,) = self.ask("committed", isolation, group, *place)
        return int(found) if int(found) >= 0 else None

    def error(self, text: str) -> Exception:
        return Fenced(text) if FENCED.search(text) else super().error(text)


def java_client(version: str, bootstrap: str) -> SpokenClient:
    """Java's client of a Kafka version, 3.9.1 or newer."""
    require_java()
    jars = kafka_jars() if version == KAFKA_VERSION else client_jars(version)
    source = HERE / "java" / "Transactions.java"
    with building("Transactions", [source]) as folder:
        if not (folder / "Transactions.class").exists():
            if shutil.which("javac") is None:
                pytest.skip("javac is not installed")
            classes = f"{client_jars(OLDEST_JAVA)}/*"
            subprocess.run(["javac", "--release", "11", "-nowarn", "-cp", classes, "-d", str(folder), str(source)], check=True)
    memory = ["-Xmx128m", *SHORT_LIVED, *class_data(jars)]
    quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dfile.encoding=UTF-8"]
    return SpokenClient(["java", *memory, *quiet, "-cp", f"{jars}/*:{folder}", "Transactions", bootstrap])


def franz_go(bootstrap: str) -> SpokenClient:
    """The Go program of tests/clients/franz_go."""
    return SpokenClient([str(go_program("franz-go", HERE / "franz_go")), bootstrap])


def go_program(name: str, sources: Path, shared: Path | None = None) -> Path:
    """Build the Go program in a folder, which may use files of a shared one, and return its path."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    files = [*sources.iterdir(), *(shared.iterdir() if shared is not None else ())]
    with building(name, sorted(files)) as folder:
        program = folder / "program"
        if not program.exists():
            if subprocess.run(["go", "mod", "download"], cwd=sources, capture_output=True, check=False).returncode != 0:
                pytest.skip(f"the packages of {name} cannot be fetched")
            subprocess.run(["go", "build", *GO_FLAGS, "-o", str(program), "."], cwd=sources, check=True)
    return program


@contextlib.contextmanager
def building(name: str, sources: Sequence[Path]) -> Iterator[Path]:
    """The folder for what is built of these sources, one process at a time in it."""
    sources_hash = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache_folder() / f"programs-{name}-{sources_hash}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
