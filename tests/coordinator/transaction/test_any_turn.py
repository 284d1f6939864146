"""Requests of every kind between any two turns of the loop, while topics go, logs go offline and come back, writes fail, the clock jumps
and the broker restarts: every request is answered, nothing is raised out of a timer, and in the end no transaction is open.

What the transactions then hold is told by tests/model/test_transactions_model.py; here the broker is never at rest.
"""

from __future__ import annotations

import errno
import heapq
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import pytest

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from minibroker.coordinator import stored_topic
from minibroker.coordinator.transaction import coordinator, marking, store
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.errors import KafkaStorageError
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k24_add_partitions_to_txn as k24
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k27_write_txn_markers as k27
from minibroker.schemas import k28_txn_offset_commit as k28
from minibroker.schemas import k66_list_transactions as k66
from tests.support.broker_in_memory import BrokerInMemory, Pending, records
from tests.support.faulty_files import FaultyFiles

NAMES = ("x", "y", "z")
TOPICS = {"a": 4, "b": 2}
ALL_TOPICS = (*TOPICS, TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC)
FAULTS = (("write", errno.EINVAL), ("sync", errno.EMFILE))  #: after which the log stays online, mostly
PATHS = ("/a-", "/b-", TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC)

T = TypeVar("T")


class SteppingClock(ManualClock):
    """One timer at a time."""

    def step(self) -> None:
        if self._timers and self._timers[0][0] <= self._elapsed_ms:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                callback()

    def forget(self) -> None:
        """The broker that sent these requests has stopped."""
        self._timers.clear()


