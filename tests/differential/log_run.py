"""The run over logs with small segments: rolls by size, by time and by full indexes, restarts in order and by SIGKILL in between."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from minibroker.records.any_format import split_batches
from minibroker.schemas import k00_produce, k02_list_offsets, k19_create_topics, k21_delete_records, k44_incremental_alter_configs
from minibroker.storage.checkpoint_file import LOG_START_OFFSET, OffsetCheckpoint
from minibroker.storage.files import RealFiles
from tests.differential.data import Operation
from tests.differential.log_data import AHEAD_MS, BY_AGE, DAY_MS, HOUR_MS, STAMPED, LogData
from tests.differential.run import Run
from tests.differential.twins import KAFKAS, OURS, SIDES, Twins
from tests.support.becoming import wait_until

SEGMENT_BYTES: Final = "segment.bytes"
#: Apache Kafka since 4.0 wants a megabyte at least, and keeps this one for its own tests
NAMES_IN_KAFKA: Final = {SEGMENT_BYTES: "internal.segment.bytes"}
LOG_TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "tiny": (2, {SEGMENT_BYTES: "500", "index.interval.bytes": "0"}),
    "middling": (2, {SEGMENT_BYTES: "3000", "index.interval.bytes": "200"}),
    "by-time": (1, {"segment.ms": str(HOUR_MS), "index.interval.bytes": "100"}),
    "by-index": (1, {"segment.index.bytes": "36", "index.interval.bytes": "60"}),
    STAMPED: (1, {SEGMENT_BYTES: "700", "message.timestamp.type": "LogAppendTime"}),
    "by-size": (1, {SEGMENT_BYTES: "500", "index.interval.bytes": "100"}),
    BY_AGE: (1, {SEGMENT_BYTES: "800", "index.interval.bytes": "0"}),
    "plain": (1, {}),
}
#: what is asked of a topic's retention three times in a run, and taken back; a day less than records may be old
RETENTION: Final = {"by-size": ("retention.bytes", "1500"), BY_AGE: ("retention.ms", str(2 * DAY_MS))}
WRITTEN_BEFORE: Final = 25  #: requests
#: what both brokers are started with: deletion and checkpoints do not wait for minutes
SETTINGS: Final = {
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "producer.id.expiration.ms": "2000000000",  # by the records' own timestamps in Apache Kafka, so 23 days
}


class Broker(Protocol):
    """What BrokerProcess and KafkaProcess have in common."""

    data_dir: Path

    def start(self) -> None:
        """On the same folder and port."""

    def stop(self) -> Any:
        """In order."""

    def kill(self) -> None:
        """SIGKILL."""


class LogRun(Run):
    """One seed's run."""

    def __init__(self, twins: Twins, seed: int, brokers: tuple[Broker, Broker], *, like_kafka: bool = False) -> None:
        super().__init__(twins, seed, like_kafka=like_kafka)
        self.brokers = brokers
        self.retired: Counter[str] = Counter()  #: segments that retention took
        twins.free |= {"leader_epoch"}
        self.data: LogData = LogData(self.random, twins, self.data.now_ms)
        twins.append_times_until_ms = self.data.now_ms + AHEAD_MS

    def run(self, count: int) -> None:
        """`count` operations in three parts, with a SIGKILL and a stop in order between them; at the end both are stopped."""
        for name, (partition_count, configs) in LOG_TOPICS.items():
            self._create(name, partition_count, configs)
        wait_until(self._has_producer, lambda: "producer ids")
        for part in range(3):
            while sum(self.counts.values()) < count * (part + 1) // 3:
                self._step()
            for name in RETENTION:
                self._retain(name)
            self._read_everything()
            self._compare_folders()
            self._stop(in_order=part > 0)
            if part < 2:
                self._start()
                self._new_producers()
                self._read_everything()

    def _step(self) -> None:
        steps = (self._produce, self._fetch, self._list_offsets, self._delete_records)
        self.random.choices(steps, (40, 35, 25, 4))[0]()

    def _create(self, name: str, partition_count: int, configs: dict[str, str]) -> None:
        def make(side: int) -> k19_create_topics.Request:
            named = {NAMES_IN_KAFKA.get(key, key) if side == KAFKAS else key: value for key, value in configs.items()}
            topic = k19_create_topics.Topic(
                name=name,
                num_partitions=partition_count,
                replication_factor=1,
                assignments=[],
                configs=[k19_create_topics.Config(name=key, value=value) for key, value in named.items()],
            )
            return k19_create_topics.Request(topics=[topic])

        answers = self.twins.ask(k19_create_topics, 4, make)
        self._created(make(OURS), answers)
        assert name in self.data.partitions, answers

    # -- what the model learns --------------------------------------------------------------------------------------

    def _produce(self) -> None:
        operation = self.data.produce()
        answers = self.compare(operation)
        if answers is None or not isinstance(answers[OURS], k00_produce.Response):
            return
        names = {ids[OURS]: name for name, ids in self.twins.topic_ids.items()}
        for topic in answers[OURS].responses:
            for result in topic.partition_responses:
                if result.error_code == 0:
                    key = topic.name or names[topic.topic_id], result.index
                    self.data.ends[key] = max(self.data.ends.get(key, 0), result.base_offset + 1)

    def _delete_records(self) -> None:
        answers = self.compare(self.data.delete_records())
        if answers is None or not isinstance(answers[OURS], k21_delete_records.Response):
            return
        for topic in answers[OURS].topics:
            for result in topic.partitions:
                if result.error_code == 0:
                    self.data.starts[topic.name, result.partition_index] = result.low_watermark

    def _list_offsets(self) -> None:
        operation = self.data.list_offsets()
        requests = [(topic.name, each.partition_index) for topic in operation.make(OURS).topics for each in topic.partitions]
        if any(self.data.starts.get(key) for key in requests):
            operation = operation._replace(note=f"behind the log start {operation.note}")
        self.compare(operation)

    # -- retention ----------------------------------------------------------------------------------------------------

    def _retain(self, name: str) -> None:
        """Write on, ask for less to be kept, and wait until both, which look ten times a second, have deleted what is due.

        That both have the same is not enough: so it is, too, before either has looked.
        """
        self.data.only = name
        for _ in range(WRITTEN_BEFORE):
            self._produce()
        config, value = RETENTION[name]
        folders = [broker.data_dir / f"{name}-0" for broker in self.brokers]
        before = segments(folders[OURS])
        self._configure(name, config, value)
        wait_until(
            lambda: (
                segments(folders[OURS]) == segments(folders[KAFKAS])
                and not any(is_first_due(folder, config, int(value)) for folder in folders)
                and len(set(self._log_starts(name))) == 1
            ),
            lambda: f"{config} of {name}: {[segments(folder) for folder in folders]}",
            timeout_s=60,
        )
        self.retired[name] += len(before.keys() - segments(folders[OURS]).keys())
        self.data.starts[name, 0] = self._offset_of(name, 0, -2) or 0
        for _ in range(10):
            self._list_offsets()
        self._configure(name, config, "-1")
        self.data.only = None

    def _log_starts(self, name: str) -> list[int]:
        """Ours and Kafka's of partition 0."""
        topic = k02_list_offsets.Topic(name=name, partitions=[k02_list_offsets.Partition(partition_index=0, timestamp=-2)])
        answers = self.twins.ask(k02_list_offsets, 5, lambda _: k02_list_offsets.Request(replica_id=-1, topics=[topic]))
        return [answer.topics[0].partitions[0].offset for answer in answers]

    def _configure(self, name: str, config: str, value: str) -> None:
        change = k44_incremental_alter_configs.Config(name=config, config_operation=0, value=value)
        resource = k44_incremental_alter_configs.Resource(resource_type=2, resource_name=name, configs=[change])
        request = k44_incremental_alter_configs.Request(resources=[resource], validate_only=False)
        self.compare(Operation(k44_incremental_alter_configs, 1, lambda _: request, note=f"{name} {config} {value}"))

    # -- everything, and the files ------------------------------------------------------------------------------------

    def _keys(self) -> list[tuple[str, int]]:
        return [(name, index) for name, count in sorted(self.data.partitions.items()) for index in range(count)]

    def _read_everything(self) -> None:
        """Every partition from its first to its last record, an answer at a time."""
        for name, index in self._keys():
            offset = self._offset_of(name, index, -2)
            end = self._offset_of(name, index, -1)
            while offset is not None and end is not None and offset < end:
                answers = self.compare(self.data.fetch_of(name, index, offset))
                assert answers is not None
                records = answers[OURS].responses[0].partitions[0].records
                batches = self.twins.batches(records, OURS)
                assert batches, f"{name}-{index}: nothing at {offset} below {end}"
                offset = batches[-1]["base_offset"] + batches[-1]["last_offset_delta"] + 1

    def _offset_of(self, name: str, index: int, timestamp: int) -> int | None:
        partition = k02_list_offsets.Partition(partition_index=index, timestamp=timestamp)
        operation: Operation = self.data.list_offsets_of([k02_list_offsets.Topic(name=name, partitions=[partition])])
        answers = self.compare(operation)
        return None if answers is None else answers[OURS].topics[0].partitions[0].offset

    def _compare_folders(self) -> None:
        """The same segments, from the one that holds the log start on: those below are deleted by each in its own time."""
        for name, index in self._keys():
            start = self.data.starts.get((name, index), 0)
            ours, kafkas = (kept_segments(broker.data_dir / f"{name}-{index}", start) for broker in self.brokers)
            if ours != kafkas:
                self.found.append(f"segments of {name}-{index} from {start} on: ours {ours}, Kafka's {kafkas}")

    def _stop(self, *, in_order: bool) -> None:
        """Both brokers. After a stop in order the indexes that they leave are the same, byte for byte."""
        wait_until(self._starts_are_saved, lambda: "log start offsets in the checkpoints")
        for side in SIDES:
            self.twins.peers[side].close()
            if in_order:
                self.brokers[side].stop()
            else:
                self.brokers[side].kill()
        if in_order:
            self._compare_indexes()

    def _start(self) -> None:
        for broker in self.brokers:
            broker.start()
        for name, count in self.data.partitions.items():
            wait_until(lambda name=name, count=count: self._has_logs(name, count), lambda: "logs after a restart")  # type: ignore[misc]

    def _new_producers(self) -> None:
        """Of those that wrote before a crash we recognise the last five batches, Apache Kafka the last one."""
        self.data.producers.clear()
        wait_until(self._has_producer, lambda: "producer ids")

    def _starts_are_saved(self) -> bool:
        for broker in self.brokers:
            saved = OffsetCheckpoint(RealFiles(), str(broker.data_dir / LOG_START_OFFSET)).read()
            for name, index in self._keys():
                first = min(segments(broker.data_dir / f"{name}-{index}"))
                if max(saved.get((name, index), 0), first) < self.data.starts.get((name, index), 0):
                    return False
        return True

    def _compare_indexes(self) -> None:
        for name, index in self._keys():
            ours, kafkas = (index_files(broker.data_dir / f"{name}-{index}") for broker in self.brokers)
            first = max(min(int(file[:20]) for file in files) for files in (ours, kafkas))
            for file in sorted(ours.keys() | kafkas.keys()):
                if name != STAMPED and int(file[:20]) >= first and ours.get(file) != kafkas.get(file):
                    self.found.append(f"{name}-{index}/{file}: {ours.get(file)!r} and {kafkas.get(file)!r}")


