"""Requests for records: Produce, Fetch with and without sessions, ListOffsets, DeleteRecords, OffsetForLeaderEpoch, InitProducerId."""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple

from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
)
from tests.differential.twins import KAFKAS, OURS, Make, Twins
from tests.records.lies import LIES

NO_SESSION_EPOCH: Final = -1
INT32_MAX: Final = 2**31 - 1
ZSTD_TOPIC: Final = "one"  #: the only one that has zstd: Kafka 4 gives such batches to readers that do not know zstd, we do not
UNKNOWN: Final = "not-there"
#: lies.py's batches on which we and Kafka agree, code for code; where we do not, tests/records/test_validate.py says why
LIES_AGREED: Final = (
    "nothing", "cut_in_offset", "cut_behind_magic", "cut_in_header", "cut_in_records", "zeros", "trailing_bytes", "trailing_cut_batch",
    "two_batches", "length_-1", "length_14", "crc_wrong", "payload_bit_flipped", "magic_0", "magic_3", "honest_magic_1", "base_offset_5",
    "partition_leader_epoch_99", "control", "delete_horizon", "count_0_delta_2", "time_2_hours_ahead",
    "time_20_years_back", "time_second_record_ahead", "time_none",
)  # fmt: skip


#: those that make Kafka refuse the whole request, we only the partition: they come alone
LIES_OF_FRAMING: Final = {"zeros", "length_-1", "length_14", "magic_3"}


class Operation(NamedTuple):
    """One request, for both sides."""

    schema: Any
    version: int
    make: Make
    is_answered: bool = True
    note: str = ""


