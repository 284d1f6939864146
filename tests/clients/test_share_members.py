"""KafkaShareConsumers on a broker that dies: who gets what, again, and never again. The same on an Apache Kafka with --bootstrap-server."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from minibroker.client.client import Client
from minibroker.client.configs import Change, alter_configs
from minibroker.client.groups import DescribedGroup, describe_groups
from tests.clients.share_members import EXPLICIT, Shared, ShareMembers
from tests.conftest import NO_RETENTION
from tests.support.broker_process import BrokerProcess
from tests.support.confluent import Producer

SET = 0  #: AlterConfigOp
#: A broker with these alone is started here; a Kafka that is given must have them, too.
SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": "3",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.assignment.interval.ms": "0",
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess | None]:
    if request.config.getoption("--bootstrap-server"):
        yield None
        return
    arguments = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    with BrokerProcess(tmp_path_factory.mktemp("broker"), *NO_RETENTION, *arguments) as started:
        yield started
        assert started.stop() == 0, started.output


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest, broker: BrokerProcess | None) -> str:
    given: str | None = request.config.getoption("--bootstrap-server")
    return given or (broker.bootstrap if broker is not None else "")


@pytest.fixture(scope="module")
def members(bootstrap: str) -> Iterator[ShareMembers]:
    with ShareMembers(bootstrap) as members:
        yield members


@pytest.fixture
def group(bootstrap: str) -> str:
    """A share group that reads from the beginning."""
    name = f"sharers-{next(_numbers)}"
    configure(bootstrap, name, **{"share.auto.offset.reset": "earliest"})
    return name


def configure(bootstrap: str, group: str, **configs: str) -> None:
    with Client(bootstrap) as client:  # librdkafka knows no configs of groups
        alter_configs(client, "groups", group, [Change(name, SET, value) for name, value in configs.items()])


def produce(bootstrap: str, topic: str, *values: str) -> None:
    """Each is a batch of its own."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value)
        assert producer.flush(60) == 0


