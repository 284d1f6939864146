"""Requests for logs of many small segments: timestamps of every kind, records deleted anywhere, look-ups near both."""

from __future__ import annotations

from typing import Any, Final

from minibroker.records.batch import NO_TIMESTAMP
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.schemas import k01_fetch, k02_list_offsets, k21_delete_records
from tests.differential.data import Data, Operation

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
ZSTD_SINCE: Final = 7  #: version of Produce
AHEAD_MS: Final = HOUR_MS // 4  #: records are at least so far ahead of the clock, if at all
STAMPED: Final = "append-time"  #: the topic whose timestamps are the brokers' own
BY_AGE: Final = "by-age"
_LIMITS: Final = (0, 1, 61, 62, 100, 300, 499, 500, 501, 1000, 3000, 1_048_576, 1_048_576)


class LogData(Data):
    """As Data, but everything is about where batches lie and what their timestamps are.

    Apache Kafka begins a new segment for a batch and then finds that its producer sent it before, or that its sequence is wrong; we
    find that first and begin none. So producers are tricky only where no segment is ever full.
    """

    acks = (-1, 1, 0), (60, 30, 5)
    isolation_levels = (0, 1), (1, 1)

    def plays_tricks(self, topic: str) -> bool:
        """See the class."""
        return topic == "plain"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.starts: dict[tuple[str, int], int] = {}
        self.timestamps: list[int] = [self.now_ms]  #: that were produced
        self.only: str | None = None  #: the topic that all requests are about
        self._time = self.now_ms - 5 * DAY_MS
        self._age_ms = 6 * DAY_MS

    def topic(self) -> str:
        """The one that time takes is left alone until its time has come: a record that is ahead would keep all behind it."""
        if self.only is not None:
            return self.only
        while (topic := super().topic()) == BY_AGE:
            pass
        return topic

    def epoch(self) -> int:
        """Not compared: a restart raises it by one here, by two there."""
        return -1

    def offset(self, topic: str, index: int) -> int:
        """Any from a little below the log's start to a little above its end, which is known roughly: the last batch may be longer."""
        start, end = self.starts.get((topic, index), 0), self.ends.get((topic, index), 0)
        return self.random.randint(max(start - 2, -1), max(start, end) + 4)

    def records(self) -> list[Record]:
        """Few and small; in time or out of order, the same, none, far ahead."""
        draw = self.random
        kind = draw.random()
        count = draw.choice((1, 1, 2, 5))
        if self.only == BY_AGE:
            times = self._ageing(count)
        elif kind < 0.08:
            times = [NO_TIMESTAMP] * count
        elif kind < 0.2:
            times = [draw.choice(self.timestamps)] * count
        elif kind < 0.4:
            times = [self.now_ms - draw.randrange(6 * DAY_MS) for _ in range(count)]
        elif kind < 0.45:
            times = [self.now_ms + AHEAD_MS + draw.randrange(HOUR_MS // 2) for _ in range(count)]
        else:
            times = [self._later() for _ in range(count)]
        self.timestamps += [time for time in times if time >= 0]
        values = [draw.choice((None, b"", draw.randbytes(draw.choice((1, 30, 150))))) for _ in range(count)]
        return [Record(0, time, draw.choice((None, b"k")), value, ()) for time, value in zip(times, values, strict=True)]

    def producer_records(self) -> list[Record]:
        """What no segment refuses; and with timestamps: without, Apache Kafka forgets the producer when it starts again."""
        return [each if each.timestamp >= 0 else each._replace(timestamp=self._later()) for each in self.records()[:2]]

    def _ageing(self, count: int) -> list[int]:
        """From six days ago on, two hours a time, and a day out of order: later ones are younger than two days.

        None comes to be two days old while the test runs: the two brokers would see it at different moments.
        """
        self._age_ms = max(self._age_ms - 2 * HOUR_MS, DAY_MS)
        ages_ms = [self._age_ms - self.random.randrange(-DAY_MS // 2, DAY_MS // 2) for _ in range(count)]
        return [self.now_ms - age_ms + (HOUR_MS if 0 <= 2 * DAY_MS - age_ms < HOUR_MS else 0) for age_ms in ages_ms]

    def _later(self) -> int:
        self._time += self.random.choice((0, 1, 1000, 60_000, HOUR_MS // 4))
        return min(self._time, self.now_ms - AHEAD_MS)

    def _batch(self, topic: str, index: int, version: int) -> tuple[bytes, bytes]:
        codec = self.random.choice((Compression.NONE, Compression.NONE, *Compression))
        if self.producers and self.random.random() < 0.4 and (version >= ZSTD_SINCE or codec is not Compression.ZSTD):
            return self._idempotent(topic, index, codec)
        self.told.append(codec.name)
        records = self.records()
        if self.random.random() < 0.05:
            records[0] = records[0]._replace(value=self.random.randbytes(600))
        batch = bytes(build_batch(records, compression=codec))
        return batch, batch

    def fetch(self) -> Operation:
        """At odd offsets, with odd limits; from version 10 on, where zstd can be read."""
        draw = self.random
        version = draw.randint(10, 18)
        partition = {
            topic: [
                k01_fetch.Partition(partition=index, fetch_offset=self.offset(topic, index), partition_max_bytes=draw.choice(_LIMITS))
                for index in indexes
            ]
            for topic, indexes in self.places(draw.choice((1, 1, 4))).items()
        }
        return self._fetch(version, partition, session_id=(0, 0), session_epoch=-1)

    def fetch_of(self, topic: str, index: int, offset: int) -> Operation:
        """Everything from one offset on that one answer gives."""
        partition = {topic: [k01_fetch.Partition(partition=index, fetch_offset=offset, partition_max_bytes=1_048_576)]}
        fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 52_428_800, "isolation_level": 0, "session_epoch": -1}

        def make(side: int) -> k01_fetch.Request:
            topics = [k01_fetch.Topic(partitions=partitions, **self._named(name, 12, side)) for name, partitions in partition.items()]
            return k01_fetch.Request(topics=topics, session_id=0, **fields)

        return Operation(k01_fetch, 12, make, note=f"read {topic}-{index} from {offset} on")

    def list_offsets(self) -> Operation:
        """Timestamps that are there, and their neighbours; the selectors."""
        draw = self.random
        topics = [
            k02_list_offsets.Topic(
                name=topic,
                partitions=[
                    k02_list_offsets.Partition(
                        partition_index=index,
                        timestamp=draw.choice((-1, -2, -3, -3)[: 2 if topic == STAMPED else 4]) if draw.random() < 0.3 else self._near(),
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in self.places(4).items()
        ]
        return self.list_offsets_of(topics, draw.randint(7, 11), draw.choice((0, 1)))

    def list_offsets_of(self, topics: list[k02_list_offsets.Topic], version: int = 7, isolation_level: int = 0) -> Operation:
        """From version 7 on, which knows -3."""
        fields: dict[str, Any] = {"replica_id": -1, "topics": topics, "isolation_level": isolation_level}
        if version >= 10:
            fields["timeout_ms"] = 5000
        return Operation(k02_list_offsets, version, lambda _: k02_list_offsets.Request(**fields), note=str(fields))

    def _near(self) -> int:
        near = self.random.choice(self.timestamps) + self.random.choice((0, 0, -1, 1, HOUR_MS, -HOUR_MS))
        return near if abs(near - self.now_ms) > AHEAD_MS else self.now_ms  # not among the times of appending

    def delete_records(self) -> Operation:
        """Mostly a few records further; now and then all, or what is not there."""
        draw = self.random
        topics = []
        for topic, indexes in self.places(2).items():
            partitions = []
            for index in indexes:
                start, end = self.starts.get((topic, index), 0), self.ends.get((topic, index), 0)
                near = start + draw.randrange(max((end - start) // 4, 1) + 1)
                offset = draw.choice((near, near, near, near, start - 1, end + 100, -1, -2))
                partitions.append(k21_delete_records.Partition(partition_index=index, offset=offset))
            topics.append(k21_delete_records.Topic(name=topic, partitions=partitions))
        fields: dict[str, Any] = {"topics": topics, "timeout_ms": 10_000}
        return Operation(k21_delete_records, draw.randint(0, 2), lambda _: k21_delete_records.Request(**fields), note=str(topics))
