"""Java clients of old versions, each in a JVM of its own that is told on standard input what to do (tests/clients/java).

Up to 0.10.0 a KafkaConsumer asks for a group coordinator even with an assigned partition, so those versions read with the SimpleConsumer of
the broker's own jar. From 0.10.2 on KafkaConsumer reads what it was assigned and where it was told to.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.command_program import CommandProgram
from tests.support.java import LOGGING, cache_folder, jars, require_java

SOURCES = Path(__file__).parents[1] / "clients" / "java"
FIRST_WITH_KAFKA_CONSUMER = (0, 10, 2)

VERSIONS = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.8.2", "3.9.1")


class OldRecord(NamedTuple):
    """One record as these programs write and read it; None where it is null, absent, or unknown to the version."""

    timestamp: int | None
    key: str | None
    value: str | None
    header: str | None = None  #: value of the one header "h"


class Found(NamedTuple):
    """One record read; `headers` is "h=value"."""

    offset: int
    timestamp: int | None
    key: str | None
    value: str | None
    headers: str | None


def number(version: str) -> tuple[int, ...]:
    """A version to compare with."""
    return tuple(map(int, version.split(".")))


def client_jars(version: str) -> Path:
    """The jars of a version: the client's, and for the oldest the broker's, in which SimpleConsumer is."""
    ((name, coordinates),) = coordinates_of(version).items()
    return jars(name, *coordinates)


def coordinates_of(version: str) -> dict[str, tuple[str, ...]]:
    """The folder of `client_jars`, and what it asks Maven for."""
    if number(version) < FIRST_WITH_KAFKA_CONSUMER:
        return {f"kafka-{version}": (f"org.apache.kafka:kafka_2.11:{version}", LOGGING)}
    return {f"kafka-clients-{version}": (f"org.apache.kafka:kafka-clients:{version}", LOGGING)}


def _program(main: str, *others: str, oldest: str) -> Path:
    """The folder with a program of tests/clients/java, compiled once against the oldest version that it is for."""
    sources = [SOURCES / f"{name}.java" for name in (main, *others)]
    sources_hash = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache_folder() / f"programs-{main}-{sources_hash}"
    if not (folder / f"{main}.class").exists():
        if shutil.which("javac") is None:
            pytest.skip("javac is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            command = ["javac", "--release", "8", "-nowarn", "-Xlint:-options", "-cp", f"{client_jars(oldest)}/*", "-d", str(folder)]
            subprocess.run([*command, *map(str, sources)], check=True)
    return folder


def _java(program: Path, version: str, main: str, *arguments: str) -> list[str]:
    memory = ["-Xmx128m", "-Xss512k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dfile.encoding=UTF-8"]
    return ["java", *memory, *quiet, "-cp", f"{program}:{client_jars(version)}/*", main, *arguments]


def run_admin(version: str, bootstrap: str, topic: str) -> list[str]:
    """What an AdminClient of 0.11 or later says of a topic that it creates, changes and deletes (AdminProgram.java)."""
    require_java()
    program = _program("AdminProgram", oldest="0.11.0.3")
    command = _java(program, version, "AdminProgram", bootstrap, topic)
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def old_members(version: str, bootstrap: str) -> list[str]:
    """What starts members of groups of 0.9 to 3.9 (OldGroupMembers.java)."""
    require_java()
    return _java(_program("OldGroupMembers", oldest="0.9.0.1"), version, "OldGroupMembers", bootstrap)


class OldJavaClient(CommandProgram):
    """A client of `version` that speaks to HOST:PORT; it starts with its first command and ends with the context."""

    def __init__(self, version: str, bootstrap: str) -> None:
        require_java()
        self.version = version
        self.knows_timestamps = number(version) >= (0, 10)
        self.knows_headers = number(version) >= (0, 11)
        self.knows_zstd = number(version) >= (2, 1)
        self.reads_with_kafka_consumer = number(version) >= FIRST_WITH_KAFKA_CONSUMER
        if self.reads_with_kafka_consumer:
            main, program = "AssigningClient", _program("AssigningClient", "Conversation", oldest="0.10.2.2")
        else:
            main, program = "SimpleClient", _program("SimpleClient", "Conversation", oldest=VERSIONS[0])
        command = _java(program, version, main, *bootstrap.split(":"))
        super().__init__(command)

    def produce(self, topic: str, partition: int, codec: str, records: Iterable[OldRecord]) -> list[int]:
        """Write records with one producer; their offsets. Raises ProgramError."""
        words = [_word(field) for record in records for field in record]
        return [int(line) for line in self.ask("produce", topic, partition, codec, *words)]

    def consume(self, topic: str, partition: int, offset: int, count: int) -> list[Found]:
        """Read `count` records from `offset` on. Raises ProgramError."""
        rows = [line.split("\t") for line in self.ask("consume", topic, partition, offset, count)]
        return [
            Found(int(row[0]), None if row[1] == "-" else int(row[1]), *(None if word == "-" else word for word in row[2:])) for row in rows
        ]

    def offsets(self, topic: str, partition: int, timestamp: int) -> list[int]:
        """ListOffsets: one offset, of the oldest versions all that there are. Raises ProgramError."""
        return [int(line) for line in self.ask("offsets", topic, partition, timestamp)]


def _word(field: int | str | None) -> str:
    return "-" if field is None else str(field)
