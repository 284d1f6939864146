"""What one scrape reads of the broker: numbers of partitions, groups and connections, copied in slices.

The families of a scrape read this copy, not the broker: a topic may be deleted while the text is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.errors import KafkaError
from minibroker.metrics.assignments import Assignments, assignments_of
from minibroker.metrics.counts import TopicCounts, TopicTable
from minibroker.metrics.labels import (
    NO_LABELS,
    Labels,
    labels,
    labels_of_group_topic,
    labels_of_offset,
    labels_of_partition,
    labels_of_topic,
)
from minibroker.metrics.meter import Meter
from minibroker.metrics.texts import Texts

if TYPE_CHECKING:
    from minibroker.cluster.cluster import Cluster
    from minibroker.cluster.partition import Partition
    from minibroker.coordinator.group.kind import LiveGroup
    from minibroker.coordinator.group.store import StoredShard
    from minibroker.coordinator.transaction.records import TransactionMetadata
    from minibroker.dispatch.context import Services
    from minibroker.server.broker import Broker

INTERVAL_S: Final = 1.0  #: a scrape sooner after the last one sees the same rates
PARTITIONS_A_SLICE: Final = 50
OFFSETS_A_SLICE: Final = 100
NO_LEADER: Final = -1
NO_COUNTS: Final = TopicCounts()  #: of topics without requests


Counted = tuple[int, ...]  #: messages_in, bytes_in, and the fields of TopicCounts


class PartitionState(NamedTuple):
    """One partition."""

    topic: str
    number: int
    labels: Labels  #: topic and partition
    leader_id: int
    replicas: list[int]
    in_sync: list[int]
    min_in_sync: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    size: int
    segment_count: int
    messages_in: int  #: since its log was opened
    bytes_in: int
    open_transactions: int
    source: Partition


class TopicState(NamedTuple):
    """One topic, or all of them together."""

    name: str
    labels: Labels  #: topic; none for all topics
    is_internal: bool
    partitions: list[PartitionState]
    counts: TopicCounts
    messages_in: int
    bytes_in: int


class GroupOffset(NamedTuple):
    """The committed offset of a group in one partition."""

    topic: str
    number: int
    offset: int
    commit_timestamp_ms: int
    labels: Labels  #: consumergroup, partition, topic
    partition: PartitionState
    lag: int  #: offsets up to the high watermark
    marker_count: int | None  #: transaction markers among them; None: not known


class GroupTopic(NamedTuple):
    """The committed offsets of a group in one topic."""

    group_id: str
    topic: str
    labels: Labels  #: consumergroup, topic
    offset_sum: int
    lag_sum: int


class GroupState(NamedTuple):
    """One group."""

    group_id: str
    labels: Labels  #: consumergroup
    group_type: str
    protocol_type: str
    protocol: str
    state: str
    member_count: int
    offsets: list[GroupOffset]
    topics: list[GroupTopic]
    live: LiveGroup | None  #: its state machine, if it has one


class Totals:
    """Counters of topics over all topics, which keep what deleted topics counted."""

    def __init__(self) -> None:
        self._gone: Counted = (0,) * (2 + len(TopicCounts.__slots__))
        self._last: dict[int, Counted] = {}  #: by number of the topic id
        self._now: dict[int, Counted] = {}

    def note(self, topic_id: int, counted: Counted) -> None:
        """Take the counters of a topic that exists."""
        self._now[topic_id] = counted
        before = self._last.pop(topic_id, None)
        if before is not None and (counted[0] < before[0] or counted[1] < before[1]):  # its log was opened again
            self._gone = tuple(gone + max(old - new, 0) for gone, old, new in zip(self._gone, before, counted, strict=True))

    def values(self) -> Counted:
        """Return the totals, after all topics were noted."""
        self._gone = tuple(map(sum, zip(self._gone, *self._last.values(), strict=True)))  # deleted ones
        self._last, self._now = self._now, {}
        return tuple(map(sum, zip(self._gone, *self._last.values(), strict=True)))


class Rates:
    """Numbers of the last scrape, to compare with the present ones."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter, cpu_s: Callable[[], float] = time.thread_time) -> None:
        """Start now. Call it on the loop's thread, whose CPU time counts."""
        self._now_s = now_s
        self._cpu_s = cpu_s
        self._before: dict[str, float] = {}
        self._before_s = now_s()
        self._before_cpu_s = cpu_s()
        self.values: dict[str, float] = {}  #: growth a second, by name
        self.idle_part = 1.0  #: of the time, from 0 to 1

    def update(self, counters: dict[str, float]) -> None:
        """Take the present counters, all of which started at 0."""
        now_s, cpu_s = self._now_s(), self._cpu_s()
        passed_s = now_s - self._before_s
        if not self.values:
            self._before, self._before_s = counters, now_s
            self.values = dict.fromkeys(counters, 0.0)  # nothing to compare with
        if passed_s < INTERVAL_S:
            return
        self.values = {name: max(value - self._before.get(name, 0.0), 0.0) / passed_s for name, value in counters.items()}
        self.idle_part = min(max(1.0 - (cpu_s - self._before_cpu_s) / passed_s, 0.0), 1.0)
        self._before, self._before_s, self._before_cpu_s = counters, now_s, cpu_s


