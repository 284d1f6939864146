"""Members of groups of many makes behind one face, each in a program of its own that can be killed: Java, Go (franz-go, sarama),
JavaScript (kafkajs), Python (confluent-kafka, kafka-python, aiokafka).

A program gets commands on its standard input, one a line, words separated by tabs. Each answer ends with a line "ok" or "failed WHY".
A member polls all the time, by itself. It commits what it read before partitions go, where its client lets it.

    join MEMBER GROUP TOPIC name=value ...   TOPIC, or a regular expression that begins with ^; protocol, assignor, instance, session_ms
    seen MEMBER                              owns TOPIC PARTITION for each one now, and since the last time in this order:
                                             read TOPIC PARTITION OFFSET VALUE, trouble WHY
    commit MEMBER                            all that it read, done when the broker said so
    leave MEMBER

And as an administrator, where the client has one:

    sees GROUP                               STATE MEMBERS, then TOPIC PARTITION OFFSET for each committed one; nothing if there is no group
    set GROUP TOPIC PARTITION OFFSET         of a group that nobody is in
    delete GROUP
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from tests.clients.spoken_clients import building, go_program
from tests.clients.transactional import Place
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess
from tests.support.command_program import CommandProgram
from tests.support.java import SHORT_LIVED, class_data, kafka_jars, require_java
from tests.support.old_java import VERSIONS, old_members
from tests.support.old_python import old_kafka_python

OLD_MAKES = [*(f"java-{version}" for version in VERSIONS[1:]), "kafka-python-1.4.7", "kafka-python-2.0.2"]  #: they know "range"

HERE = Path(__file__).parent
SESSION_MS = 30_000  #: of members that live: in a busy machine they may be silent for seconds
SHORT_MS = 10_000  #: where some die
TIMEOUT_S = 120.0
CLASSIC, CONSUMER = "classic", "consumer"  #: Kafka's group.protocol

#: A broker whose groups come to rest soon.
SOON = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}
SHORT = SOON | {"group.consumer.session.timeout.ms": str(SHORT_MS)}  #: the same, which finds out soon that a member is gone


class Kind(NamedTuple):
    """How a member takes part."""

    make: str
    protocol: str
    assignor: str  #: "" leaves it to the broker

    def __str__(self) -> str:
        return "-".join(filter(None, (self.make, self.protocol, self.assignor)))


def kinds(protocol: str, **assignors: str) -> list[Kind]:
    return [Kind(make.replace("_", "-"), protocol, each) for make, words in assignors.items() for each in words.split()]


CLASSIC_KINDS = kinds(
    CLASSIC,
    java="range cooperative-sticky",
    confluent_kafka="range cooperative-sticky",
    kafka_python="range cooperative-sticky",
    aiokafka="roundrobin",
    franz_go="range cooperative-sticky",
    sarama="range sticky",
    kafkajs="roundrobin",
)
CONSUMER_KINDS = [
    *(Kind(make, CONSUMER, assignor) for make in ("java", "confluent-kafka") for assignor in ("", "range")),
    Kind("franz-go", CONSUMER, "range"),
    Kind("franz-go", CONSUMER, "uniform"),
]


def each_of(found: Iterable[Kind]) -> pytest.MarkDecorator:
    """Run a test with each of these as `kind`."""
    marks = {"java": pytest.mark.java}
    return pytest.mark.parametrize("kind", [pytest.param(each, id=str(each), marks=marks.get(each.make, ())) for each in found])


def of(make: str, found: Iterable[Kind] = CLASSIC_KINDS) -> Kind:
    """The first kind of a make."""
    return next(each for each in found if each.make == make)


class Member:
    """One of a group. `owned` and `read` are as of the last `look`; `read` is all that it read since it joined, in order."""

    def __init__(self, program: CommandProgram, name: str) -> None:
        self._program, self.name = program, name
        self.owned: set[Place] = set()
        self.read: list[tuple[Place, int, str]] = []
        self.troubles: list[str] = []

    def ask(self, command: str) -> list[str]:
        return self._program.ask(command, self.name)

    def look(self) -> Self:
        self.owned = set()
        for line in self.ask("seen"):
            what, *words = line.split("\t")
            if what == "owns":
                self.owned.add(Place(words[0], int(words[1])))
            elif what == "read":
                self.read.append((Place(words[0], int(words[1])), int(words[2]), words[3]))
            else:
                self.troubles.append("\t".join(words))
        return self

    def commit(self) -> None:
        self.ask("commit")

    def leave(self) -> None:
        self.ask("leave")

    def __str__(self) -> str:
        return f"{self.name} owns {sorted(self.owned)}, read {len(self.read)}, troubles {self.troubles}"


_numbers = itertools.count()


class Programs:
    """Programs that speak to one broker, a program a make; they are started when they are first asked for, and end with the context."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._stack = ExitStack()
        self._started: dict[str, CommandProgram] = {}

    def __getitem__(self, make: str) -> CommandProgram:
        if make not in self._started:
            self._started[make] = self._stack.enter_context(CommandProgram(command(make, self.bootstrap)))
        return self._started[make]

    def join(self, kind: Kind, group: str, topic: str, *, instance: str = "", session_ms: int = SESSION_MS) -> Member:
        """A new member on its way into the group."""
        name = f"{kind.make}-{next(_numbers)}"
        settings = {"protocol": kind.protocol, "assignor": kind.assignor, "instance": instance, "session_ms": session_ms}
        self[kind.make].ask("join", name, group, topic, *(f"{key}={value}" for key, value in settings.items()))
        return Member(self[kind.make], name)

    def kill(self) -> None:
        """SIGKILL all, with their members; others are started in their place when they are asked for."""
        for each in self._started.values():
            each.kill()
        self._started.clear()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def command(make: str, bootstrap: str) -> list[str]:
    """What starts the program of a make; built or fetched at its first use."""
    programs: dict[str, Callable[[], list[str]]] = {"java": java, "franz-go": franz_go, "sarama": sarama, "kafkajs": kafkajs}
    if make in programs:
        return [*programs[make](), bootstrap]
    if make.startswith("java-"):
        return old_members(make.removeprefix("java-"), bootstrap)
    program = [sys.executable, str(HERE / "members" / "python_members.py")]
    if make.startswith("kafka-python-"):
        return ["env", f"PYTHONPATH={old_kafka_python(make.removeprefix('kafka-python-'))}", *program, "kafka-python", bootstrap]
    return [*program, make, bootstrap]


