"""A shop's day: transactions of both kinds of clients, with a group's offsets, as steps that are acknowledged one by one.

`live` goes through it until the broker dies. It tells what was acknowledged before the step that death interrupted, and what that step
would have made of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from minibroker.clock import ManualClock
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k22_init_producer_id as k22
from minibroker.schemas import k24_add_partitions_to_txn as k24
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k28_txn_offset_commit as k28
from minibroker.storage.files import Files, RealFiles
from tests.cluster.crashing import Died, bury
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_records import read_committed
from tests.support.log_batches import batch_of

SYNCED = {"log.flush.interval.messages": "1"}  #: an answer waits for the disk; else only for the page cache
CONFIG = {
    "log.index.interval.bytes": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.segment.bytes": "1024",  #: six records or so
    "offsets.topic.num.partitions": "1",
    "log.segment.delete.delay.ms": "1000",
}
SMALL = {"segment.bytes": "400"}  #: two or three batches
TIMEOUT_MS = 30_000
SCAN_MS = 10_000  #: transaction.abort.timed.out.transaction.cleanup.interval.ms
A_TURN = 20  #: syncs that one request may wait for, one after the other

Place = tuple[str, int]
GROUP = "consumers"
OFFSET: Place = ("offset of the group", 0)  #: no place of records: what the group has committed, in digits


class Outcome(Enum):
    """The outcome of a transaction in the answer to its client."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Value(NamedTuple):
    """One record, and the transaction that it belongs to."""

    value: bytes
    transaction: int | None


class History:
    """What was written in the order of each log, and how its transactions ended."""

    def __init__(self) -> None:
        self.values: dict[Place, list[Value]] = {}
        self.offsets: list[Value] = []
        self.outcomes: list[Outcome] = []

    @property
    def visible(self) -> dict[Place, list[bytes]]:
        """What a read_committed reader must find when no transaction is open any more, and the group's last offset."""
        return {place: self._committed(values) for place, values in self.values.items()} | {OFFSET: self._committed(self.offsets)[-1:]}

    def _committed(self, values: list[Value]) -> list[bytes]:
        return [each.value for each in values if each.transaction is None or self.outcomes[each.transaction] is Outcome.COMMITTED]


class Shop:
    """A broker, its history, and the producers that are connected to it."""

    def __init__(self, folder: Path, files: Files | None = None, clock: ManualClock | None = None, *, is_synced: bool = True) -> None:
        config = CONFIG | SYNCED if is_synced else CONFIG
        self.broker = BrokerInMemory(folder=folder, files=files or RealFiles(), clock=clock, config=config)
        self.history = History()
        self.producers: dict[str, Producer] = {}

    def ask(self, request: Any, version: int) -> Any:
        """The answer, which may wait for syncs."""
        pending = self.broker.begin(request, version)
        for _ in range(A_TURN):
            if pending.is_done:
                break
            self.broker.clock.advance(0)
        return pending.answer()

    def producer(self, transactional_id: str) -> Producer:
        if transactional_id not in self.producers:
            self.producers[transactional_id] = Producer(self, transactional_id)
        return self.producers[transactional_id]

    def produce(self, place: Place, batch: bytes, version: int, transactional_id: str | None) -> int:
        """An error code."""
        topic, index = place
        partitions = [k00.Partition(index=index, records=batch)]
        topics = [k00.Topic(name=topic, partition_data=partitions)]
        answer = self.ask(k00.Request(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=topics), version)
        ((result,),) = [each.partition_responses for each in answer.responses]
        return int(result.error_code)

    @property
    def places(self) -> list[Place]:
        topics = [topic for topic in self.broker.cluster.topics.values() if not topic.is_internal]
        return [(topic.name, partition.index) for topic in topics for partition in topic.partitions]

    def committed(self) -> dict[Place, list[bytes]]:
        """What a read_committed reader finds now, and the group's offset."""
        found = {place: [value or b"" for value in read_committed(self.broker, *place).values()] for place in self.places}
        return found | {OFFSET: self._committed_offset()}

    def _committed_offset(self) -> list[bytes]:
        if CONSUMER_OFFSETS_TOPIC not in self.broker.cluster.topics:
            return []
        topics = [k09.GroupTopic(name="orders", partition_indexes=[0])]
        (group,) = self.ask(k09.Request(groups=[k09.Group(group_id=GROUP, topics=topics)], require_stable=False), 8).groups
        assert group.error_code == 0
        ((partition,),) = [topic.partitions for topic in group.topics]
        return [b"%d" % partition.committed_offset] if partition.committed_offset >= 0 else []


