"""Apache Kafka's cleaner and ours over the same log: the same records, headers without records and markers stay, round after round."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from minibroker.clock import ManualClock
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.record import Record
from minibroker.storage.files import RealFiles
from minibroker.storage.transaction_index import TransactionIndex
from tests.support import java
from tests.support.becoming import wait_until
from tests.support.kafka_process import KafkaProcess

TOPIC = "prices"
KEYS = [b"%d" % number * 8 for number in range(40)]
SEGMENT_BYTES = 1024 * 1024  # the least that Kafka takes
CLEANER = {"log.cleaner.backoff.ms": "100", "producer.id.expiration.ms": "86400000", "log.retention.check.interval.ms": "1000000"}
FOREVER = str(10**15)
PAUSED = {"cleanup.policy": "compact", "min.compaction.lag.ms": FOREVER, "segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
WAIT_S = 120.0


class Kept(NamedTuple):
    """What a cleaner left of one batch; where the horizon lies depends on when it ran."""

    base_offset: int
    last_offset: int
    attributes: int
    producer: tuple[int, int, int]
    leader_epoch: int
    max_timestamp: int
    records: list[Record]


def produce(bootstrap: str, rng: random.Random) -> None:
    """Six megabytes: all codecs, tombstones, transactions that end either way, and producers whose last batch is of no use any more."""
    from tests.support.confluent import Producer

    now_ms = int(time.time() * 1000)  # Kafka forgets producers by the times of their records, and then what they left
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5})
        for number in range(400):
            value = None if rng.random() < 0.1 else rng.randbytes(rng.randrange(2000))
            producer.produce(TOPIC, value, rng.choice(KEYS), headers=[("codec", codec)], timestamp=now_ms + number)
            if rng.random() < 0.1:
                producer.flush()
        assert producer.flush(60) == 0
    for name in ("first", "second"):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 5})
        producer.init_transactions(30)
        for number in range(30):
            producer.begin_transaction()
            for _ in range(rng.randrange(1, 60)):
                producer.produce(TOPIC, None if rng.random() < 0.1 else rng.randbytes(rng.randrange(1500)), rng.choice(KEYS[:30]))
            producer.flush(60)
            (producer.abort_transaction if number % 3 == 0 else producer.commit_transaction)(30)
    roll(bootstrap)


def roll(bootstrap: str) -> None:
    """Fill a segment with keys that nobody else uses: only what lies below it is compacted."""
    from tests.support.confluent import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(1400):
        producer.produce(TOPIC, b"x" * 1000, b"filler %d" % number)
    assert producer.flush(60) == 0


def alter(bootstrap: str, **configs: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    entries = [ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(timeout=60)


def cleaned_to(data_dir: Path) -> int:
    """How far Kafka's cleaner says that it came; -1 when it does not."""
    checkpoint = data_dir / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().split("\n") if checkpoint.exists() else []
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} ")), -1)


def segments_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def kept_in(paths: list[Path], end_offset: int) -> Iterator[Kept]:
    for path in paths:
        for batch in split_batches(path.read_bytes()):
            if batch.base_offset < end_offset:
                assert batch.check_crc()
                producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
                records = list(decode_records(batch))
                attributes = batch.attributes
                offsets = batch.base_offset, batch.last_offset
                yield Kept(*offsets, attributes, producer, batch.partition_leader_epoch, batch.max_timestamp, records)


def aborted_in(folder: Path) -> list[Any]:
    indexes = [TransactionIndex(RealFiles(), str(path)) for path in sorted(folder.glob("*.txnindex"))]
    return [entry for index in indexes for entry in index.entries]


def compact_ours(folder: Path, first_dirty_offset: int, now_ms: int, delete_retention_ms: int) -> int:
    """Compact a copy; the next dirty offset."""
    config = LogConfig(
        segment_bytes=SEGMENT_BYTES,
        cleanup_policy=frozenset({"compact"}),
        delete_retention_ms=delete_retention_ms,
        file_delete_delay_ms=0,
    )
    log = PartitionLog.open(folder, config=config, files=RealFiles(), clock=ManualClock(start_ms=now_ms), clean_shutdown=True)
    plan = log.compaction.plan(first_dirty_offset, now_ms, offset_map_bytes=10_000_000)
    assert plan is not None
    compacted = plan.run(RealFiles())
    assert log.compaction.swap_in(compacted)
    log.close()
    return compacted.next_dirty_offset


def compare(ours: Path, theirs: Path, end_offset: int) -> list[Kept]:
    """Both came to the same; also DumpLogSegments finds nothing wrong with ours."""
    left, right = (list(kept_in(segments_of(folder), end_offset)) for folder in (ours, theirs))
    for mine, other in zip(left, right, strict=False):
        assert mine == other
    assert len(left) == len(right)
    assert aborted_in(ours) == aborted_in(theirs)
    check_files(ours)
    return left


def check_files(folder: Path) -> None:
    """DumpLogSegments finds nothing wrong, but what it says of Kafka's own: a header without records has a timestamp, no record has."""
    said = java.run_tool(java.DUMP_LOG_SEGMENTS, "--files", ",".join(str(path) for path in files_of(folder)), with_stderr=True)
    assert said.count("Index timestamp: ") == len(re.findall(r"Index timestamp: \d+, log timestamp: -1\n", said))
    said = re.sub(r"Found timestamp mismatch in :.*\n", "", said)
    assert not re.search(r"mismatch|isvalid: false|Exception|Found|out of order", said)


def files_of(folder: Path) -> list[Path]:
    return [*segments_of(folder), *sorted(folder.glob("*.*index"))]


@pytest.mark.timeout(600)
def test_the_same_is_left_as_apache_kafka_leaves(tmp_path: Path) -> None:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    seed = random.randrange(2**32)
    print(f"seed {seed}")
    with KafkaProcess(tmp_path, settings=CLEANER) as kafka:
        theirs = kafka.data_dir / f"{TOPIC}-0"
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=PAUSED)])[TOPIC].result(timeout=60)
        produce(kafka.bootstrap, random.Random(seed))
        first_dirty_offset = 0
        for turn, delete_retention_ms in enumerate((3_600_000, 0, 0)):
            kafka.stop()
            ours = tmp_path / str(turn) / f"{TOPIC}-0"
            shutil.copytree(theirs, ours)
            kafka.start()
            options = {"min_compaction_lag_ms": "0", "min_cleanable_dirty_ratio": "0.001", "delete_retention_ms": str(delete_retention_ms)}
            alter(kafka.bootstrap, **options)
            wait_until(lambda: cleaned_to(kafka.data_dir) > first_dirty_offset, "compaction", WAIT_S)  # noqa: B023  called before the loop goes on
            alter(kafka.bootstrap, min_compaction_lag_ms=FOREVER)
            end_offset = compact_ours(ours, max(first_dirty_offset, 0), int(time.time() * 1000), delete_retention_ms)
            assert end_offset == cleaned_to(kafka.data_dir)
            kept = compare(ours, theirs, end_offset)
            assert kept
            first_dirty_offset = end_offset
            roll(kafka.bootstrap)
        kafka.stop()
