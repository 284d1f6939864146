"""Members that die, and a broker that dies, seen by every make of client at once: their groups live side by side on one broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.clients.group_members import (
    CLASSIC_KINDS,
    CONSUMER_KINDS,
    SHORT,
    SHORT_MS,
    Kind,
    Member,
    Programs,
    Writer,
    is_here,
    settings,
    shared,
    until,
    values,
)
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess
from tests.support.soak import times

PARTITIONS = 4
KINDS = [*CLASSIC_KINDS, *CONSUMER_KINDS]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), *NO_RETENTION, *settings(SHORT)) as broker:
        yield broker
        assert broker.stop() == 0, broker.output


@pytest.fixture(scope="module")
def bootstrap(broker: BrokerProcess) -> str:
    return broker.bootstrap


@pytest.fixture(scope="module")
def programs(bootstrap: str) -> Iterator[Programs]:
    with Programs(bootstrap) as programs:
        yield programs


class Group:
    """One for each kind, with a topic of its own of the same name."""

    def __init__(self, kind: Kind, topic: str) -> None:
        self.kind, self.topic = kind, topic
        self.members: list[Member] = []
        self.written: Counter[str] = Counter()

    def join(self, programs: Programs, *, session_ms: int = SHORT_MS) -> None:
        self.members.append(programs.join(self.kind, self.topic, self.topic, session_ms=session_ms))

    def write(self, writer: Writer) -> None:
        self.written += writer.write(self.topic)


@pytest.fixture
def groups(new_topic: Callable[..., str]) -> list[Group]:
    return [Group(kind, new_topic(PARTITIONS)) for kind in KINDS if is_here(kind.make)]


@pytest.fixture
def writer(bootstrap: str) -> Writer:
    return Writer(bootstrap)


def all_members(groups: list[Group]) -> list[Member]:
    return [member for group in groups for member in group.members]


def all_shared(groups: list[Group]) -> bool:
    return all(shared(group.members, group.topic, PARTITIONS) for group in groups)


def all_read(groups: list[Group]) -> bool:
    """Each value, and maybe some twice."""
    return all(not group.written - values(*group.members) for group in groups)


def test_a_member_that_dies_is_inherited(programs: Programs, groups: list[Group], writer: Writer, bootstrap: str) -> None:
    """What it had committed is not read again, what it had not is read by who lives."""
    with Programs(bootstrap) as mortal:
        for group in groups:
            group.join(programs)
            group.join(mortal)
        until(lambda: all_shared(groups), *all_members(groups))
        for group in groups:
            group.write(writer)
        until(lambda: all_read(groups), *all_members(groups))
        for group in groups:
            for member in group.members:
                member.commit()
        committed = [Counter(group.written) for group in groups]
        for group in groups:
            group.write(writer)
        until(lambda: all_read(groups), *all_members(groups))
        mortal.kill()
    for group in groups:
        group.members.pop()
    until(lambda: all_shared(groups) and all_read_by_who_lives(groups, committed), *all_members(groups))
    for group, before in zip(groups, committed, strict=True):
        (alive,) = group.members
        assert all(values(alive)[value] <= 1 for value in before), group.kind
        assert alive.troubles == [], group.kind
        alive.leave()


def all_read_by_who_lives(groups: list[Group], committed: list[Counter[str]]) -> bool:
    return all(not (group.written - before) - values(*group.members) for group, before in zip(groups, committed, strict=True))


def test_groups_outlive_the_broker(programs: Programs, groups: list[Group], writer: Writer, broker: BrokerProcess) -> None:
    """SIGKILL: members go on under the ids that they had; what was committed is not read again by others that come later."""
    for group in groups:
        group.write(writer)
        patience_ms = SHORT_MS if group.kind.make == "kafkajs" else 60_000  # it joins anew, and what it was is in the way
        group.join(programs, session_ms=patience_ms)
        group.join(programs, session_ms=patience_ms)
    until(lambda: all_shared(groups) and all_read(groups), *all_members(groups))
    for member in all_members(groups):
        member.commit()
    ids = member_ids(broker.bootstrap, groups)
    for _ in range(times(1, soak=2)):
        broker.kill()
        broker.restart()
        for group in groups:
            group.write(writer)
        until(lambda: all_shared(groups) and all_read(groups), *all_members(groups))
        assert member_ids(broker.bootstrap, groups) == ids
        for member in all_members(groups):
            member.commit()
    for member in all_members(groups):
        member.leave()
    broker.kill()
    broker.restart()
    for group in groups:
        group.members.clear()
        group.written.clear()
        group.write(writer)
        group.join(programs)
    until(lambda: all_shared(groups) and all_read(groups), *all_members(groups))
    assert {group.kind: values(*group.members) for group in groups} == {group.kind: group.written for group in groups}
    for member in all_members(groups):
        member.leave()


def member_ids(bootstrap: str, groups: list[Group]) -> dict[str, set[str]]:
    """Those of each group, but kafkajs', which joins anew of its own accord.

    Each time by a new client: librdkafka's takes half a minute to find a broker again.
    """
    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_consumer_groups([group.topic for group in groups if group.kind.make != "kafkajs"])
    return {name: {each.member_id for each in future.result(60).members} for name, future in found.items()}
