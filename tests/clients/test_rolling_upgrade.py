"""A group goes from the classic protocol to that of KIP-848 and back, member by member, while values come in: each is read once.

Classic and new members are in the group at the same time; the broker turns it into a group of the other kind with the first and with the
last new one. (Not so with librdkafka's cooperative-sticky, which puts something of its own into assignments: such a group is not upgraded,
by Apache Kafka neither.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.clients.group_members import CLASSIC, CONSUMER, Kind, Member, Programs, Writer, broker_of_soon, shared, until, values

PARTITIONS = 4

JAVA_NEW = Kind("java", CONSUMER, "")
LIBRDKAFKA_NEW = Kind("confluent-kafka", CONSUMER, "")
FRANZ_GO_NEW = Kind("franz-go", CONSUMER, "uniform")
WAYS = [
    (Kind("java", CLASSIC, "cooperative-sticky"), JAVA_NEW),
    (Kind("java", CLASSIC, "range"), LIBRDKAFKA_NEW),
    (Kind("confluent-kafka", CLASSIC, "range"), LIBRDKAFKA_NEW),
    (Kind("franz-go", CLASSIC, "cooperative-sticky"), FRANZ_GO_NEW),
]


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker_of_soon(request, tmp_path_factory.mktemp("broker")) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def programs(bootstrap: str) -> Iterator[Programs]:
    with Programs(bootstrap) as programs:
        yield programs


def java_of(way: tuple[Kind, Kind]) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.java,) if any(kind.make == "java" for kind in way) else ()


class Roll:
    """One group whose members are replaced."""

    def __init__(self, programs: Programs, bootstrap: str, topic: str) -> None:
        from tests.support.confluent import AdminClient

        self.topic = topic
        self._programs = programs
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._writer = Writer(bootstrap)
        self._written: Counter[str] = Counter()
        self._all: list[Member] = []
        self._here: list[Member] = []

    def enter(self, kind: Kind, instance: str = "") -> None:
        member = self._programs.join(kind, self.topic, self.topic, instance=instance)
        self._all.append(member)
        self._here.append(member)
        self._settle()

    def replace(self, kind: Kind, instance: str = "") -> None:
        """The one that is there longest leaves, and another one comes."""
        oldest = self._here.pop(0)
        oldest.commit()
        oldest.leave()
        self.enter(kind, instance)

    def _settle(self) -> None:
        """What is written is shared and read, once."""
        until(lambda: shared(self._here, self.topic, PARTITIONS), *self._here)
        self._written += self._writer.write(self.topic)
        until(lambda: values(*self._all) == self._written, *self._here)
        for each in self._here:
            each.commit()

    @property
    def kind(self) -> str:
        """As the broker lists it."""
        found = self._admin.list_consumer_groups().result(60)
        known = {each.group_id: str(each.type.name).lower() for each in found.valid}
        assert self.topic in known, (known, found.errors)
        return known[self.topic]

    def end(self) -> None:
        for each in self._here:
            each.leave()


@pytest.mark.parametrize(("old", "new"), [pytest.param(*way, id=f"{way[0]} {way[1]}", marks=java_of(way)) for way in WAYS])
def test_member_by_member(old: Kind, new: Kind, programs: Programs, bootstrap: str, new_topic: Callable[..., str]) -> None:
    roll = Roll(programs, bootstrap, new_topic(PARTITIONS))
    roll.enter(old)
    roll.enter(old)
    assert roll.kind == "classic"
    roll.replace(new)
    assert roll.kind == "consumer"
    roll.replace(new)
    roll.replace(old)
    assert roll.kind == "consumer"
    roll.replace(old)
    assert roll.kind == "classic"
    roll.end()


@pytest.mark.parametrize("make", [pytest.param("java", marks=pytest.mark.java), "confluent-kafka"])
def test_static_members(make: str, programs: Programs, bootstrap: str, new_topic: Callable[..., str]) -> None:
    """Each member that comes takes the place of the one that left."""
    old, new = Kind(make, CLASSIC, "range"), Kind(make, CONSUMER, "")
    roll = Roll(programs, bootstrap, new_topic(PARTITIONS))
    roll.enter(old, "one")
    roll.enter(old, "two")
    roll.replace(new, "one")
    assert roll.kind == "consumer"
    roll.replace(new, "two")
    roll.replace(old, "one")
    assert roll.kind == "consumer"
    roll.replace(old, "two")
    assert roll.kind == "classic"
    roll.end()
