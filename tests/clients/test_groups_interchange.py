"""Groups with members go minibroker -> Apache Kafka -> minibroker: generations, members, assignments and offsets are there each time.

So do groups of KIP-848, with their epochs: one that began on minibroker, and one that began on Apache Kafka; groups with members of both
protocols, and those that became classic again; streams groups, whose epoch stays, since both brokers see the same topics; and share
groups, with what became of each record, and how often it was delivered.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from minibroker.client.client import Client
from minibroker.client.group_offsets import CommittedOffset, Offsets, share_offsets
from minibroker.client.groups import DescribedGroup, describe_groups
from minibroker.errors import KafkaError
from tests.clients.share_reader import ACCEPT, REJECT, RELEASE, ShareReader
from tests.golden import streams_scenes
from tests.golden.captures.migrations import Sockets
from tests.golden.migration_members import Classic, New, Scene
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_process import KafkaProcess

pytestmark = [pytest.mark.timeout(600)]

PARTITIONS = 4
TOPIC = "shared"
GROUPS = ["left", "alive"]
OURS, THEIRS = "of-minibroker", "of-kafka"  #: groups of KIP-848
SHARERS, QUEUE = "sharers", "queue"  #: a share group, and its topic
COUNTERS = "counters"  #: a streams group
KEEPING = streams_scenes.topology(
    streams_scenes.subtopology("0", ["t"], state_changelog_topics=[streams_scenes.topic("counters-log", cleanup_policy="compact")])
)
NEXT: dict[str, Any] = {"group.protocol": "consumer", "group.instance.id": "one"}
TIMEOUT_S = 60.0


def test_groups_survive_moving_to_kafka_and_back(tmp_path: Path) -> None:
    members = []
    with BrokerProcess(tmp_path) as broker:
        members.append(fill(broker.bootstrap))
        members.append(joined(broker.bootstrap, OURS, **NEXT)[0])
        mixed = Mixed()
        mixed.begin("minibroker", broker.bootstrap)
        counters = count(broker.bootstrap)
        before, ours = seen(broker.bootstrap), consumer_group(broker.bootstrap, OURS)
        assert before["alive"][:2] == ("STABLE", [("one", PARTITIONS)])
        assert before["left"] == ("EMPTY", [], dict.fromkeys(range(PARTITIONS), 1))
        assert (ours.type, ours.state, ours.group_epoch, len(ours.members[0].assignment)) == ("consumer", "Stable", 2, PARTITIONS)
        share_some(broker.bootstrap)
        shared = share_group(broker.bootstrap)
        assert shared[0].state == "Empty"
        assert start_and_lag(shared[1])[1] == 2
        assert broker.stop() == 0
        data_dir = broker.data_dir
    with KafkaProcess(tmp_path, data_dir=data_dir, static_voters=True) as kafka:
        assert seen(kafka.bootstrap) == before
        assert consumer_group(kafka.bootstrap, OURS) == ours
        counters = count_on_kafka(kafka.bootstrap, counters)
        members.append(joined(kafka.bootstrap, THEIRS, **NEXT)[0])
        theirs = consumer_group(kafka.bootstrap, THEIRS)
        assert share_group(kafka.bootstrap) == shared
        mixed.go_on(kafka.bootstrap)
        mixed.begin("Kafka", kafka.bootstrap)
        with ShareReader(kafka.bootstrap, SHARERS, QUEUE) as reader:
            assert reader.fetch() == {2: 2, 5: 2}
            reader.acknowledge({2: RELEASE, 5: ACCEPT})
        shared = share_group(kafka.bootstrap)
        assert start_and_lag(shared[1])[1] == 1
        kafka.stop()
    with BrokerProcess(tmp_path) as broker:
        assert seen(broker.bootstrap) == before
        assert consumer_group(broker.bootstrap, THEIRS) == theirs
        count_on(broker.bootstrap, counters)
        mixed.go_on(broker.bootstrap)
        again = share_group(broker.bootstrap)
        assert (again[0], start_and_lag(again[1])) == (shared[0], start_and_lag(shared[1]))
        with ShareReader(broker.bootstrap, SHARERS, QUEUE) as reader:
            assert reader.fetch() == {2: 3}
            reader.acknowledge({2: ACCEPT})
            assert start_and_lag(share_group(broker.bootstrap)[1])[1] == 0
        taken_over = consumer_group(broker.bootstrap, OURS)
        assert taken_over.state in {"Stable", "Empty"}  # its member may be too long away by now
        assert taken_over.state == "Empty" or taken_over == ours
        assert broker.stop() == 0
    for member in members:
        member.close()


class Mixed:
    """Groups that were upgraded, and some of them downgraded again: their members go on wherever the directory is opened."""

    def __init__(self) -> None:
        self._upgraded: list[tuple[Scene, Classic, New]] = []
        self._downgraded: list[tuple[Scene, Classic]] = []

    def begin(self, name: str, bootstrap: str) -> None:
        for kind in ("up", "down"):
            scene = Scene(f"{kind} on {name}", sockets_to(bootstrap))
            old, new = Classic(scene, f"old {kind} on {name}", session_ms=300_000), New(scene, f"new {kind} on {name}")
            old.enter()
            old.lead()
            new.join()
            old.join()
            old.sync()
            new.beat({})
            if kind == "up":
                self._upgraded.append((scene, old, new))
            else:
                new.leave()
                self._downgraded.append((scene, old))

    def go_on(self, bootstrap: str) -> None:
        """As on the broker before."""
        sockets = sockets_to(bootstrap)
        for scene, old, new in self._upgraded:
            scene.exchange, scene.told = sockets, []
            old.beat()
            old.sync()
            new.beat({"t": [3, 4, 5]})
            scene.look()
            assert scene.told[:5] == [
                f"{old.name} beats: ok",
                f"{old.name} syncs: ok consumer range v1 t[0, 1, 2] None",
                f"{new.name} beats owning t[3, 4, 5]: ok None epoch 2 None",
                "listed: consumer Stable consumer",
                "described: ok None Stable 2 2",
            ]
        for scene, old in self._downgraded:
            scene.exchange, scene.told = sockets, []
            old.join()
            old.lead()
            old.beat()
            assert scene.told[0].startswith(f"{old.name} joins: ok generation {old.generation_id} consumer range leader {old.name}")
            assert scene.told[2] == f"{old.name} beats: ok"


def count(bootstrap: str) -> DescribedGroup:
    """The streams group with its first member."""
    assert tasks(bootstrap, "a", 0) == (2, {"0": [0, 1, 2, 3, 4, 5]})
    group = consumer_group(bootstrap, COUNTERS)
    assert (group.type, group.state, len(group.members[0].assignment)) == ("streams", "Stable", 6)
    return group


def count_on_kafka(bootstrap: str, before: DescribedGroup) -> DescribedGroup:
    """The first member goes on, and shall give up what the second one is to have."""
    assert consumer_group(bootstrap, COUNTERS) == before
    assert tasks(bootstrap, "a", 2) == (2, None)
    assert tasks(bootstrap, "b", 0) == (3, {})
    assert tasks(bootstrap, "a", 2) == (2, {"0": [0, 1, 2]})
    return consumer_group(bootstrap, COUNTERS)


def count_on(bootstrap: str, before: DescribedGroup) -> None:
    """It has, and the second one gets it."""
    assert consumer_group(bootstrap, COUNTERS) == before
    assert tasks(bootstrap, "a", 2, {"0": [0, 1, 2]}) == (3, None)
    assert tasks(bootstrap, "b", 3) == (3, {"0": [3, 4, 5]})


def tasks(bootstrap: str, member_id: str, epoch: int, owned: dict[str, list[int]] | None = None) -> tuple[int, dict[str, list[int]] | None]:
    """Epoch and active tasks that a member of the streams group is told; with epoch 0 it joins."""
    scene = streams_scenes.Scene(COUNTERS, sockets_to(bootstrap))
    answer = scene.join(member_id, of=KEEPING) if epoch == 0 else scene.beat(member_id, epoch, owned)
    assert answer.error_code == 0, scene.told
    if answer.active_tasks is None:
        return answer.member_epoch, None
    return answer.member_epoch, {each.subtopology_id: each.partitions for each in answer.active_tasks}


def sockets_to(bootstrap: str) -> Sockets:
    sockets = Sockets(int(bootstrap.rpartition(":")[2]))
    sockets.prepare()
    return sockets


def share_some(bootstrap: str) -> None:
    """Of six records, a share group has yet to deliver two, both for the second time."""
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient, Producer

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(QUEUE, 1, 1)])[QUEUE].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(6):
        producer.produce(QUEUE, b"%d" % number)
    producer.flush(60)
    with ShareReader(bootstrap, SHARERS, QUEUE) as reader:
        given: dict[int, int] = {}
        while len(given) < 6:
            given |= reader.fetch()
        assert given == dict.fromkeys(range(6), 1)
        reader.acknowledge({0: ACCEPT, 1: ACCEPT, 2: RELEASE, 3: ACCEPT, 4: REJECT, 5: RELEASE})


def share_group(bootstrap: str) -> tuple[DescribedGroup, Offsets]:
    """All that is told of the share group; asked until the broker knows."""
    group = consumer_group(bootstrap, SHARERS)
    with Client(bootstrap) as client:
        offsets = share_offsets(client, [SHARERS])[SHARERS]
    assert not isinstance(offsets, KafkaError)
    return group, offsets


def start_and_lag(offsets: Offsets) -> tuple[int, int | None]:
    """Without the leader epoch: a broker that takes over leads in another one."""
    (found,) = offsets.values()
    assert isinstance(found, CommittedOffset)
    return found.offset, found.lag


def consumer_group(bootstrap: str, group: str) -> DescribedGroup:
    """All that is told of a group of KIP-848 or KIP-932; asked until the broker knows."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        with Client(bootstrap) as client:
            found = describe_groups(client, [group])[group]
        if isinstance(found, DescribedGroup):
            return found._replace(coordinator=-1)
        if time.monotonic() > deadline or not isinstance(found, KafkaError):
            raise found
        time.sleep(0.5)