class Producer:
    """Of one transactional id: as clients of before KIP-890 if its name begins with "old", else as those of today."""

    def __init__(self, shop: Shop, transactional_id: str) -> None:
        self.shop = shop
        self.transactional_id = transactional_id
        self.is_old = transactional_id.startswith("old")
        self.ids = (-1, -1)
        self._sequences: dict[Place, int] = {}
        self._transaction: int | None = None
        self._reached: set[Place] = set()

    def take_over(self) -> None:
        """InitProducerId: the previous owner of the id is fenced, and its transaction aborted."""
        self._note(Outcome.ABORTED)
        answer = self.shop.ask(k22.Request(transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS), 4)
        assert answer.error_code == 0
        self._begin_anew((answer.producer_id, answer.producer_epoch))

    def write(self, place: Place, value: bytes) -> None:
        """One record, in the transaction that is open or begins here."""
        history = self.shop.history
        transaction = self._begin()
        if self.is_old and place not in self._reached:
            assert self.add(place) == 0
        self._reached.add(place)
        history.values[place].append(Value(value, transaction))
        assert self.send(place, value) == 0

    def send_offset(self, offset: int) -> None:
        """TxnOffsetCommit: the group's offset of orders-0 is this, if the transaction is committed."""
        self.shop.history.offsets.append(Value(b"%d" % offset, self._begin()))
        topics = [k28.Topic(name="orders", partitions=[k28.Partition(partition_index=0, committed_offset=offset, committed_metadata="")])]
        ids: dict[str, Any] = {"producer_id": self.ids[0], "producer_epoch": self.ids[1]}
        answer = self.shop.ask(k28.Request(transactional_id=self.transactional_id, group_id=GROUP, topics=topics, **ids), 5)
        assert [each.error_code for topic in answer.topics for each in topic.partitions] == [0]

    def _begin(self) -> int:
        """The transaction that is open, or begins here."""
        if self._transaction is None:
            self._transaction = len(self.shop.history.outcomes)
            self.shop.history.outcomes.append(Outcome.OPEN)
        return self._transaction

    def add(self, *places: Place) -> int:
        """AddPartitionsToTxn; an error code."""
        topics = [k24.Topic(name=topic, partitions=[index]) for topic, index in places]
        ids: dict[str, Any] = {"v3_and_below_producer_id": self.ids[0], "v3_and_below_producer_epoch": self.ids[1]}
        request = k24.Request(v3_and_below_transactional_id=self.transactional_id, v3_and_below_topics=topics, **ids)
        (code,) = {
            each.partition_error_code
            for topic in self.shop.ask(request, 3).results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        return int(code)

    def send(self, place: Place, value: bytes) -> int:
        """A batch, as it comes next; an error code."""
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + 1
        ids: dict[str, Any] = {
            "producer_id": self.ids[0],
            "producer_epoch": self.ids[1],
            "base_sequence": sequence,
            "is_transactional": True,
        }
        batch = batch_of(value, timestamp=self.shop.broker.clock.now_ms(), **ids)
        return self.shop.produce(place, bytes(batch), 11 if self.is_old else 12, self.transactional_id)

    def end(self, *, commit: bool) -> None:
        """The client receives the outcome of its transaction."""
        self._note(Outcome.COMMITTED if commit else Outcome.ABORTED)
        answer = self.ask_for_end(commit=commit)
        assert answer.error_code == 0
        if not self.is_old:
            self._begin_anew((answer.producer_id, answer.producer_epoch))

    def ask_for_end(self, *, commit: bool) -> Any:
        ids: dict[str, Any] = {"producer_id": self.ids[0], "producer_epoch": self.ids[1]}
        return self.shop.ask(k26.Request(transactional_id=self.transactional_id, committed=commit, **ids), 4 if self.is_old else 5)

    def time_out(self) -> None:
        """Nobody hears of this producer any more."""
        self._note(Outcome.ABORTED)

    def _note(self, outcome: Outcome) -> None:
        if self._transaction is not None:
            self.shop.history.outcomes[self._transaction] = outcome
        self._transaction = None
        self._reached.clear()

    def _begin_anew(self, ids: tuple[int, int]) -> None:
        self.ids = ids
        self._sequences.clear()


Step = Callable[[Shop], object]


def create(topic: str, count: int) -> Step:
    def step(shop: Shop) -> None:
        shop.history.values |= {(topic, index): [] for index in range(count)}
        shop.broker.cluster.create_topic(topic, partition_count=count, configs=SMALL)

    return step


def delete(topic: str) -> Step:
    def step(shop: Shop) -> None:
        shop.history.values = {place: values for place, values in shop.history.values.items() if place[0] != topic}
        shop.broker.cluster.delete_topic(topic)

    return step


def find_coordinators(shop: Shop) -> None:
    for key_type in (k10.GROUP, k10.TRANSACTION):
        answer = shop.ask(k10.Request(coordinator_keys=["shop"], key_type=key_type), 6)
        assert [each.error_code for each in answer.coordinators] == [0]


def take_over(name: str) -> Step:
    return lambda shop: shop.producer(name).take_over()


def write(name: str, place: Place, value: bytes) -> Step:
    return lambda shop: shop.producer(name).write(place, value)


def send_offset(name: str, offset: int) -> Step:
    return lambda shop: shop.producer(name).send_offset(offset)


def plain(place: Place, value: bytes) -> Step:
    """A record of no transaction."""

    def step(shop: Shop) -> None:
        shop.history.values[place].append(Value(value, None))
        assert shop.produce(place, bytes(batch_of(value, timestamp=shop.broker.clock.now_ms())), 12, None) == 0

    return step


def commit(name: str) -> Step:
    return lambda shop: shop.producer(name).end(commit=True)


def abort(name: str) -> Step:
    return lambda shop: shop.producer(name).end(commit=False)


def time_out(name: str) -> Step:
    def step(shop: Shop) -> None:
        shop.producer(name).time_out()
        shop.broker.clock.advance(TIMEOUT_MS + SCAN_MS + 1)

    return step


def close(shop: Shop) -> None:
    shop.broker.services.coordinators.stop()
    shop.broker.cluster.close()


A, B, C = ("orders", 0), ("orders", 1), ("audit", 0)
NEW, OLD, OLDER = "new shop", "old shop", "older shop"


def work(one: str, two: str) -> list[Step]:
    """Every end of a transaction that there is, of two producers, in one partition and in several, beside each other."""
    return [
        create("orders", 2),
        create("audit", 1),
        find_coordinators,
        take_over(one),
        take_over(two),
        *(write(name, place, b"committed " + name.encode()) for name in (one, two) for place in (A, B, C)),
        send_offset(one, 5),
        commit(one),
        plain(A, b"plain"),
        commit(two),
        *(write(name, place, b"aborted") for name in (two, one) for place in (B, A)),
        abort(two),
        plain(A, b"more"),
        send_offset(one, 6),
        abort(one),
        write(two, A, b"left by one that was fenced"),
        take_over(two),
        write(one, C, b"left by one that was fenced"),
        take_over(one),
        write(one, A, b"timed out"),
        write(two, A, b"and so is this one"),
        lambda shop: shop.producer(two).time_out(),
        time_out(one),
        take_over(one),
        take_over(two),
        write(one, B, b"beside one that is deleted"),
        write(one, C, b"deleted"),
        delete("audit"),
        send_offset(one, 7),
        commit(one),
        write(two, B, b"last"),
        commit(two),
        write(one, A, b"left open"),
        send_offset(one, 8),
        close,
    ]


def live(folder: Path, files: Files, names: tuple[str, str] = (NEW, OLD), *, is_synced: bool = True) -> tuple[History, Shop | None, bool]:
    """What was acknowledged before the step that death interrupted; the shop, with that step in its history; whether death came at all."""
    before = History()
    try:
        shop = Shop(folder, files, is_synced=is_synced)
    except Died:
        return before, None, True
    shop.broker._end.detach()
    try:
        for step in work(*names):
            before = copy.deepcopy(shop.history)
            step(shop)
    except Died:
        bury(shop.broker.cluster)
        return before, shop, True
    return shop.history, shop, False
