"""Java's consumers that meet faults: a member of a consumer group (KIP-848), and one of a share group (KIP-932), in one program.

join MEMBER KIND TOPIC,TOPIC name=value ...     KIND: consumer, share; properties of the client
seen MEMBER                                     since the last time, in this order: read TOPIC PARTITION OFFSET VALUE,
                                                kept TOPIC PARTITION OFFSET, trouble WHY

OFFSET of what is kept is the next one, and for a share group the record's own.
leave MEMBER
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.clients.spoken_clients import building
from tests.clients.transactional import Place
from tests.support.command_program import CommandProgram
from tests.support.fault_schedule import reader, sharer
from tests.support.faulted_readers import REQUEST_TIMEOUT_MS, Readings, Seen, group_of_readers, group_of_sharers
from tests.support.java import SHORT_LIVED, class_data, kafka_jars, require_java

PROGRAM: Final = Path(__file__).parents[1] / "clients" / "java" / "FaultedReaders.java"
IMPATIENT: Final = {
    "request.timeout.ms": REQUEST_TIMEOUT_MS,
    "default.api.timeout.ms": 5000,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "fetch.max.wait.ms": 100,
}
CONSUMER: Final = {
    "client.id": reader("java"),
    "group.id": group_of_readers("java"),
    "group.protocol": "consumer",
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
}
#: More patient: each delivery that it does not wait for counts, and after some a record is given to nobody any more.
SHARER: Final = {
    "request.timeout.ms": 3000,
    "client.id": sharer("java"),
    "group.id": group_of_sharers("java"),
    "share.acknowledgement.mode": "explicit",
}


class JavaReaders(CommandProgram):
    """One JVM with any number of members."""

    def __init__(self) -> None:
        require_java()
        jars = kafka_jars()
        with building("FaultedReaders", [PROGRAM]) as folder:
            if not (folder / "FaultedReaders.class").exists():
                if shutil.which("javac") is None:
                    pytest.skip("javac is not installed")
                subprocess.run(["javac", "--release", "17", "-nowarn", "-cp", f"{jars}/*", "-d", str(folder), str(PROGRAM)], check=True)
        quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dfile.encoding=UTF-8"]
        super().__init__(["java", "-Xmx128m", *SHORT_LIVED, *class_data(jars), *quiet, "-cp", f"{jars}/*:{folder}", "FaultedReaders"])


class JavaReader(Readings):
    """A member; it looks at what came when it is asked. As tests/support/faulted_readers.py has them."""

    _numbers = itertools.count()
    stack = "(in Java)"

    def __init__(self, program: JavaReaders, kind: str, bootstrap: str, topics: Sequence[str]) -> None:
        super().__init__()
        self.failures: list[str] = []
        self._program, self._kind, self._bootstrap, self._topics = program, kind, bootstrap, topics
        self._is_there = False
        self._join()

    def _join(self) -> None:
        self._name = f"{self._kind}-{next(self._numbers)}"
        own = CONSUMER if self._kind == "consumer" else SHARER
        words = [f"{name}={value}" for name, value in {"bootstrap.servers": self._bootstrap, **IMPATIENT, **own}.items()]
        self._program.ask("join", self._name, self._kind, ",".join(self._topics), *words)
        self._is_there = True

    def has(self, wanted: Collection[Seen]) -> bool:
        """Whether it has read all of them."""
        self.look()
        return self.seen.issuperset(wanted)

    def look(self) -> None:
        """Take in what came."""
        for line in self._program.ask("seen", self._name):
            match line.split("\t"):
                case ["read", topic, partition, offset, value]:
                    self.note([(Place(topic, int(partition)), int(offset), value)])
                case ["kept", topic, partition, offset]:
                    self.keep(Place(topic, int(partition)), int(offset))
                case ["trouble", why]:
                    self.failures.append(f"{self._name}: {why}")

    def begin_anew(self) -> None:
        """With another client, as an application that is started again."""
        self.failures.append(f"{self._name} stands still")
        self.stop()
        self._join()

    def stop(self) -> None:
        """And wait for it."""
        if self._is_there:
            self._is_there = False
            self._program.ask("leave", self._name)
            self.look()


class JavaSharer(JavaReader):
    """Of a share group: each record is kept by itself."""

    def __init__(self, program: JavaReaders, bootstrap: str, topics: Sequence[str]) -> None:
        self._accepted: set[tuple[Place, int]] = set()
        super().__init__(program, "share", bootstrap, topics)

    def note(self, rows: Iterable[Seen]) -> None:
        """They were given."""
        for row in rows:
            if row[:2] in self._accepted:
                self.again.append(row)
            self.seen.add(row)

    def keep(self, place: Place, next_offset: int) -> None:
        """The broker said that this very record is accepted."""
        self._accepted.add((place, next_offset))