def segments(folder: Path) -> dict[int, int]:
    """Base offset and size of every `.log`."""
    found = {}
    for path in folder.glob("*.log"):
        with suppress(FileNotFoundError):  # deleted meanwhile
            found[int(path.name[:20])] = path.stat().st_size
    return found


def is_first_due(folder: Path, config: str, value: int) -> bool:
    """Whether retention has a segment to delete. If not, the log is within the limits of size and age."""
    sizes = segments(folder)
    first = min(sizes, default=None)
    if first is None:
        return True  # between the last one and a new one
    if config == "retention.bytes":
        return sum(sizes.values()) - sizes[first] >= value
    try:
        data = (folder / f"{first:020}.log").read_bytes()
    except FileNotFoundError:  # deleted meanwhile
        return True
    newest_ms = max((batch.max_timestamp for batch in split_batches(data, allow_partial=True)), default=None)
    return newest_ms is not None and newest_ms < time.time() * 1000 - value


def kept_segments(folder: Path, start: int) -> dict[int, int]:
    """Those that hold records at or above `start`, and the last one."""
    found = segments(folder)
    first = max((base_offset for base_offset in found if base_offset <= start), default=0)
    return {base_offset: size for base_offset, size in sorted(found.items()) if base_offset >= first}


def index_files(folder: Path) -> dict[str, bytes]:
    """What must be the same on both sides."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in {".index", ".timeindex", ".txnindex"}}