def fill(bootstrap: str) -> Any:
    """A group that was left, with offsets; and one with a static member, which is returned and outlives the broker."""
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient, Producer

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"x", partition=partition)
    producer.flush(60)
    left, count = joined(bootstrap, "left")
    deadline = time.monotonic() + TIMEOUT_S
    while count < PARTITIONS and time.monotonic() < deadline:
        count += len(left.consume(PARTITIONS, 0.2))
    left.commit(asynchronous=False)
    left.close()
    alive, _ = joined(bootstrap, "alive", **{"group.instance.id": "one", "session.timeout.ms": 300_000})
    return alive


def joined(bootstrap: str, group: str, **settings: Any) -> tuple[Any, int]:
    """A consumer that has every partition, and how many messages it has read by then."""
    from tests.support.confluent import Consumer

    common = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(common | settings)
    consumer.subscribe([TOPIC])
    count, deadline = 0, time.monotonic() + TIMEOUT_S
    while len(consumer.assignment()) < PARTITIONS and time.monotonic() < deadline:
        count += len(consumer.consume(PARTITIONS, 0.1))
    return consumer, count


def seen(bootstrap: str) -> dict[str, tuple[str, list[tuple[str, int]], dict[int, int]]]:
    """State, instances with how many partitions each has, and committed offsets, of each group; asked until the broker knows."""
    from confluent_kafka import KafkaException

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return {group: described(admin, group) for group in GROUPS}
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def described(admin: Any, group: str) -> tuple[str, list[tuple[str, int]], dict[int, int]]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    found = admin.describe_consumer_groups([group])[group].result(60)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(60).topic_partitions
    members = [(each.group_instance_id, len(each.assignment.topic_partitions)) for each in found.members]
    return found.state.name, members, {each.partition: each.offset for each in offsets}