@cache
def is_here(make: str) -> bool:
    """Whether its program can be made, for tests with many makes at once: one that is missing does not skip the others."""
    try:
        command(make, "")
    except pytest.skip.Exception:
        return False
    return True


def java() -> list[str]:
    require_java()
    jars, source = kafka_jars(), HERE / "java" / "GroupMembers.java"
    with building("GroupMembers", [source]) as folder:
        if not (folder / "GroupMembers.class").exists():
            if shutil.which("javac") is None:
                pytest.skip("javac is not installed")
            subprocess.run(["javac", "--release", "17", "-nowarn", "-cp", f"{jars}/*", "-d", str(folder), str(source)], check=True)
    memory = ["-Xmx256m", *SHORT_LIVED, *class_data(jars)]
    quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dfile.encoding=UTF-8"]
    return ["java", *memory, *quiet, "-cp", f"{jars}/*:{folder}", "GroupMembers"]


def franz_go() -> list[str]:
    return [str(go_program("members-franz_go", HERE / "members" / "franz_go", HERE / "members" / "logins"))]


def sarama() -> list[str]:
    return [str(go_program("members-sarama", HERE / "members" / "sarama", HERE / "members" / "logins"))]


def kafkajs() -> list[str]:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed")
    sources = sorted(each for each in (HERE / "members" / "kafkajs").iterdir() if each.is_file())
    with building("members-kafkajs", sources) as folder:
        if not (folder / "node_modules").exists():
            for each in sources:
                shutil.copy(each, folder)
            npm = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
            if subprocess.run(npm, cwd=folder, capture_output=True, check=False).returncode != 0:
                pytest.skip("kafkajs cannot be fetched")
    return ["node", str(folder / "members.js")]


def until(condition: Callable[[], bool], *members: Member, timeout_s: float = TIMEOUT_S) -> None:
    """Look at the members until it is so."""
    deadline = time.monotonic() + timeout_s
    while True:
        for each in members:
            each.look()
        if condition():
            return
        assert time.monotonic() < deadline, "\n".join(map(str, members))
        time.sleep(0.02)


def shared(members: Iterable[Member], topic: str, partitions: int) -> bool:
    """Whether each partition has one owner, and no member has two more than another."""
    owned = [each.owned for each in members]
    counts = [len(each) for each in owned]
    everything = Counter(place for each in owned for place in each)
    return everything == Counter(Place(topic, number) for number in range(partitions)) and max(counts) - min(counts) <= 1


def values(*members: Member) -> Counter[str]:
    """How often each value was read."""
    return Counter(value for each in members for _, _, value in each.read)


class Writer:
    """Values that are never the same, to each partition of a topic."""

    def __init__(self, bootstrap: str) -> None:
        from tests.support.confluent import Producer

        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._written = 0

    def write(self, topic: str, partitions: int = 4, each: int = 3) -> Counter[str]:
        """So many to each partition; what they are."""
        new = [(partition, f"{partition}:{self._written + number}") for partition in range(partitions) for number in range(each)]
        self._written += each
        for partition, value in new:
            self._producer.produce(topic, value.encode(), partition=partition)
        assert self._producer.flush(60) == 0
        return Counter(value for _, value in new)


def settings(found: Mapping[str, str]) -> list[str]:
    """As arguments of `minibroker serve`."""
    return [word for name, value in found.items() for word in ("--set", f"{name}={value}")]


@contextmanager
def broker_of_soon(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """HOST:PORT of a broker with the settings SOON; a Kafka that is given must have them, too."""
    given = request.config.getoption("--bootstrap-server")
    if given:
        yield given
        return
    with BrokerProcess(folder, *NO_RETENTION, *settings(SOON)) as broker:
        yield broker.bootstrap
        assert broker.stop() == 0, broker.output


def unique(name: str) -> str:
    return f"{name}-{os.getpid()}-{next(_numbers)}"