class LastScrape:
    """What a scrape needs of the one before."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.rates = Rates()
        self.texts = Texts()
        self.assignments: dict[str, Assignments] = {}  #: by group


class State:
    """The state of a broker at one scrape; `read` fills it."""

    def __init__(self, broker: Broker, meter: Meter, last: LastScrape, loop_delay_s: float) -> None:
        self.meter = meter
        self.texts = last.texts
        self.assignments: dict[str, Assignments] = {}  #: by group, if they are wanted
        self._last = last
        self.broker = broker
        self.rates = last.rates
        self.total = TopicState("", NO_LABELS, False, [], NO_COUNTS, 0, 0)  #: all topics, also those that are gone
        self.loop_delay_s = loop_delay_s
        self.topics: list[TopicState] = []
        self.partitions: list[PartitionState] = []  #: of all topics
        self.offsets: list[GroupOffset] = []  #: of all groups
        self.groups: list[GroupState] = []
        self.group_topics: list[GroupTopic] = []  #: of all groups
        self.topics_and_total: list[TopicState] = []
        self.transactions: list[TransactionMetadata] = []
        self._totals = last.totals
        self._partitions: dict[tuple[str, int], PartitionState] = {}

    @property
    def cluster(self) -> Cluster:
        """The broker's cluster."""
        return self.broker.cluster

    @property
    def services(self) -> Services:
        """The services of the first broker that clients see."""
        return self.broker.nodes[0].services

    @property
    def now_ms(self) -> int:
        """The broker's time."""
        return self.cluster.clock.now_ms()

    def read(self, *, with_assignments: bool = False) -> Iterator[None]:
        """Read everything, and yield between slices."""
        yield from self._read_topics()
        yield from self._read_groups()
        if with_assignments:
            yield from self._read_assignments()
        coordinator = self.services.coordinators.started_transactions
        if coordinator is not None:
            try:
                self.transactions = coordinator.all()
            except KafkaError:
                self.transactions = []  # their log is being read
        self.rates.update(self._counters())
        yield

    def _counters(self) -> dict[str, float]:
        """Return the counters whose rates are metrics."""
        found: dict[str, float] = {"metadata": self.cluster.metadata.last_offset + 1}
        coordinator = self.services.coordinators.started_transactions
        found["transaction_timeouts"] = 0 if coordinator is None else coordinator.timed_out
        for listener in self.broker.listeners:
            accepted, closed = f"accepted:{listener.name}", f"closed:{listener.name}"
            found[accepted] = found.get(accepted, 0) + listener.accepted
            found[closed] = found.get(closed, 0) + listener.accepted - len(listener.connections)
        return found

    def timestamp_ms(self, partition: PartitionState, offset: int) -> int:
        """Return the largest timestamp of the batch with an offset, -1 without one. Reads the log, unless it was read before."""
        key = partition.topic, partition.number
        known = self.meter.timestamps.get(key)
        if known is not None and known[:2] == (offset, partition.source.topic_id):
            return known[2]
        timestamp_ms, log = -1, partition.source.online_log
        if log is not None:
            try:
                header = log.segments.floor(max(offset, log.log_start_offset)).find(offset)
            except (OSError, KafkaError):
                header = None
            timestamp_ms = -1 if header is None else header.max_timestamp
        self.meter.timestamps[key] = offset, partition.source.topic_id, timestamp_ms
        return timestamp_ms

    def _read_topics(self) -> Iterator[None]:
        counted = self.meter.topics
        nodes = self.services.nodes
        count = 0
        for topic in list(self.cluster.topics.values()):
            known = []
            for partition in topic.partitions:
                of_partition = _partition_state(partition, nodes.of(partition))
                known.append(of_partition)
                self._partitions[topic.name, partition.index] = of_partition
                count += 1
                if count % PARTITIONS_A_SLICE == 0:
                    yield
            self.partitions += known
            sums = sum([each.messages_in for each in known]), sum([each.bytes_in for each in known])
            counts = _sum_of(counted, topic.name, topic.topic_id.int)
            self.topics.append(TopicState(topic.name, labels_of_topic(topic.name), topic.is_internal, known, counts, *sums))
            self._totals.note(topic.topic_id.int, (*sums, *counts.values()))
        yield
        self._forget_topics()
        totals = self._totals.values()
        yield
        self.total = TopicState("", NO_LABELS, False, [], TopicCounts(*totals[2:]), *totals[:2])
        self.topics_and_total = [self.total, *self.topics]
        yield

    def _forget_topics(self) -> None:
        """Drop the counters of topics that are gone."""
        known = {key for topic in self.cluster.topics.values() for key in (topic.name, topic.topic_id.int)}
        for key in [key for key in self.meter.topics if key not in known]:
            self.meter.topics.forget(key)
        for place in [place for place in self.meter.timestamps if place not in self._partitions]:
            del self.meter.timestamps[place]

    def _read_groups(self) -> Iterator[None]:
        if CONSUMER_OFFSETS_TOPIC not in self.cluster.topics:
            return
        count, store = 0, self.services.coordinators.groups.live.store
        for index in range(store.partition_count):
            try:
                stored = store.shard(index)
            except KafkaError:
                yield  # it is being read for the first time, or its log failed
                continue
            for group_id in list(stored.shard.groups):
                known = yield from self._group_state(stored, group_id)
                if known is not None:
                    self.groups.append(known)
                    self.offsets += known.offsets
                    self.group_topics += known.topics
                    count += 1 + len(known.offsets)
                    if count >= OFFSETS_A_SLICE:
                        count = 0
                        yield
        yield

    def _read_assignments(self) -> Iterator[None]:
        """Read which members have which partitions, and forget the commits of groups that are gone."""
        names = {topic.topic_id: topic.name for topic in self.cluster.topics.values()}
        before = self._last.assignments
        for group in self.groups:
            if group.live is not None:
                for found in assignments_of(group.live, before.get(group.group_id), names):
                    if found is not None:
                        self.assignments[group.group_id] = found
                    yield
        self._last.assignments = self.assignments
        if self.meter.commits is not None:
            self.meter.commits.keep({group.group_id for group in self.groups})
        yield

    def _group_state(self, stored: StoredShard, group_id: str) -> Generator[None, None, GroupState | None]:
        """Return the state of a group, with pauses: it may have offsets of all partitions."""
        group = stored.shard.groups.get(group_id)
        if group is None:
            return None
        live = stored.live.get(group_id)
        own = labels(consumergroup=group_id)
        offsets: list[GroupOffset] = []
        by_topic: dict[str, list[GroupOffset]] = {}
        for number, ((topic, index), committed) in enumerate([*stored.shard.offsets.of_group(group_id).items()], 1):
            if number % OFFSETS_A_SLICE == 0:
                yield
            partition = self._partitions.get((topic, index))
            if partition is None:
                continue  # the topic is gone, or was created again with fewer partitions
            of_offset = labels_of_offset(own, topic, index)
            lag = max(partition.high_watermark - committed.offset, 0)
            markers = _unread_markers(partition, committed.offset) if lag else 0
            known = GroupOffset(topic, index, committed.offset, committed.commit_timestamp_ms, of_offset, partition, lag, markers)
            offsets.append(known)
            by_topic.setdefault(topic, []).append(known)
        topics = [
            GroupTopic(
                group_id,
                topic,
                labels_of_group_topic(own, topic),
                sum([each.offset for each in of_topic]),
                sum([each.lag for each in of_topic]),
            )
            for topic, of_topic in by_topic.items()
        ]
        protocol, member_count = "", 0
        if isinstance(live, ClassicGroup):
            protocol, member_count = live.protocol_name or "", len(live.members)
        elif group.image is not None:
            member_count = len(group.image.members)
        protocol_type = live.protocol_type if live is not None else group.stored.protocol_type if group.stored else ""
        state = "Empty" if live is None else str(live.state.value)
        return GroupState(group_id, own, group.group_type.value, protocol_type, protocol, state, member_count, offsets, topics, live)


