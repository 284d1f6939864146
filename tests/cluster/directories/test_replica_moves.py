"""Moving partitions between log directories while they are used, with the process or the power going at each change of the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from types import MappingProxyType

import pytest

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import InvalidTopicException, KafkaStorageError, LogDirNotFound, OutOfOrderSequenceNumber, UnknownTopicOrPartition
from minibroker.log.copying import LogCopy
from minibroker.log.partition_log import PartitionLog
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.storage.files import RealFiles
from tests.cluster.crashing import Died, DoomedFiles, MortalFiles, bury
from tests.support.faulty_files import FaultyFiles
from tests.support.log_batches import batch_of, idempotent_batch, read_values
from tests.support.losing_files import Loss
from tests.support.opcodes import count_opcodes
from tests.support.soak import first_of, stride

STRIDE = stride(7)
SLOW = {"replica.alter.log.dirs.io.max.bytes.per.second": "150"}  #: a piece a second


def start(folder: Path, files: RealFiles | None = None, config: Mapping[str, str] = MappingProxyType({})) -> Cluster:
    """A broker without sockets with the directories `a` and `b`, of which `a` has the metadata log."""
    settings = {
        "log.dirs": f"{folder / 'a'},{folder / 'b'}",
        "listeners": "PLAINTEXT://localhost:9092",
        "log.index.interval.bytes": "1",
        "log.segment.delete.delay.ms": "1000",
        "log.cleaner.backoff.ms": "100000",
    }
    return Cluster.open(
        BrokerConfig({**settings, **config}),
        RealFiles() if files is None else files,
        ManualClock(),
        InlineBackground(),
    )


def advance(cluster: Cluster, milliseconds: int) -> None:
    assert isinstance(cluster.clock, ManualClock)
    cluster.clock.advance(milliseconds)


def log_of(cluster: Cluster, topic: str = "orders") -> PartitionLog:
    return cluster.partition(topic, 0).log


def create(cluster: Cluster, topic: str = "orders", **configs: str) -> None:
    """A topic of one partition in `a`; producers 0 to 9 have their ids."""
    cluster.metadata.skip_producer_ids(10)
    with pytest.raises(UnknownTopicOrPartition):
        cluster.move_replica(topic, 0, cluster.log_directories[0].absolute_path)
    cluster.create_topic(topic, partition_count=1, configs={name.replace("_", "."): value for name, value in configs.items()})
    assert homes(cluster, topic) == ["a"]


def homes(cluster: Cluster, topic: str = "orders") -> list[str]:
    """In which directories the partition is served from, and is on the disk."""
    found = [each.path.rpartition("/")[2] for each in cluster.log_directories if (topic, 0) in each.logs]
    assert found == [each.path.rpartition("/")[2] for each in cluster.log_directories if Path(each.path, f"{topic}-0").is_dir()]
    return found


def move(cluster: Cluster, to: str, topic: str = "orders") -> None:
    directory = next(each for each in cluster.log_directories if each.path.endswith(f"/{to}"))
    cluster.move_replica(topic, 0, directory.absolute_path)


def futures(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Of each directory with a copy: bytes, and offsets that are missing."""
    return {
        each.path.rpartition("/")[2]: (copy.size, copy.log.log_end_offset - copy.end_offset)
        for each in cluster.log_directories
        for copy in cluster.logs.future_logs(each).values()
    }


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.endswith(("-delete", "-future", "-stray", ".deleted", ".tmp"))]


