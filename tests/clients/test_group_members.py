"""What members of a group see of each other, with every make of client: joining, leaving, dying, coming back, and a broker that dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.group_members import (
    CLASSIC,
    CLASSIC_KINDS,
    CONSUMER_KINDS,
    Kind,
    Member,
    Programs,
    Writer,
    broker_of_soon,
    each_of,
    is_here,
    of,
    shared,
    unique,
    until,
    values,
)
from tests.clients.transactional import Place

PARTITIONS = 4
COMMIT_IN_TIME = {"java", "confluent-kafka", "franz-go", "sarama"}


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker_of_soon(request, tmp_path_factory.mktemp("broker")) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def programs(bootstrap: str) -> Iterator[Programs]:
    with Programs(bootstrap) as programs:
        yield programs


@pytest.fixture
def writer(bootstrap: str) -> Writer:
    return Writer(bootstrap)


def each_read(kind: Kind, written: Counter[str], *members: Member) -> bool:
    """Once; or more often by clients that do not commit before partitions go, should there be a rebalance more than was waited for."""
    found = values(*members)
    return found == written if kind.make in COMMIT_IN_TIME else not written - found


@each_of([*CLASSIC_KINDS, *CONSUMER_KINDS])
def test_members_share_the_partitions(kind: Kind, programs: Programs, writer: Writer, new_topic: Callable[..., str]) -> None:
    """One reads all; a second takes half; the first leaves, and the second has all; a third goes on where they ended: each value once."""
    topic = new_topic(PARTITIONS)
    written = writer.write(topic)
    one = programs.join(kind, topic, topic)
    until(lambda: shared([one], topic, PARTITIONS) and each_read(kind, written, one), one)
    one.commit()
    two = programs.join(kind, topic, topic)
    until(lambda: shared([one, two], topic, PARTITIONS), one, two)
    written += writer.write(topic)
    until(lambda: each_read(kind, written, one, two), one, two)
    one.commit()
    two.commit()
    one.leave()
    until(lambda: shared([two], topic, PARTITIONS), two)
    written += writer.write(topic)
    until(lambda: each_read(kind, written, one, two), two)
    two.commit()
    two.leave()
    rest = writer.write(topic)
    three = programs.join(kind, topic, topic)
    until(lambda: not rest - values(three), three)
    three.leave()
    assert values(three) == rest
    assert [one.troubles, two.troubles, three.troubles] == [[], [], []]


STATIC = [of(make) for make in ("java", "confluent-kafka", "kafka-python", "aiokafka", "franz-go", "sarama")]
STATIC += [of(make, CONSUMER_KINDS) for make in ("java", "confluent-kafka")]  # franz-go does not tell that it goes for a while


@each_of(STATIC)
def test_static_member_rejoins_with_its_assignment(
    kind: Kind, programs: Programs, writer: Writer, new_topic: Callable[..., str], admin: Any
) -> None:
    topic = new_topic(PARTITIONS)
    one = programs.join(kind, topic, topic, instance="one")
    two = programs.join(kind, topic, topic, instance="two")
    until(lambda: shared([one, two], topic, PARTITIONS), one, two)
    written = writer.write(topic)
    until(lambda: each_read(kind, written, one, two), one, two)
    had, instances = set(two.owned), member_ids(admin, topic)
    two.commit()
    two.leave()
    again = programs.join(kind, topic, topic, instance="two")
    until(lambda: again.owned == had and shared([one, again], topic, PARTITIONS), one, again)
    written += writer.write(topic)
    until(lambda: each_read(kind, written, one, two, again), one, again)
    now = member_ids(admin, topic)
    assert now["one"] == instances["one"], "it never went"
    assert now["two"] != instances["two"], "it came back as another member"
    one.leave()
    again.leave()
    assert [one.troubles, two.troubles, again.troubles] == [[], [], []]


def member_ids(admin: Any, group: str) -> dict[str, str]:
    """The id of each instance."""
    return {each.group_instance_id: each.member_id for each in admin.describe_consumer_groups([group])[group].result(60).members}


@each_of([each for each in STATIC if each.make not in {"kafka-python", "aiokafka"}])  # they do not say that they were fenced
def test_an_instance_that_joins_twice(kind: Kind, programs: Programs, new_topic: Callable[..., str]) -> None:
    """Classic: the older one is fenced. KIP-848: the newer one is refused."""
    topic = new_topic(PARTITIONS)
    one = programs.join(kind, topic, topic, instance="same")
    until(lambda: shared([one], topic, PARTITIONS), one)
    two = programs.join(kind, topic, topic, instance="same")
    kept, refused = (two, one) if kind.protocol == CLASSIC else (one, two)
    until(lambda: bool(refused.troubles), one, two)
    until(lambda: shared([kept], topic, PARTITIONS), kept)
    assert kept.troubles == []
    kept.leave()


PATTERNS = [of(make) for make in ("java", "confluent-kafka", "kafka-python", "aiokafka", "franz-go")]
PATTERNS += [of(make, CONSUMER_KINDS) for make in ("java", "confluent-kafka", "franz-go")]


@each_of(PATTERNS)
def test_a_pattern_finds_topics_that_come_later(kind: Kind, programs: Programs, writer: Writer, admin: Any) -> None:
    from confluent_kafka.admin import NewTopic

    prefix = unique(f"found-{kind}")
    names = [f"{prefix}.{number}" for number in range(2)]
    admin.create_topics([NewTopic(names[0], PARTITIONS, 1)])[names[0]].result(60)
    written = writer.write(names[0])
    member = programs.join(kind, prefix, f"^{prefix}[.].*")
    until(lambda: each_read(kind, written, member), member)
    member.commit()
    admin.create_topics([NewTopic(names[1], PARTITIONS, 1)])[names[1]].result(60)
    written += writer.write(names[1])
    until(lambda: each_read(kind, written, member), member)
    assert member.owned == {Place(name, number) for name in names for number in range(PARTITIONS)}
    member.leave()
    assert member.troubles == []


def test_makes_in_one_group(programs: Programs, writer: Writer, new_topic: Callable[..., str]) -> None:
    """They know each other's `range`. The oldest member leads: each make does once, while others come and go."""
    topic = new_topic(12)
    ranges = [each for each in CLASSIC_KINDS if each.assignor == "range"] + [of("aiokafka")._replace(assignor="range")]
    ranges = [each for each in ranges if is_here(each.make)]
    members = [programs.join(kind, topic, topic) for kind in ranges]
    written = Counter[str]()

    def they_share_and_read(rest: list[Member]) -> None:
        until(lambda: shared(rest, topic, 12), *rest)
        written.update(writer.write(topic, 12, each=1))
        until(lambda: not written - values(*members), *rest)  # some of them cannot commit in time

    for gone in range(len(members)):
        rest = members[gone:]
        they_share_and_read(rest)
        for each in rest:
            each.commit()
        rest[0].leave()
    assert [each.troubles for each in members] == [[]] * len(ranges)
