"""`storage check` on what Apache Kafka leaves: transactions, compaction, every codec, rolled segments; after a stop, a SIGKILL, damage.

It must cry over nothing that Kafka writes. Then the damage that it finds in one of ours it finds here as well.
"""

from __future__ import annotations

import random
import shutil
import time
from itertools import accumulate, pairwise
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import pytest
from confluent_kafka.admin import NewTopic

from minibroker.cluster.directories.storage_checking import StorageCheck
from minibroker.log.findings import ERROR, Finding
from minibroker.log.segment_checking import check_segment
from minibroker.records.any_format import split_batches
from minibroker.records.batch import RecordBatch
from minibroker.storage.files import RealFiles
from tests.support.confluent import AdminClient, Producer
from tests.support.kafka_process import KafkaProcess

SMALL = {"segment.bytes": "1048576"}
COMPACTED = SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "500"}
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "500"}
CLEANED_WITHIN_S = 60.0


class Directories(NamedTuple):
    """One data directory at two moments."""

    stopped: Path
    killed: Path


def fill(bootstrap: str) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec, "linger.ms": 5})
        for number in range(600):
            value = random.Random(number).randbytes(700)
            producer.produce("plain", value, key=str(number))
            producer.produce("compacted", value, key=str(number % 20))
            producer.poll(0)
            if number % 100 == 0:
                producer.flush()
        assert producer.flush(60) == 0
    transact(bootstrap)


def transact(bootstrap: str) -> None:
    """Three producers whose transactions lie across each other; some are aborted, the last one stays open."""
    producers = [Producer({"bootstrap.servers": bootstrap, "transactional.id": f"id-{number}"}) for number in range(3)]
    for producer in producers:
        producer.init_transactions()
    for turn in range(12):
        for producer in producers:
            producer.begin_transaction()
        for number in range(6):
            for producer in producers:
                producer.produce("transactional", b"x" * 9000, partition=number % 2)
                producer.produce("compacted", b"x" * 100, key=str(number))
        for number, producer in enumerate(producers):
            producer.flush()
            (producer.commit_transaction if (turn + number) % 3 else producer.abort_transaction)()
    producers[0].begin_transaction()
    producers[0].produce("transactional", b"open", partition=0)
    producers[0].flush()


def wait_until_cleaned(data_dir: Path) -> None:
    deadline = time.monotonic() + CLEANED_WITHIN_S
    checkpoint = data_dir / "cleaner-offset-checkpoint"
    while not (checkpoint.exists() and "compacted 0" in checkpoint.read_text()):
        assert time.monotonic() < deadline, "Kafka compacted nothing"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Directories:
    folder = tmp_path_factory.mktemp("kafka")
    saved = Directories(folder / "stopped", folder / "killed")
    with KafkaProcess(folder, settings=SETTINGS) as kafka:
        topics = [
            NewTopic("plain", 2, config=SMALL),
            NewTopic("transactional", 2, config=SMALL),
            NewTopic("compacted", 1, config=COMPACTED),
        ]
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for made in admin.create_topics(topics).values():
            made.result(60)
        fill(kafka.bootstrap)
        wait_until_cleaned(kafka.data_dir)
        kafka.stop()
        shutil.copytree(kafka.data_dir, saved.stopped)
        kafka.start()
        fill(kafka.bootstrap)
        kafka.kill()
        kafka.data_dir.rename(saved.killed)
    return saved


def check(*paths: Path) -> list[Finding]:
    work = StorageCheck(RealFiles(), [str(path) for path in paths], deep=True)
    work.plan()
    assert len(work.tasks) > 5
    for task in work.tasks:
        work.done(task.directory, check_segment(RealFiles(), task))
    return work.finish()


def test_nothing_is_wrong_after_a_stop(directories: Directories) -> None:
    segments = list(directories.stopped.glob("plain-*/*.log"))
    assert len(segments) > 2
    assert list(directories.stopped.glob("transactional-*/*.txnindex"))
    assert check(directories.stopped) == []


def test_nothing_is_damaged_after_a_kill(directories: Directories) -> None:
    assert [finding for finding in check(directories.killed) if finding.severity == ERROR] == []


def batches_of(path: Path) -> dict[int, RecordBatch]:
    """By position."""
    batches = [*split_batches(path.read_bytes())]
    begins = accumulate((batch.size for batch in batches), initial=0)
    return dict(zip(begins, batches, strict=False))


def is_true(path: Path, index: bytes) -> bool:
    """Whether an index, of offsets or of times, says what holds: a batch has several offsets, and several batches have one timestamp."""
    base_offset, batches = int(path.name[:20]), batches_of(path.with_suffix(".log"))
    layout = Struct(">qI" if path.suffix == ".timeindex" else ">II")
    entries = [*layout.iter_unpack(index)]
    if any(one[0] >= two[0] or one[1] >= two[1] for one, two in pairwise(entries)):
        return False
    if path.suffix == ".index":
        ends = [batch.last_offset for batch in batches.values()]
        return all(at in batches and base_offset + end in ends and base_offset + end >= batches[at].last_offset for end, at in entries)
    largest = list(accumulate((batch.max_timestamp for batch in batches.values()), max))
    for timestamp, offset in entries:
        holding = [
            batch.max_timestamp == timestamp == so_far
            for batch, so_far in zip(batches.values(), largest, strict=True)
            if batch.base_offset <= base_offset + offset <= batch.last_offset
        ]
        if holding != [True]:
            return False
    return not entries or entries[-1][0] == largest[-1]


def is_harmless(path: Path, position: int, damaged: bytes) -> bool:
    """What there is nothing to be found of: an index that is as true as before, and what means nothing in a snapshot of metadata."""
    if path.suffix == ".checkpoint":  # base offset and leader epoch of a batch, which its CRC does not cover
        begins = max(begin for begin in batches_of(path) if begin <= position)
        return not (8 <= position - begins < 12 or position - begins >= 16)
    return path.suffix in {".index", ".timeindex"} and is_true(path, damaged)


@pytest.mark.parametrize(
    "pattern", ["*/*.log", "*/*.index", "*/*.timeindex", "transactional-*/*.txnindex", "*/*.snapshot", "*/*.checkpoint"]
)
def test_a_flipped_bit_is_found(pattern: str, directories: Directories) -> None:
    rng = random.Random(pattern)
    paths = sorted(path for path in directories.stopped.glob(pattern) if path.stat().st_size)
    count = 0
    while count < 8:
        path = rng.choice(paths)
        data = path.read_bytes()
        damaged = bytearray(data)
        position = rng.randrange(len(data))
        damaged[position] ^= 1 << rng.randrange(8)
        if is_harmless(path, position, bytes(damaged)):
            continue
        count += 1
        path.write_bytes(damaged)
        try:
            found = check(directories.stopped)
        finally:
            path.write_bytes(data)
        assert found, f"{path}: byte {position} was {data[position]}, is {damaged[position]}"


def test_indexes_of_kafka_are_true(directories: Directories) -> None:
    """As they are, and with most of their bits flipped they are not: what is passed over above is little."""
    rng, harmless = random.Random(1), 0
    paths = [path for path in directories.stopped.glob("*/*index") if path.suffix in {".index", ".timeindex"} and path.stat().st_size]
    for path in paths:
        data = path.read_bytes()
        assert is_true(path, data)
        for _ in range(20):
            damaged = bytearray(data)
            damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            harmless += is_true(path, bytes(damaged))
    assert harmless < 20 * len(paths) // 4