def test_partition_moves_during_produce_and_fetch(tmp_path: Path) -> None:
    cluster = start(tmp_path, config=SLOW)
    create(cluster, segment_bytes="300", file_delete_delay_ms="1000")
    partition, log = cluster.partition("orders", 0), log_of(cluster)
    values = [b"%d" % number * 30 for number in range(40)]
    for number in range(8):
        partition.append(idempotent_batch(7, number, values[number]))

    move(cluster, "b")
    seen = []
    for number in range(8, 20):
        seen.append(futures(cluster))
        partition.append(idempotent_batch(7, number, values[number]))
        assert list(read_values(log).values()) == values[: number + 1]
        advance(cluster, 1_000)
    assert homes(cluster) == ["a"]
    assert seen[0] == {"b": (0, 8)}
    assert all(first["b"][0] < later["b"][0] for first, later in pairwise(seen) if later)
    while futures(cluster):
        advance(cluster, 1_000)

    assert homes(cluster) == ["b"]
    assert partition.log is log  # who holds the log, holds it still
    assert partition.directory_id == cluster.log_directories[1].directory_id
    for number in range(20, 30):
        partition.append(idempotent_batch(7, number, values[number]))
    with pytest.raises(OutOfOrderSequenceNumber):
        partition.append(idempotent_batch(7, 99, b"x"))
    assert list(read_values(log).values()) == values[:30]
    advance(cluster, 2_000)
    assert leftovers(tmp_path) == []
    for clean in (True, False):
        cluster.close(clean=clean)
        cluster = start(tmp_path)
        assert homes(cluster) == ["b"]
        assert list(read_values(log_of(cluster)).values()) == values[:30]
        assert cluster.partition("orders", 0).append(idempotent_batch(7, 29, values[29])).duplicate
    cluster.close()


def test_repeated_moves_between_directories(tmp_path: Path) -> None:
    cluster = start(tmp_path)
    create(cluster, segment_bytes="200")
    for number in range(10):
        cluster.partition("orders", 0).append(batch_of(b"%d" % number * 60))
        move(cluster, "ba"[number % 2])
        advance(cluster, 2_000)
        assert homes(cluster) == ["ba"[number % 2]]
    assert len(read_values(log_of(cluster))) == 10
    cluster.close(clean=False)
    cluster = start(tmp_path)
    assert homes(cluster) == ["a"]
    assert len(read_values(log_of(cluster))) == 10
    assert leftovers(tmp_path) == []
    cluster.close()


def test_open_and_aborted_transactions_survive_a_move(tmp_path: Path) -> None:
    cluster = start(tmp_path, config=SLOW)
    create(cluster, segment_bytes="400")
    partition, log = cluster.partition("orders", 0), log_of(cluster)

    def end(kind: ControlType, producer_id: int) -> None:
        partition.end_transaction(EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, transaction_version=1)

    partition.append(idempotent_batch(1, 0, b"aborted" * 9, is_transactional=True))
    end(ControlType.ABORT, 1)
    partition.append(idempotent_batch(2, 0, b"open" * 9, is_transactional=True))
    move(cluster, "b")
    advance(cluster, 1_000)
    partition.append(idempotent_batch(3, 0, b"aborted meanwhile" * 9, is_transactional=True))
    end(ControlType.ABORT, 3)
    while futures(cluster):
        advance(cluster, 1_000)
    assert homes(cluster) == ["b"]
    assert log.last_stable_offset == 2
    end(ControlType.ABORT, 2)
    found = log.aborted_transactions(0, log.log_end_offset)
    cluster.close(clean=False)
    cluster = start(tmp_path)
    assert log_of(cluster).aborted_transactions(0, log.log_end_offset) == found
    assert [each.first_offset for each in found] == [0, 3, 2]
    assert log_of(cluster).last_stable_offset == log.log_end_offset
    cluster.close()


