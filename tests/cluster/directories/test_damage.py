"""FAULTS 1 to 6, file by file: every file of a data directory is damaged in every way, one at a time, and the broker is opened.

A run damages every third file in each way, others for each way and each time: CRASH_SEED repeats a run, MINIBROKER_SOAK=1 tries all.

Either it refuses with one line that names a file of the whole broker (metadata log, quorum-state, meta.properties, .lock), or it starts,
and then every partition but the one whose file was hit is what it was. The one that was hit is offline with an error in the log, or it
serves; and what it serves is what was written, or a batch whose CRC is wrong, or ends early with a warning. A second start agrees with
the first, and appends go on. A reader of committed records never gets an aborted one, nor one of an open transaction, as long as the
batches themselves are whole: but for a flipped bit in `.txnindex`, which nothing sums, and which `storage check` finds.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError, KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.compression import Compression
from minibroker.records.legacy import build_message_set
from minibroker.records.record import Record
from minibroker.storage.checkpoint_file import LOG_START_OFFSET
from minibroker.storage.directory_files import CLEAN_SHUTDOWN
from minibroker.storage.files import RealFiles
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.log_batches import batch_of
from tests.support.soak import first_of, stride
from tests.support.transactional_logs import committed_values
from tests.support.transactional_logs import fill as fill_with_transactions

CONFIG = {"log.segment.bytes": "1100", "log.index.interval.bytes": "150"}
OF_THE_BROKER = ("__cluster_metadata-0/", "meta.properties", ".lock")
TRANSACTIONAL = "payments"
EVERY = stride(3)  #: that many-th file is damaged
UNLUCKY = 2  #: random flips of each file

Values = dict[int, bytes | None]
Contents = dict[str, tuple[UUID, dict[str, str], tuple[Values, bool], int]]
Damage = Callable[[bytes], bytes | None]


def flips(seed: int) -> Damage:
    def flip(data: bytes) -> bytes:
        rng = random.Random(f"{seed} {len(data)}")
        changed = bytearray(data or b"\0")
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)

    return flip


def first_byte(data: bytes) -> bytes:
    return bytes([(data[0] if data else 0) ^ 0x80]) + data[1:]


DAMAGES: dict[str, Damage] = {
    "removed": lambda _: None,
    "emptied": lambda _: b"",
    "one byte short": lambda data: data[:-1],
    "half": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data) or 7),
    "zeros behind": lambda data: data + bytes(300),
    "garbage": lambda data: random.Random(1).randbytes(len(data) or 7),
    "garbage behind": lambda data: data + random.Random(2).randbytes(300),
    "digits": lambda _: b"9" * 5000,
    "doubled": lambda data: data + data,
    "first byte": first_byte,
    **{f"flip {seed}": flips(seed) for seed in range(UNLUCKY)},
}


class Unsynced(RealFiles):
    """Nobody pulls the plug here: thousands of syncs would take most of the time."""

    def sync(self, descriptor: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass


def opened(folder: Path) -> Cluster:
    config = BrokerConfig({"log.dirs": str(folder), "listeners": "PLAINTEXT://localhost:9092"} | CONFIG)
    return Cluster.open(config, Unsynced(), ManualClock(), InlineBackground())


def fill(folder: Path, *, clean: bool) -> None:
    """Two partitions in several segments, one with deleted records, a configured topic, one that was deleted and made again, one of old.

    And one with transactions: committed, aborted, open.
    """
    topics = {"orders": 2, "again": 1, "few": 1, "old": 1, TRANSACTIONAL: 1}
    broker = BrokerInMemory(topics=topics, folder=folder, config=CONFIG)
    producer_id = broker.cluster.metadata.allocate_producer_id()
    for turn in range(7):
        for index in range(2):
            values = [b"%d %d %d" % (index, turn, each) * 9 for each in range(3)]
            timestamp = ManualClock().now_ms() + turn
            batch = batch_of(*values, timestamp=timestamp, producer_id=producer_id, producer_epoch=0, base_sequence=turn * 3)
            broker.append("orders", index, bytes(batch))
    broker.cluster.partition("orders", 1).advance_log_start_offset(13)
    broker.append("few", 0, records(5))
    broker.cluster.delete_topic("again")
    broker.cluster.create_topic("again", partition_count=1, configs={"segment.bytes": "500"})
    broker.append("again", 0, records(4))
    broker.clock.advance(60_000)
    broker.append("few", 0, records(5))
    fill_with_transactions(broker.cluster.partition(TRANSACTIONAL, 0).log, 5, count=22)
    broker.cluster.close(clean=clean)
    put_old_messages(folder / "old-0")
    (folder / CLEAN_SHUTDOWN).unlink(missing_ok=True)  # what follows makes their indexes
    opened(folder).close(clean=True)
    if not clean:
        (folder / CLEAN_SHUTDOWN).unlink()


def put_old_messages(folder: Path) -> None:
    """Two segments of formats v0 and v1, plain and compressed, in place of the empty one."""
    for path in folder.glob("0*"):
        path.unlink()
    offset = 0
    for _ in range(2):
        base_offset, data = offset, bytearray()
        for magic, codec in ((0, Compression.NONE), (1, Compression.GZIP), (0, Compression.LZ4), (1, Compression.NONE)):
            found = [Record(offset + each, ManualClock().now_ms() if magic else -1, b"k", b"old %d " % each * 9) for each in range(3)]
            data += build_message_set(found, magic, compression=codec)
            offset += 3
        (folder / f"{base_offset:020}.log").write_bytes(data)


def values_of(log: PartitionLog) -> tuple[Values, bool]:
    """What a patient consumer gets, who skips batches whose CRC is wrong; and whether it met anything wrong."""
    values: Values = {}
    is_whole = True
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            batches = list(split_batches(log.read(offset, 1 << 20, isolation=IsolationLevel.READ_UNCOMMITTED), allow_partial=True))
        except KafkaError:
            return values, False
        if not batches or batches[-1].next_offset <= offset:
            return values, False
        for batch in batches:
            if not batch.check_crc() or not batch.base_offset <= offset <= batch.last_offset:  # no CRC is over the base offset
                is_whole = False
            else:
                values |= {record.offset: record.value for record in decode_records(batch) if record.offset >= log.log_start_offset}
            offset = max(offset, batch.next_offset)
    return values, is_whole


def contents(cluster: Cluster) -> Contents:
    """What must not change of partitions that were not hit."""
    return {
        f"{name}-{partition.index}": (topic.topic_id, dict(topic.config), values_of(partition.online_log), partition.log.log_end_offset)
        for name, topic in cluster.topics.items()
        for partition in topic.partitions
        if partition.online_log is not None
    }


def committed(cluster: Cluster) -> tuple[dict[int, bytes | None], int]:
    """What a reader of committed records gets of the transactions, and how far."""
    log = cluster.partition(TRANSACTIONAL, 0).log
    return committed_values(log, 0, 700), log.last_stable_offset


@pytest.fixture(scope="module", params=["stopped", "killed"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Contents, object]:
    """A directory as a broker left it, what is in it, and what of it is committed."""
    folder = tmp_path_factory.mktemp(request.param)
    fill(folder / "data", clean=request.param == "stopped")
    shutil.copytree(folder / "data", folder / "copy")
    cluster = opened(folder / "copy")
    found, of_transactions = contents(cluster), committed(cluster)
    cluster.close(clean=False)
    return folder / "data", found, of_transactions


def damaged(folder: Path, damage: Damage, place: Path) -> Iterator[tuple[str, Path]]:
    """One copy after the other, each with another file damaged."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file())[first_of(EVERY) :: EVERY]:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place)
        name = str(file.relative_to(folder))
        after = damage(file.read_bytes())
        if after is None:
            (place / name).unlink()
        else:
            (place / name).write_bytes(after)
        yield name, place


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_to_every_file(kind: str, original: tuple[Path, Contents, object], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, before, of_transactions = original
    caplog.set_level(logging.WARNING)
    for name, place in damaged(folder, DAMAGES[kind], tmp_path / "data"):
        caplog.clear()
        try:
            cluster = opened(place)
        except ConfigurationError as error:
            check_refusal(name, str(error))
            continue
        after = contents(cluster)
        hit = name.partition("/")[0]
        if name == LOG_START_OFFSET:
            check_log_starts(before, after)
        elif not name.startswith("__cluster_metadata-0/"):
            assert {partition: after.get(partition) for partition in before if partition != hit} == {
                partition: found for partition, found in before.items() if partition != hit
            }, name
        elif after != before:
            assert caplog.records, f"{name}: topics changed without a word"
        check_hit(name, hit, before, after, cluster, caplog)
        is_told = name.endswith((".log", LOG_START_OFFSET)) or (name.endswith(".txnindex") and kind.startswith("flip"))
        if not is_told and f"{TRANSACTIONAL}-0" in after:
            assert committed(cluster) == of_transactions, name
        go_on(name, cluster, place)


def check_refusal(name: str, line: str) -> None:
    assert name.startswith(OF_THE_BROKER), f"{name} stops the broker: {line}"
    assert "\n" not in line, name
    assert name.rpartition("/")[2].split("0000")[0] in line, f"{name}: {line}"


def check_log_starts(before: Contents, after: Contents) -> None:
    """Plain text without a CRC: it can hide records or bring deleted ones back, but not change or lose any."""
    assert before.keys() == after.keys()
    for partition in before:
        topic_id, config, (written, _), written_end = before[partition]
        other_id, other_config, (read, is_whole), read_end = after[partition]
        assert (topic_id, config, written_end, is_whole) == (other_id, other_config, read_end, True)
        assert all(read[offset] == written[offset] for offset in read.keys() & written.keys())


def check_hit(name: str, hit: str, before: Contents, after: Contents, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    if hit not in before:
        return
    if hit not in after:
        assert any(record.levelno >= logging.ERROR and hit in record.getMessage() for record in caplog.records), f"{name}: offline, unsaid"
        return
    (_, _, (written, _), written_end), (_, _, (read, is_whole), read_end) = before[hit], after[hit]
    for offset, value in read.items():
        assert written.get(offset, value) == value, f"{name}: another value at {offset}"
    assert read_end <= written_end, f"{name}: ends at {read_end} instead of {written_end}"
    was_clean = cluster.log_directories[0].was_clean
    if not was_clean and name == newest_segment(hit, cluster) and [*written.items()][: len(read)] == [*read.items()]:
        return  # cut between two batches that nobody had synced yet: there is no trace of them
    if (written, written_end) != (read, read_end):
        assert caplog.records or not is_whole, f"{name}: {len(written)} records became {len(read)} without a word"


def newest_segment(partition: str, cluster: Cluster) -> str:
    topic, _, index = partition.rpartition("-")
    return f"{partition}/{cluster.partition(topic, int(index)).log.segments.active.base_offset:020d}.log"


def go_on(name: str, cluster: Cluster, place: Path) -> None:
    """Append to all, stop, start: everything is as it was left."""
    for topic in cluster.topics.values():
        for partition in topic.partitions:
            if partition.online_log is not None:
                end_offset = partition.log.log_end_offset
                assert partition.append(batch_of(b"more")).base_offset == end_offset, name
    left = contents(cluster)
    cluster.create_topic("new", partition_count=1)
    cluster.close(clean=True)
    again = opened(place)
    found = contents(again)
    again.close(clean=False)
    del found["new-0"]
    assert found == left, name