class SlowBackground(InlineBackground):
    """Work ends in a later turn."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self._clock.call_later_ms(0, lambda: done(work()))


class World:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.clock = SteppingClock()
        self.files = FaultyFiles()
        self.config = {
            "log.flush.interval.messages": random.choice(["1", "1000"]),
            "log.segment.bytes": random.choice(["1048576", "2000"]),
            "transaction.state.log.num.partitions": "3",
            "offsets.topic.num.partitions": "2",
        }
        self.is_slow = random.random() < 0.5
        self.first = self.broker = BrokerInMemory(topics=TOPICS, config=self.config, files=self.files, clock=self.clock)
        self.ids = {name: [ProducerIdAndEpoch(0, 0)] for name in NAMES}  #: all that were ever given out
        self.sequences: dict[tuple[ProducerIdAndEpoch, str, int], int] = {}
        self.pending: list[tuple[str, Pending]] = []
        self.offline: dict[tuple[str, int], PartitionLog] = {}
        self._begin()

    def _begin(self) -> None:
        if self.is_slow:
            self.broker.services.flush_queue._background = SlowBackground(self.clock)
        self.find()

    # Requests

    def ask(self, name: str, request: Any, version: int | None = None) -> None:
        self.pending.append((name, self.broker.begin(request, version)))

    def hear(self) -> None:
        waiting = [each for each in self.pending if not each[1].is_done]
        for name, pending in self.pending:
            answer = pending.answer() if pending.is_done else None
            if isinstance(answer, k22.Response | k26.Response) and answer.error_code == 0 and answer.producer_id >= 0:
                self.ids[name].append(ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))
        self.pending = waiting

    def owner(self) -> tuple[str, ProducerIdAndEpoch]:
        """Mostly; else a zombie."""
        name = self.random.choice(NAMES)
        return name, self.ids[name][-1] if self.random.random() < 0.85 else self.random.choice(self.ids[name])

    def place(self) -> tuple[str, int]:
        topic = self.random.choice("aab")
        return topic, self.random.randrange(TOPICS[topic])

    def find(self) -> None:
        self.ask("", k10.Request(key_type=1, coordinator_keys=list(NAMES)))
        self.ask("", k10.Request(key_type=0, coordinator_keys=["g"]))

    def init(self) -> None:
        name = self.random.choice(NAMES)
        self.ask(name, k22.Request(transactional_id=name, transaction_timeout_ms=self.random.choice([5_000, 60_000])))

    def produce(self) -> None:
        (name, ids), (topic, index) = self.owner(), self.place()
        version = self.random.choice([11, 12, 12])
        if version == 11:
            request = k24.Request(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=ids.producer_id,
                v3_and_below_producer_epoch=ids.producer_epoch,
                v3_and_below_topics=[k24.Topic(name=topic, partitions=[index])],
            )
            self.ask(name, request, 3)
        sequence = self.sequences.get((ids, topic, index), 0)
        self.sequences[ids, topic, index] = sequence + 2
        batch = records(2, base_sequence=sequence, is_transactional=True, **ids._asdict())
        data = [k00.Topic(name=topic, partition_data=[k00.Partition(index=index, records=batch)])]
        self.ask(name, k00.Request(transactional_id=name, acks=-1, timeout_ms=100, topic_data=data), version)

    def end(self) -> None:
        name, ids = self.owner()
        request = k26.Request(transactional_id=name, committed=self.random.random() < 0.6, **ids._asdict())
        self.ask(name, request, self.random.choice([4, 5, 5]))

    def commit_offset(self) -> None:
        name, ids = self.owner()
        offset = k28.Partition(partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata="")
        self.ask(name, k28.Request(transactional_id=name, group_id="g", topics=[k28.Topic(name="a", partitions=[offset])], **ids._asdict()))

    def mark(self) -> None:
        """What an operator does."""
        (_, ids), (topic, index) = self.owner(), self.place()
        topics = [k27.Topic(name=topic, partition_indexes=[index])]
        epoch = self.random.choice([0, 5])
        marker = k27.Marker(transaction_result=False, coordinator_epoch=epoch, transaction_version=0, topics=topics, **ids._asdict())
        self.ask("", k27.Request(markers=[marker]))

    def list_all(self) -> None:
        self.ask("", k66.Request(state_filters=[], producer_id_filters=[]))

    # Mishaps

    def delete_topic(self) -> None:
        topic = self.random.choice(ALL_TOPICS)
        if topic in self.broker.cluster.topics:
            self.offline = {place: log for place, log in self.offline.items() if place[0] != topic}
            self.broker.cluster.delete_topic(topic)
        if topic in TOPICS:
            self.broker.cluster.create_topic(topic, partition_count=TOPICS[topic])

    def take_offline(self) -> None:
        topic = self.broker.cluster.topics.get(self.random.choice(ALL_TOPICS))
        if topic is not None:
            partition = self.random.choice(topic.partitions)
            if partition.online_log is not None:
                self.offline[topic.name, partition.index] = partition.online_log
                partition.take_offline(KafkaStorageError("gone for a while"))

    def bring_back(self) -> None:
        while self.offline:
            place, log = self.offline.popitem()
            self.broker.cluster.partition(*place).online_log = log

    def fail(self) -> None:
        operation, code = self.random.choice(FAULTS)
        path_part, after, times = self.random.choice(PATHS), self.random.randrange(2), self.random.randint(1, 2)
        self.files.fail(operation, code, path_part=path_part, after=after, times=times)

    def jump(self) -> None:
        self.clock.jump(self.random.choice([-100_000, 5_000]))

    def wait(self) -> None:
        self.clock.advance(self.random.choice([1, 1_000, 11_000]))

    @property
    def is_dead(self) -> bool:
        """The write that failed was of a .txnindex, without which the log must not go on."""
        return any(each.offline_cause is not None for each in self.broker.cluster.log_directories)

    def restart(self) -> None:
        self.bring_back()
        self.files.heal()
        self.broker.services.coordinators.stop()
        self.broker.cluster.close(clean=self.random.random() < 0.5)
        self.clock.forget()
        self.pending.clear()
        self.broker = BrokerInMemory(folder=self.first.folder, config=self.config, files=self.files, clock=self.clock)
        self._begin()


STEPS: dict[Callable[[World], None], int] = {
    World.init: 12,
    World.produce: 33,
    World.end: 20,
    World.commit_offset: 5,
    World.list_all: 3,
    World.find: 2,
    World.mark: 3,
    World.delete_topic: 2,
    World.take_offline: 3,
    World.bring_back: 3,
    World.fail: 2,
    World.jump: 3,
    World.wait: 4,
    World.restart: 1,
}


@pytest.mark.parametrize("seed", range(30, 50))  # 32, 42 and 49 found what 7569f25 fixed
def test_events_at_any_step(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(marking, "MARKERS_A_TURN", random.choice([1, 2, 200]))
    monkeypatch.setattr(coordinator, "IDS_A_TURN", random.choice([1, 50]))
    monkeypatch.setattr(store, "BYTES_AT_START", random.choice([1, 300, 1 << 19]))
    read_bytes = random.choice([100, 1 << 16])
    monkeypatch.setattr(stored_topic, "READ_BYTES", read_bytes)
    monkeypatch.setattr(store, "BYTES_A_TURN", read_bytes)
    monkeypatch.setattr(store, "DECODED_AT_ONCE", 2)
    world = World(random)
    for step in random.choices(list(STEPS), list(STEPS.values()), k=250):
        for _ in range(random.randrange(3)):
            world.clock.step()
        world.hear()
        step(world)
        if world.is_dead:
            world.restart()
    world.files.heal()
    world.bring_back()

    world.clock.advance(5_000)
    assert all(pending.is_done for _, pending in world.pending)
    world.restart()
    world.clock.jump(1_000_000)  # every transaction has timed out
    world.clock.advance(30_000)
    for topic in world.broker.cluster.topics.values():
        for partition in topic.partitions:
            # The end of a transaction is written again when a power loss takes it, so nobody waits for its sync.
            partition.log.flusher.flush()
            assert partition.log.last_stable_offset == partition.log.log_end_offset, f"{topic.name}-{partition.index}"