def test_retention_and_deleted_records_continue_during_a_move(tmp_path: Path) -> None:
    cluster = start(tmp_path, config=SLOW)
    create(cluster, segment_bytes="200")
    partition, log = cluster.partition("orders", 0), log_of(cluster)
    for number in range(10):
        partition.append(batch_of(b"%d" % number * 60))
    move(cluster, "b")
    advance(cluster, 3_000)
    partition.advance_log_start_offset(5)  # copied and not copied segments
    while futures(cluster):
        advance(cluster, 1_000)
        if log.log_start_offset == 5:
            cluster.configs.alter_topic("orders", {"segment.bytes": "200", "retention.bytes": "250"})
    partition.append(batch_of(b"ten"))
    partition.advance_log_start_offset(log.log_end_offset - 1)
    start_offset = log.log_start_offset
    advance(cluster, 100_000)
    move(cluster, "a")
    advance(cluster, 100_000)
    assert homes(cluster) == ["a"]
    assert (log.log_start_offset, read_values(log)) == (start_offset, {10: b"ten"})
    cluster.close(clean=False)
    cluster = start(tmp_path)
    assert (log_of(cluster).log_start_offset, read_values(log_of(cluster))) == (start_offset, {10: b"ten"})
    names = {path.name for path in (tmp_path / "a" / "orders-0").glob("*.log")}
    assert names == {f"{segment.base_offset:020d}.log" for segment in log_of(cluster).segments}
    cluster.close()


def test_log_start_offset_within_a_segment_survives_a_crash_after_the_move(tmp_path: Path) -> None:
    cluster = start(tmp_path)
    create(cluster)
    partition = cluster.partition("orders", 0)
    for number in range(6):
        partition.append(batch_of(b"%d" % number))
    partition.advance_log_start_offset(4)
    move(cluster, "b")
    advance(cluster, 0)
    assert homes(cluster) == ["b"]
    cluster.close(clean=False)
    cluster = start(tmp_path)
    assert read_values(log_of(cluster)) == {4: b"4", 5: b"5"}
    cluster.close()