class Producer:
    """An idempotent producer and the next sequence of each partition that it writes to."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.epoch = 0
        self.next: dict[tuple[str, int], int] = {}


class Session:
    """A fetch session that both sides have open."""

    def __init__(self, ids: tuple[int, int], version: int) -> None:
        self.ids = ids
        self.by_id = version >= 13
        self.is_old = version < 10  #: knows no zstd
        self.epoch = 1


class Data:
    """Draws requests; what it knows of the topics is what the answers said."""

    acks: tuple[tuple[int, ...], tuple[int, ...]] = (-1, 1, 0, 2, -2), (60, 30, 5, 2, 2)
    isolation_levels: tuple[tuple[int, ...], tuple[int, ...]] = (0, 1, 2), (495, 495, 10)

    def __init__(self, random: Random, twins: Twins, now_ms: int) -> None:
        self.random = random
        self.twins = twins
        self.now_ms = now_ms
        self.partitions: dict[str, int] = {}  #: topic -> how many
        self.ends: dict[tuple[str, int], int] = {}
        self.producers: list[Producer] = []
        self.sessions: list[Session] = []
        self.told: list[str] = []  #: what the last Produce holds, for the reader of a difference

    # -- pieces -----------------------------------------------------------------------------------------------------

    def topic(self) -> str:
        """A topic, now and then one that is not there."""
        return UNKNOWN if self.random.random() < 0.03 else self.random.choice(sorted(self.partitions))

    def index(self, topic: str) -> int:
        """A partition, now and then one that is not there."""
        if self.random.random() < 0.03:
            return self.random.choice((-1, 99, INT32_MAX))
        return self.random.randrange(self.partitions.get(topic, 1))

    def places(self, most: int) -> dict[str, list[int]]:
        """Some partitions of some topics, none twice."""
        found: dict[str, list[int]] = {}
        for _ in range(self.random.randint(1, most)):
            topic = self.topic()
            index = self.index(topic)
            if index not in found.setdefault(topic, []):
                found[topic].append(index)
        return found

    def offset(self, topic: str, index: int) -> int:
        """Mostly within the log."""
        end = self.ends.get((topic, index), 0)
        if self.random.random() < 0.1:
            return self.random.choice((-1, -5, end + 1, end + 1000, 2**62))
        return self.random.randint(0, end)

    def epoch(self) -> int:
        """current_leader_epoch: mostly not given or right."""
        return self.random.choice((-1, -1, -1, -1, -1, 0, 0, 1, 7, -2) if self.random.random() < 0.3 else (-1, 0))

    def records(self) -> list[Record]:
        """Of any shape that clients send."""
        draw = self.random
        return [
            Record(
                0,
                self.now_ms - draw.randrange(100_000),
                draw.choice((None, b"", b"key %d" % draw.randrange(50))),
                draw.choice((None, b"", draw.randbytes(draw.choice((1, 100, 2000))))),
                tuple((f"h{number}", draw.choice((None, b"", b"v"))) for number in range(draw.choice((0, 0, 2)))),
            )
            for _ in range(draw.choice((1, 1, 3, 20, 40)))
        ]

    # -- Produce ----------------------------------------------------------------------------------------------------

    def produce(self) -> Operation:
        """One or several partitions, of which now and then one gets what it must refuse. Without transactions, which we refuse."""
        draw = self.random
        version = draw.randint(3, 13)
        self.told = []
        batches = {(topic, index): self._batch(topic, index, version) for topic, indexes in self.places(4).items() for index in indexes}
        if LIES_OF_FRAMING & set(self.told):
            place = next(iter(batches))
            lie = LIES[next(name for name in self.told if name in LIES_OF_FRAMING)].data(self.now_ms)
            batches = {place: (lie, lie)}
        acks = draw.choices(*self.acks)[0]

        def make(side: int) -> k00_produce.Request:
            topics: dict[str, list[k00_produce.Partition]] = {}
            for (topic, index), batch in batches.items():
                topics.setdefault(topic, []).append(k00_produce.Partition(index=index, records=batch[side]))
            data = [
                k00_produce.Topic(topic_id=self.twins.topic_id(name, side), partition_data=partitions)
                if version >= 13
                else k00_produce.Topic(name=name, partition_data=partitions)
                for name, partitions in topics.items()
            ]
            return k00_produce.Request(acks=acks, timeout_ms=10_000, topic_data=data)

        return Operation(k00_produce, version, make, is_answered=acks != 0, note=f"acks {acks} to {list(batches)}: {self.told}")

    def _batch(self, topic: str, index: int, version: int) -> tuple[bytes, bytes]:
        """Ours and Kafka's. Never null records: Apache Kafka 4.3.1 does not answer those at all."""
        draw = self.random
        kind = draw.random()
        if kind < 0.15:
            name = draw.choice(LIES_AGREED)
            self.told.append(name)
            lie = LIES[name].data(self.now_ms)
            return lie, lie
        codec = draw.choice(list(Compression) if topic == ZSTD_TOPIC else list(Compression)[:4])
        if kind < 0.4 and self.producers:
            return self._idempotent(topic, index, codec)
        self.told.append(codec.name)
        batch = bytes(build_batch(self.records(), compression=codec))
        return batch, batch

    def producer_records(self) -> list[Record]:
        """What an idempotent producer sends."""
        return self.records()

    def plays_tricks(self, _topic: str) -> bool:
        """Whether producers of a topic send again what they sent, or leave something out."""
        return True

    def _idempotent(self, topic: str, index: int, codec: Compression) -> tuple[bytes, bytes]:
        draw = self.random
        producer = draw.choice(self.producers)
        records = self.producer_records()
        sequence = producer.next.get((topic, index), 0)
        trick = draw.random() if self.plays_tricks(topic) else 1
        if trick < 0.2:
            sequence = max(0, sequence - draw.choice((1, 3, 20)))  # perhaps a duplicate
        elif trick < 0.25:
            sequence += draw.choice((1, 5))
        elif trick < 0.28:
            sequence = draw.choice((INT32_MAX, 0, -1))
        elif sequence + len(records) < INT32_MAX:
            producer.next[topic, index] = sequence + len(records)
        epoch = producer.epoch + draw.choices((0, 1, -1), (95, 3, 2) if trick < 1 else (1, 0, 0))[0]
        self.told.append(f"producer {producer.number} epoch {epoch} sequence {sequence} x {len(records)}")
        ids = self.twins.producer_ids[producer.number]
        ours, kafkas = (
            bytes(build_batch(records, compression=codec, producer_id=ids[side], producer_epoch=epoch, base_sequence=sequence))
            for side in (OURS, KAFKAS)
        )
        return ours, kafkas

    def init_producer_id(self) -> Operation:
        """Mostly a new id."""
        draw = self.random
        version = draw.randint(0, 5)
        fields: dict[str, Any] = {
            "transactional_id": draw.choices((None, ""), (9, 1))[0],
            "transaction_timeout_ms": draw.choice((1000, INT32_MAX)),
        }
        if version >= 3 and draw.random() < 0.2:
            fields |= {"producer_id": draw.choice((-1, 5)), "producer_epoch": draw.choice((-1, 3))}
        return Operation(k22_init_producer_id, version, lambda _: k22_init_producer_id.Request(**fields), note=str(fields))

    # -- Fetch ------------------------------------------------------------------------------------------------------

    def fetch(self) -> Operation:
        """Without a session."""
        version = self.random.randint(4, 18)
        return self._fetch(
            version, self._asked(version, self.places(5), is_limited=True), session_id=(0, 0), session_epoch=NO_SESSION_EPOCH
        )

    def session_fetch(self) -> tuple[Operation, Session | None]:
        """Without limits: a partition of which Kafka sends a part of a batch counts as answered, so the order of later answers differs.

        Opens a session, or goes on with one, rightly or wrongly; the session that an answer without error moves on."""
        draw = self.random
        if len(self.sessions) < 2 or draw.random() < 0.1:
            version = draw.randint(7, 18)
            return self._fetch(version, self._asked(version, self.places(6)), session_id=(0, 0), session_epoch=0), None
        session = draw.choice(self.sessions)
        version = draw.randint(13, 18) if session.by_id else draw.randint(*((7, 9) if session.is_old else (10, 12)))
        trick = draw.random()
        if trick < 0.03:
            version = draw.randint(10, 12) if session.by_id else draw.randint(13, 18)
        wrong_epoch = trick > 0.97
        epoch = session.epoch + draw.choice((1, 5, -1)) if wrong_epoch else session.epoch
        if 0.9 < trick < 0.95:
            self.sessions.remove(session)
            return self._fetch(
                version, self._asked(version, self.places(3)), session_id=session.ids, session_epoch=draw.choice((-1, 0))
            ), None
        if 0.95 < trick < 0.96:
            return self._fetch(version, self._asked(version, self.places(2)), session_id=(1, 1), session_epoch=epoch), None
        requested = self._asked(version, self.places(2)) if draw.random() < 0.5 else {}
        forgotten = self.places(2) if draw.random() < 0.2 else {}
        return self._fetch(version, requested, session_id=session.ids, session_epoch=epoch, forgotten=forgotten), session

    def _asked(self, version: int, places: dict[str, list[int]], *, is_limited: bool = False) -> dict[str, list[k01_fetch.Partition]]:
        draw = self.random
        if version < 10:
            places = {topic: indexes for topic, indexes in places.items() if topic != ZSTD_TOPIC} or {"plain": [0]}
        requests: dict[str, list[k01_fetch.Partition]] = {}
        for topic, indexes in places.items():
            for index in indexes:
                fields: dict[str, Any] = {}
                if version >= 9:
                    fields["current_leader_epoch"] = self.epoch()
                if version >= 12 and draw.random() < 0.1:
                    fields["last_fetched_epoch"] = draw.choice((0, 0, 0, 3, -2))
                limit = draw.choice((1_048_576, 1_048_576, 1_048_576, 0, 1, 61, 300, 5000)) if is_limited else 10_485_760
                partition = k01_fetch.Partition(
                    partition=index, fetch_offset=self.offset(topic, index), partition_max_bytes=limit, **fields
                )
                requests.setdefault(topic, []).append(partition)
        return requests

    def _fetch(
        self,
        version: int,
        asked: dict[str, list[k01_fetch.Partition]],
        *,
        session_id: tuple[int, int],
        session_epoch: int,
        forgotten: dict[str, list[int]] | None = None,
    ) -> Operation:
        draw = self.random
        common: dict[str, Any] = {
            "max_wait_ms": draw.choice((0, 1, 5, 10)),
            "min_bytes": draw.choice((0, 1, 1, 1, 500, INT32_MAX)),
            "max_bytes": draw.choice((52_428_800, 52_428_800, 0, 1, 700, 10_000)) if session_epoch == NO_SESSION_EPOCH else 52_428_800,
            "isolation_level": draw.choices(*self.isolation_levels)[0],
        }
        if version >= 7:
            common["session_epoch"] = session_epoch

        def make(side: int) -> k01_fetch.Request:
            fields = dict(common)
            if version >= 7:
                fields["session_id"] = session_id[side]
                fields["forgotten_topics_data"] = [
                    k01_fetch.ForgottenTopic(partitions=indexes, **self._named(name, version, side))
                    for name, indexes in (forgotten or {}).items()
                ]
            topics = [k01_fetch.Topic(partitions=partitions, **self._named(name, version, side)) for name, partitions in asked.items()]
            return k01_fetch.Request(topics=topics, **fields)

        return Operation(k01_fetch, version, make, note=f"{common} {_brief(asked)} forget {forgotten}")

    def _named(self, name: str, version: int, side: int) -> dict[str, Any]:
        return {"topic_id": self.twins.topic_id(name, side)} if version >= 13 else {"topic": name}

    # -- look-ups ---------------------------------------------------------------------------------------------------

    def list_offsets(self) -> Operation:
        """Every selector, those of later versions too."""
        draw = self.random
        version = draw.randint(1, 11)
        topics = []
        for topic, indexes in self.places(4).items():
            partitions = []
            for index in indexes * (2 if draw.random() < 0.02 else 1):
                timestamp = draw.choice((-1, -2, -3, -4, -5, -6, -7, self.now_ms - draw.randrange(120_000), 0, self.now_ms + 10_000, 2**62))
                epoch = {"current_leader_epoch": self.epoch()} if version >= 4 else {}
                partitions.append(k02_list_offsets.Partition(partition_index=index, timestamp=timestamp, **epoch))
            topics.append(k02_list_offsets.Topic(name=topic, partitions=partitions))
        fields: dict[str, Any] = {"replica_id": draw.choices((-1, -2), (95, 5))[0], "topics": topics}
        if version >= 2:
            fields["isolation_level"] = draw.choices((0, 1, 3), (49, 49, 2))[0]
        if version >= 10:
            fields["timeout_ms"] = 5000
        return Operation(k02_list_offsets, version, lambda _: k02_list_offsets.Request(**fields), note=str(fields))

    def offset_for_leader_epoch(self) -> Operation:
        """Epochs before, at and behind the current one, which is 0."""
        draw = self.random
        version = draw.randint(2, 4)
        topics = [
            k23_offset_for_leader_epoch.Topic(
                topic=topic,
                partitions=[
                    k23_offset_for_leader_epoch.Partition(
                        partition=index, current_leader_epoch=self.epoch(), leader_epoch=draw.choice((-1, 0, 0, 1, 9, -3))
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in self.places(3).items()
        ]
        fields: dict[str, Any] = {"topics": topics} | ({"replica_id": -1} if version >= 3 else {})
        return Operation(k23_offset_for_leader_epoch, version, lambda _: k23_offset_for_leader_epoch.Request(**fields), note=str(fields))

    def delete_records(self) -> Operation:
        """Low offsets, so that something is left for the others."""
        draw = self.random
        version = draw.randint(0, 2)
        topics = []
        for topic, indexes in self.places(2).items():
            partitions = []
            for index in indexes:
                offset = draw.choice((self.offset(topic, index) // 4, -1, -2)) if draw.random() < 0.3 else self.offset(topic, index) // 4
                partitions.append(k21_delete_records.Partition(partition_index=index, offset=offset))
            topics.append(k21_delete_records.Topic(name=topic, partitions=partitions))
        return Operation(
            k21_delete_records, version, lambda _: k21_delete_records.Request(topics=topics, timeout_ms=10_000), note=str(topics)
        )


def _brief(asked: dict[str, list[k01_fetch.Partition]]) -> str:
    """Offset, limit and epochs of each partition."""
    return ", ".join(
        f"{name}-{each.partition}@{each.fetch_offset}<{each.partition_max_bytes} e{each.current_leader_epoch}/{each.last_fetched_epoch}"
        for name, partitions in asked.items()
        for each in partitions
    )