def produce_together(bootstrap: str, topic: str, *values: str) -> None:
    """One batch."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5_000})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def is_shared(bootstrap: str, group: str) -> bool:
    """Whether two members have a partition each, and know it."""
    with Client(bootstrap) as client:
        found = describe_groups(client, [group])[group]
    if not isinstance(found, DescribedGroup):
        return False
    epochs = {found.assignment_epoch, *(each.member_epoch for each in found.members)}
    return [len(each.assignment) for each in found.members] == [1, 1] and epochs == {found.group_epoch}


def values(records: list[Shared]) -> list[str]:
    return [each.value for each in records]


def test_each_record_is_one_members(members: ShareMembers, bootstrap: str, group: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    members.join("one", group, topic, **{"max.poll.records": "5"})
    members.join("two", group, topic, **{"max.poll.records": "5"})
    while not is_shared(bootstrap, group):  # what a member holds of a partition that it gives up is somebody else's again
        assert members.poll("one", 1, 100) == members.poll("two", 1, 100) == []
    for _ in range(5):  # the broker told them; for some heartbeats more they may not have heard
        assert members.poll("one", 1, 200) == members.poll("two", 1, 200) == []
    sent = [f"v{number}" for number in range(24)]
    produce(bootstrap, topic, *sent)
    found: dict[str, list[str]] = {"one": [], "two": []}
    for _ in range(100):
        for member in found:
            found[member] += values(members.poll(member, 1, 200))
        if sum(map(len, found.values())) >= len(sent):
            break
    for member in found:
        assert members.commit(member) == []
        members.leave(member)
    assert sorted(found["one"] + found["two"]) == sorted(sent)
    members.join("three", group, topic)
    assert members.poll("three", 1, 1_000) == []
    members.leave("three")


def test_member_accepts_releases_rejects_and_renews(
    members: ShareMembers, bootstrap: str, group: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    members.join("one", group, topic, **EXPLICIT)
    assert members.poll("one", 1, 300) == []
    produce_together(bootstrap, topic, "accepted", "released", "rejected", "renewed")
    found = members.poll("one", 4)
    assert [(each.value, each.delivery_count) for each in found] == [("accepted", 1), ("released", 1), ("rejected", 1), ("renewed", 1)]
    for each, kind in zip(found, ("ACCEPT", "RELEASE", "REJECT", "RENEW"), strict=True):
        members.say("one", each, kind)
    assert members.commit("one") == []
    again: list[tuple[str, int]] = []
    while len(again) < 3:
        for each in members.poll("one", 1):
            again.append((each.value, each.delivery_count))
            members.say("one", each, "RELEASE" if each.value == "released" else "ACCEPT")
        assert members.commit("one") == []
    assert sorted(again) == [("released", 2), ("released", 3), ("renewed", 1)]
    assert members.poll("one", 1, 1_000) == []  # it was delivered as often as it may be
    members.leave("one")


def test_a_lock_is_over_in_time(members: ShareMembers, bootstrap: str, group: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    configure(bootstrap, group, **{"share.record.lock.duration.ms": "1000"})
    members.join("slow", group, topic, **EXPLICIT)
    assert members.poll("slow", 1, 300) == []
    produce(bootstrap, topic, "late")
    (record,) = members.poll("slow", 1)
    members.join("other", group, topic, **EXPLICIT)
    (again,) = members.poll("other", 1)
    assert (again.value, again.delivery_count >= 2) == ("late", True)  # what a member does not poll it fetches nevertheless
    members.say("slow", record, "ACCEPT")
    assert members.commit("slow") != []
    members.leave("slow")
    members.leave("other")


def test_records_of_a_dead_member_are_released_immediately(
    members: ShareMembers, bootstrap: str, group: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    configure(bootstrap, group, **{"share.record.lock.duration.ms": "60000"})
    with ShareMembers(bootstrap) as mortal:
        mortal.join("one", group, topic, **EXPLICIT)
        mortal.poll("one", 1, 300)
        produce_together(bootstrap, topic, "inherited", "second")
        had = mortal.poll("one", 2)
        mortal.say("one", had[1], "ACCEPT")
        mortal.commit("one")
        members.join("other", group, topic)
        assert members.poll("other", 1, 300) == []
        mortal.kill()
    assert [(each.value, each.delivery_count) for each in members.poll("other", 1)] == [("inherited", 2)]
    members.leave("other")


def test_share_group_may_read_committed_only(members: ShareMembers, bootstrap: str, group: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    configure(bootstrap, group, **{"share.isolation.level": "read_committed"})
    members.join("one", group, topic)
    assert members.poll("one", 1, 300) == []
    writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{group}-writer", "linger.ms": 0})
    writer.init_transactions(60)
    for name, end in (("aborted", writer.abort_transaction), ("committed", writer.commit_transaction), ("void", writer.abort_transaction)):
        writer.begin_transaction()
        writer.produce(topic, name)
        writer.flush(60)
        assert members.poll("one", 1, 200) == []
        end(60)
        if name == "committed":
            assert values(members.poll("one", 1)) == ["committed"]
    produce(bootstrap, topic, "plain")
    assert values(members.poll("one", 1)) == ["plain"]
    members.leave("one")


def test_no_record_is_lost_and_acknowledged_ones_are_not_redelivered(
    members: ShareMembers, broker: BrokerProcess | None, bootstrap: str, group: str, new_topic: Callable[..., str]
) -> None:
    if broker is None:
        pytest.skip("the broker is not ours to kill")
    topic = new_topic()
    members.join("one", group, topic, **EXPLICIT, **{"max.poll.records": "3"})
    assert members.poll("one", 1, 300) == []
    sent = [f"v{number}" for number in range(30)]
    produce(bootstrap, topic, *sent)
    done: list[str] = []
    for turn in range(60):
        found = members.poll("one", 1, 5_000)
        for index, each in enumerate(found):
            members.say("one", each, "RELEASE" if index == 2 else "ACCEPT")
        accepted = values(found[:2] + found[3:])
        if turn in {2, 5}:
            broker.kill()
            broker.restart()
        if not members.commit("one"):
            assert not set(accepted) & set(done)
            done += accepted
        if len(done) == len(sent):
            break
    assert set(sent) - set(done) <= set()
    assert members.poll("one", 1, 1_000) == []
    members.leave("one")