def _sum_of(counted: TopicTable, name: str, number: int) -> TopicCounts:
    """Return the counts of a topic by its name and by the number of its id."""
    by_name, by_id = counted.get(name), counted.get(number)
    if by_name is None or by_id is None:
        return by_name or by_id or NO_COUNTS
    total = TopicCounts()
    total.add(by_name)
    total.add(by_id)
    return total


def _partition_state(partition: Partition, nodes: Any) -> PartitionState:
    log = partition.online_log
    of_partition = labels_of_partition(partition.topic, partition.index)
    if log is None:  # new and empty, or on a disk that failed
        zeros = (0,) * 9
        return PartitionState(
            partition.topic, partition.index, of_partition, nodes.leader_id, nodes.replicas, nodes.in_sync, 1, *zeros, partition
        )
    return PartitionState(
        partition.topic,
        partition.index,
        of_partition,
        nodes.leader_id,
        nodes.replicas,
        nodes.in_sync,
        log.config.min_insync_replicas,
        log.log_start_offset,
        log.last_stable_offset,
        log.high_watermark,
        log.log_end_offset,
        log.segments.size,
        len(log.segments),
        log.log_end_offset - log.opened_end_offset,
        log.segments.appended_size,
        len(log.producers.open_transactions.first_offsets),
        partition,
    )


def _unread_markers(partition: PartitionState, offset: int) -> int | None:
    """Return the number of markers between a committed offset and the high watermark; None if it is not known."""
    log = partition.source.online_log
    if log is None:
        return 0
    if log.markers is None:
        return 0 if offset >= log.opened_end_offset else None
    unread, later = log.markers.count(offset), log.markers.count(partition.high_watermark)
    return None if unread is None or later is None else unread - later


async def loop_delay_s(turns: int = 3) -> float:
    """Return the longest of some turns of the loop, as a request waits for them."""
    longest = 0.0
    for _ in range(turns):
        began_s = time.perf_counter()
        await asyncio.sleep(0)
        longest = max(longest, time.perf_counter() - began_s)
    return longest