def test_compaction_pauses_and_continues_in_the_other_directory(tmp_path: Path) -> None:
    cluster = start(tmp_path, config=SLOW)
    create(cluster, segment_bytes="150", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    partition, log = cluster.partition("orders", 0), log_of(cluster)
    for number in range(10):
        partition.append(batch_of(b"%d" % number * 40))
    cluster.logs.cleaner.compact([log])
    compacted = len(read_values(log))
    assert compacted < 10
    for number in range(10, 20):
        partition.append(batch_of(b"%d" % number * 20))
    move(cluster, "b")
    cluster.logs.cleaner.compact([log])
    assert len(read_values(log)) == compacted + 10
    while futures(cluster):
        advance(cluster, 1_000)
    assert homes(cluster) == ["b"]
    assert len(read_values(log)) == compacted + 10
    source, destination = cluster.log_directories
    assert not source.cleaner_offsets.was_compacted(("orders", 0))
    assert destination.cleaner_offsets.was_compacted(("orders", 0))
    cluster.logs.cleaner.compact([log])
    assert len(read_values(log)) < compacted + 3
    cluster.close(clean=False)
    cluster = start(tmp_path)
    assert cluster.log_directories[1].cleaner_offsets.was_compacted(("orders", 0))
    assert read_values(log_of(cluster)).popitem() == (19, b"19" * 20)
    cluster.close()


def test_flush_started_before_the_swap_completes_after_it(tmp_path: Path) -> None:
    cluster = start(tmp_path)
    create(cluster, flush_messages="1")
    partition, log = cluster.partition("orders", 0), log_of(cluster)
    partition.append(batch_of(b"first"))
    flush = log.flusher.begin_flush()
    partition.append(batch_of(b"second"))
    move(cluster, "b")
    advance(cluster, 10_000)
    assert homes(cluster) == ["b"]
    assert leftovers(tmp_path) == []
    with pytest.raises(FileNotFoundError) as failure:
        flush.run()  # of the old folder
    log.flusher.end_flush(flush, failure.value)
    assert log.failures.offline_cause is None
    assert log.flusher.recovery_point == log.log_end_offset == 2
    assert read_values(log) == {0: b"first", 1: b"second"}
    partition.append(batch_of(b"third"))
    log.flusher.flush()
    assert len(read_values(log)) == 3
    cluster.close()


def test_large_active_segment_rolls_to_shorten_the_final_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minibroker.log.copying.ROLL_SIZE", 1_000)
    monkeypatch.setattr("minibroker.log.copying.REST_MAX", 200)
    cluster = start(tmp_path)
    create(cluster)
    for number in range(20):
        cluster.partition("orders", 0).append(batch_of(b"%d" % number * 60))
    move(cluster, "b")
    advance(cluster, 0)
    assert homes(cluster) == ["b"]
    assert [segment.base_offset for segment in log_of(cluster).segments] == [0, 20]
    assert len(read_values(log_of(cluster))) == 20
    cluster.close()


def test_move_is_cancelled_by_requesting_the_current_directory(tmp_path: Path) -> None:
    cluster = start(tmp_path, config=SLOW)
    create(cluster, segment_bytes="300")
    for _ in range(10):
        cluster.partition("orders", 0).append(batch_of(b"x" * 200))
    move(cluster, "b")
    advance(cluster, 2_000)
    assert futures(cluster)
    move(cluster, "b")  # that is so already
    assert futures(cluster)["b"][0] > 0
    move(cluster, "a")
    assert futures(cluster) == {}
    advance(cluster, 10_000)
    assert homes(cluster) == ["a"]
    assert leftovers(tmp_path) == []
    move(cluster, "b")
    cluster.delete_topic("orders")
    advance(cluster, 10_000)
    assert (futures(cluster), leftovers(tmp_path)) == ({}, [])
    cluster.close()


def test_invalid_moves_are_refused(tmp_path: Path) -> None:
    cluster = start(tmp_path)
    create(cluster)
    path = cluster.log_directories[1].absolute_path
    with pytest.raises(LogDirNotFound):
        cluster.move_replica("orders", 0, f"{path}/")
    with pytest.raises(LogDirNotFound):
        cluster.move_replica("none", 0, "b")
    with pytest.raises(InvalidTopicException):
        cluster.move_replica("x" * 214, 0, path)
    for topic, index in (("orders", 1), ("orders", -1), ("none", 0)):
        with pytest.raises(UnknownTopicOrPartition):
            cluster.move_replica(topic, index, path)
    cluster.log_directories[1].take_offline(OSError(5, "Input/output error"))
    with pytest.raises(KafkaStorageError):
        cluster.move_replica("orders", 0, path)
    cluster.close()


def test_requested_directory_of_a_missing_topic_is_remembered(tmp_path: Path) -> None:
    cluster = start(tmp_path)
    for index in range(4):
        with pytest.raises(UnknownTopicOrPartition):
            cluster.move_replica("new", index, cluster.log_directories[1].absolute_path)
    cluster.create_topic("new", partition_count=4)
    cluster.logs.finish_opening()
    assert [len(each.logs) for each in cluster.log_directories] == [0, 4]
    cluster.close()


def test_remembered_directories_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minibroker.cluster.directories.log_opening.PREFERRED_MAX", 2)
    cluster = start(tmp_path)
    for name in ("one", "two", "three"):
        with pytest.raises(UnknownTopicOrPartition):
            cluster.move_replica(name, 0, cluster.log_directories[1].absolute_path)
    assert list(cluster.logs._opener._preferred) == [("two", 0), ("three", 0)]
    cluster.close()


@pytest.mark.parametrize(("code", "is_offline"), [(28, False), (5, True)])
def test_destination_directory_fails(code: int, is_offline: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    cluster = start(tmp_path, files)
    create(cluster)
    cluster.partition("orders", 0).append(batch_of(b"x"))
    move(cluster, "b")
    files.fail("write", code)
    advance(cluster, 10_000)
    files.heal()
    assert "could not move orders-0 from " in caplog.text
    assert (cluster.log_directories[1].offline_cause is not None) == is_offline
    assert futures(cluster) == {}
    cluster.partition("orders", 0).append(batch_of(b"y"))
    assert list(read_values(log_of(cluster)).values()) == [b"x", b"y"]
    cluster.close(clean=False)
    cluster = start(tmp_path)
    advance(cluster, 10_000)
    assert list(read_values(log_of(cluster)).values()) == [b"x", b"y"]
    assert leftovers(tmp_path) == []
    cluster.close()


def work(folder: Path, files: RealFiles, acknowledged: list[bytes]) -> None:
    """Produce, move, produce while it moves, and after."""
    cluster = None
    try:
        cluster = start(folder, files, SLOW)
        create(cluster, segment_bytes="200", flush_messages="1")
        partition = cluster.partition("orders", 0)

        def produce() -> None:
            value = b"%d" % len(acknowledged) * 60
            partition.append(batch_of(value))
            partition.log.flusher.flush()
            acknowledged.append(value)

        for _ in range(4):
            produce()
        partition.advance_log_start_offset(1)
        move(cluster, "b")
        for _ in range(4):
            advance(cluster, 1_000)
            produce()
        advance(cluster, 60_000)
        assert homes(cluster) == ["b"]
        produce()
    except Died:
        pass
    finally:
        if cluster is not None:
            bury(cluster)


def check(folder: Path, acknowledged: list[bytes], why: str) -> None:
    """Everything acknowledged is there, in one place; an interrupted move comes to its end, and nothing is left over."""
    cluster = start(folder)
    if "orders" in cluster.topics:
        found = read_values(log_of(cluster))
        expected = dict(enumerate(acknowledged))
        expected.pop(0, None)  # deleted, at some time
        assert {offset: value for offset, value in found.items() if offset in expected} == expected, why
        assert len(acknowledged) <= log_of(cluster).log_end_offset <= len(acknowledged) + 1, why
        cluster.partition("orders", 0).append(batch_of(b"after"))
        log_of(cluster).flusher.flush()
        advance(cluster, 100_000)
        assert len(homes(cluster)) == 1, why
        assert futures(cluster) == {}, why
        assert read_values(log_of(cluster)).popitem()[1] == b"after", why
    else:
        assert not acknowledged, why
    cluster.close()
    cluster = start(folder)
    if acknowledged:
        assert read_values(log_of(cluster)).popitem()[1] == b"after", why
    advance(cluster, 10_000)
    cluster.close()
    assert leftovers(folder) == [], why


def each_death(tmp_path: Path, make: Callable[[Path, int], RealFiles]) -> None:
    lives, is_done = first_of(STRIDE), False
    while not is_done:
        folder = tmp_path / str(lives)
        for name in "ab":
            (folder / name).mkdir(parents=True)
        files = make(folder, lives)
        acknowledged: list[bytes] = []
        work(folder, files, acknowledged)
        is_done = len(acknowledged) == 9
        if isinstance(files, DoomedFiles):
            for loss in Loss:
                after = tmp_path / f"{lives}-{loss.value}"
                files.lose_power(after, Random(lives), loss)
                check(after, acknowledged, f"the power went after {lives} changes, {loss}")
                shutil.rmtree(after)
        else:
            check(folder, acknowledged, f"died after {lives} changes")
        shutil.rmtree(folder, ignore_errors=True)
        lives += STRIDE
    assert lives > 100


def test_crash_before_every_disk_change(tmp_path: Path) -> None:
    each_death(tmp_path, lambda _, lives: MortalFiles(lives))


@pytest.mark.timeout(1_800)  # a soak tries all
def test_power_loss_before_every_disk_change(tmp_path: Path) -> None:
    each_death(tmp_path, DoomedFiles)


def test_planning_cost_does_not_depend_on_the_number_of_segments(tmp_path: Path) -> None:
    cluster = start(tmp_path)
    costs = {}
    for count in (40, 320):
        create(cluster, name := f"of-{count}", segment_bytes="100")
        for _ in range(count):
            cluster.partition(name, 0).append(batch_of(b"x" * 20))
        copy = LogCopy(log_of(cluster, name), RealFiles(), "unused")

        def plan_all(copy: LogCopy = copy) -> None:
            while piece := copy.next_piece(1 << 20):
                copy.note(piece)
                assert copy.end_offset > piece.base_offset

        costs[count] = count_opcodes(plan_all)
        assert len(copy.log.segments) == count
    assert costs[320] < 10 * costs[40]
    cluster.close()
