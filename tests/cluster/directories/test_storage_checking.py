"""`storage check` finds all damage, reports nothing about whole directories, and writes nothing.

Only a soak damages each byte; other runs damage every second one, or fewer (`every`).
"""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from minibroker.cluster.directories.storage_checking import StorageCheck
from minibroker.log.findings import ERROR, REPEATED_MAX, WARNING, Finding
from minibroker.log.segment_checking import check_segment
from minibroker.records.any_format import split_batches
from minibroker.records.batch import assign_offsets
from minibroker.records.builder import sum_batch
from minibroker.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from minibroker.storage.files import READ_ONLY, RealFiles
from minibroker.storage.transaction_index import AbortedTxn, TransactionIndex
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.log_batches import batch_of, idempotent_batch
from tests.support.soak import every

CONFIG = {"log.segment.bytes": "1100", "log.index.interval.bytes": "150"}
FIRST = "orders-0/00000000000000000000"


class ReadingFiles(RealFiles):
    """Reads, and fails whoever wants to change anything."""

    def open(self, path: str, flags: int) -> int:
        assert flags == READ_ONLY, path
        return super().open(path, flags)

    def _refuse(self, *_: object) -> NoReturn:
        raise AssertionError("nothing must be changed")

    write = truncate = sync = sync_directory = make_directory = rename = remove = remove_directory = _refuse  # type: ignore[assignment]


def check(*paths: Path | str, deep: bool = True) -> list[Finding]:
    work = StorageCheck(ReadingFiles(), [str(path) for path in paths], deep=deep)
    work.plan()
    for task in work.tasks:
        work.done(task.directory, check_segment(ReadingFiles(), task))
    return work.finish()


def words(findings: list[Finding], folder: Path) -> list[str]:
    return [f"{each.severity} {os.path.relpath(each.path, folder)} @{each.position}: {each.problem}" for each in findings]


def fill(broker: BrokerInMemory) -> None:
    """Several segments with idempotent producers, other codecs, a moved log start, an empty partition."""
    rng = random.Random(6)
    sequences = [0, 0]
    ids = [broker.cluster.metadata.allocate_producer_id() for _ in sequences]
    for number in range(60):
        chosen = rng.randrange(2)
        values = [rng.randbytes(rng.randrange(60)) for _ in range(rng.randint(1, 3))]
        log = broker.cluster.partition("orders", 0).log
        log.append(idempotent_batch(ids[chosen], sequences[chosen], *values, timestamp=1_700_000_000_000 + rng.randrange(10_000)))
        sequences[chosen] += len(values)
        broker.append("payments", number % 2, records(2))
    broker.cluster.partition("orders", 1).log.append(batch_of(b"alone"))
    broker.cluster.partition("payments", 0).log.advance_log_start_offset(3)


@cache
def filled(*, is_clean: bool) -> Path:
    """Return the directory of a broker that stopped, or was killed; tests get copies of it."""
    folder = Path(tempfile.mkdtemp())
    broker = BrokerInMemory(topics={"orders": 2, "payments": 3}, config=CONFIG, folder=folder)
    fill(broker)
    broker.cluster.close(clean=is_clean)
    return folder


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled(is_clean=True), tmp_path, dirs_exist_ok=True))


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled(is_clean=False), tmp_path, dirs_exist_ok=True))


def test_no_findings_after_a_clean_stop(clean: Path) -> None:
    work = StorageCheck(ReadingFiles(), [str(clean)])
    work.plan()
    assert len(work.tasks) > 10
    assert check(clean) == []
    assert check(clean / "orders-0") == []


def test_no_findings_after_a_kill(killed: Path) -> None:
    assert words(check(killed), killed) == []


def test_torn_batch_is_a_warning_after_a_kill_and_an_error_after_a_stop(killed: Path) -> None:
    path = killed / "orders-1/00000000000000000000.log"
    data = path.read_bytes()
    for size in every(2, range(1, len(data))):
        path.write_bytes(data + data[:size])
        (finding,) = check(killed)
        assert (finding.severity, finding.path, finding.position) == (WARNING, str(path), len(data))
        assert finding.problem == f"the last batch is torn: it has only {size} bytes; the next start cuts them off"
    path.write_bytes(data + bytes(100))
    assert [finding.problem for finding in check(killed)] == ["100 bytes of zeros follow the last batch; the next start cuts them off"]
    (killed / ".kafka_cleanshutdown").write_text("{}")
    assert (ERROR, len(data)) in {(finding.severity, finding.position) for finding in check(killed)}


def test_any_flipped_byte_in_a_log_is_found(clean: Path) -> None:
    path = clean / f"{FIRST}.log"
    data = path.read_bytes()
    for position in every(2, [*range(80), *random.Random(2).sample(range(len(data)), 40)]):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        found = check(clean, deep=False)
        assert found, position
        assert ERROR in {finding.severity for finding in found}, (position, found)
    path.write_bytes(data)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_any_flipped_byte_in_an_index_is_found(suffix: str, clean: Path) -> None:
    path = clean / f"{FIRST}{suffix}"
    data = path.read_bytes()
    assert len(data) > 24
    for position in every(2, range(len(data))):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        found = check(clean)
        assert any(finding.path == str(path) and finding.severity == ERROR for finding in found), position
    path.write_bytes(data)


def test_any_flipped_byte_in_a_snapshot_is_found(clean: Path) -> None:
    path = sorted((clean / "orders-0").glob("*.snapshot"))[1]
    data = path.read_bytes()
    for position in every(2, range(len(data))):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert any(finding.path == str(path) for finding in check(clean))
    path.write_bytes(data)


def newest_snapshot(folder: Path) -> Path:
    return max((folder / "orders-0").glob("*.snapshot"))


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def write(name: str, text: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / name).write_text(text)

    return apply


def replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        text = (folder / name).read_text()
        assert re.search(old, text)
        (folder / name).write_text(re.sub(old, new, text, count=1))

    return apply


def swap_batches(folder: Path) -> None:
    path = folder / f"{FIRST}.log"
    batches = [bytes(batch.data) for batch in split_batches(path.read_bytes())]
    batches[0], batches[1] = batches[1], batches[0]
    path.write_bytes(b"".join(batches))


def wrong_count(folder: Path) -> None:
    path = folder / "orders-1/00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[57:61] = (9).to_bytes(4, "big")
    sum_batch(data)
    path.write_bytes(data)


def lost_segment(folder: Path) -> None:
    paths = sorted((folder / "orders-0").glob("*.log"))
    paths[1].unlink()


def no_segment(folder: Path) -> None:
    for path in (folder / "orders-0").glob("0*"):
        path.unlink()


def a_folder_of_nobody(folder: Path) -> None:
    shutil.copytree(folder / "orders-0", folder / "x-0")


def other_snapshot(folder: Path) -> None:
    path = newest_snapshot(folder)
    older = min((folder / "orders-0").glob("*.snapshot"))
    path.write_bytes(older.read_bytes())


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no index": (remove(f"{FIRST}.index"), rf"warning {FIRST}.index @None: is missing"),
    "no log": (lost_segment, r"error orders-0/0+.log @\d+: ends at offset \d+, but the next segment starts at \d+: its end was lost"),
    "batches in disorder": (swap_batches, rf"error {FIRST}.log @\d+: offsets 0 to \d+, but \d+ is next"),
    "another's count": (wrong_count, r"error orders-1/0+.log @0: a batch with offsets 0 to 0 has 9 records"),
    "an old snapshot": (other_snapshot, r"error orders-0/\d+.snapshot @None: producer \d+ has last sequence \d+, but \d+ in the log"),
    "epochs": (
        replace("orders-0/leader-epoch-checkpoint", r"0 0\n$", "1 0\n"),
        r"error .*checkpoint @None: gives epoch 1 to offset 0, whose batch has 0",
    ),
    "no epochs": (remove("orders-0/leader-epoch-checkpoint"), r"warning orders-0/leader-epoch-checkpoint @None: is missing or empty"),
    "bad epochs": (
        write("orders-0/leader-epoch-checkpoint", "0\n1\nx 0\n"),
        r"error orders-0/leader-epoch-checkpoint @None: 'x 0' is not an epoch",
    ),
    "recovery point": (
        replace("recovery-point-offset-checkpoint", r"orders 1 1\n", "orders 1 9\n"),
        r"error recovery-point-offset-checkpoint @None: orders-1: everything up to offset 9 was on disk, but the log ends at 1",
    ),
    "recovery point behind": (
        replace("recovery-point-offset-checkpoint", r"orders 0 \d+\n", "orders 0 5\n"),
        r"warning recovery-point-offset-checkpoint @None: orders-0: when the broker stopped, the log ended at offset 5, now it ends at",
    ),
    "log start": (
        replace("log-start-offset-checkpoint", r"payments 0 3", "payments 0 300"),
        r"error log-start.*payments-0: everything up to offset 300",
    ),
    "high watermark": (
        replace("replication-offset-checkpoint", r"orders 1 1", "orders 1 2"),
        r"error replication-.* offset 2 could be read",
    ),
    "a checkpoint of others": (
        replace("recovery-point-offset-checkpoint", "orders 1", "orders 7"),
        r"warning recovery-.*: has orders-7, which does not exist",
    ),
    "no checkpoint": (write("recovery-point-offset-checkpoint", "0\n2\n"), r"error recovery-point-offset-checkpoint @None: not a check"),
    "topic id": (
        replace("orders-1/partition.metadata", "topic_id: .*", "topic_id: " + "A" * 22),
        r"error orders-1/partition.metadata @None: has topic id",
    ),
    "no topic id": (remove("orders-1/partition.metadata"), r"warning orders-1/partition.metadata @None: is missing or empty"),
    "no partition": (lambda folder: shutil.rmtree(folder / "orders-0"), r"error orders-0 @None: is missing, but everything up to offset"),
    "no segment": (no_segment, r"error orders-0 @None: holds no segment"),
    "a folder of nobody": (a_folder_of_nobody, r"warning x-0 @None: belongs to no topic"),
    "no owner": (remove("meta.properties"), r"error meta.properties @None: is missing"),
    "unknown owner": (write("meta.properties", "version=7\n"), r"error meta.properties @None: version '7' is not known"),
    "an orphan": (write("orders-0/00000000000000000777.index", ""), r"warning orders-0/00000000000000000777.index @None: an index without"),
    "quorum": (write("__cluster_metadata-0/quorum-state", "{"), r"error __cluster_metadata-0/quorum-state @None: no quorum state"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_described(name: str, clean: Path) -> None:
    damage, expected = DAMAGES[name]
    damage(clean)
    found = words(check(clean), clean)
    assert any(re.match(expected, each) for each in found), found


def test_damaged_metadata_log_is_described(clean: Path) -> None:
    path = clean / "__cluster_metadata-0/00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    found = words(check(clean), clean)
    assert any(each.startswith("error __cluster_metadata-0 @None: cannot be replayed") for each in found)
    assert any(each.startswith("error __cluster_metadata-0/00000000000000000000.log") and "wrong CRC" in each for each in found)


def test_directories_of_two_nodes_are_reported(clean: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    BrokerInMemory(folder=other).cluster.close()
    assert any("is of cluster" in finding.problem for finding in check(clean, other))
    copy = other / "copy"
    shutil.copytree(clean, copy)
    assert any("one is a copy of the other" in finding.problem for finding in check(clean, copy))


def test_repeated_findings_are_summarized(clean: Path) -> None:
    path = clean / f"{FIRST}.timeindex"
    path.write_bytes(path.read_bytes()[:12] * 100)
    problems = [finding.problem for finding in check(clean) if finding.path == str(path)]
    assert len([each for each in problems if "does not follow" in each]) == REPEATED_MAX
    assert f"{99 - REPEATED_MAX} more of: entries that do not follow" in problems


# Transactions: folders written by hand, as Apache Kafka writes them


def marker(kind: ControlType, producer_id: int) -> memoryview:
    return memoryview(build_end_transaction_batch(EndTransactionMarker(kind, 0), timestamp=5, producer_id=producer_id, producer_epoch=0))


def data_of(producer_id: int, sequence: int) -> memoryview:
    return batch_of(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)


@pytest.fixture
def transactions(tmp_path: Path) -> Path:
    """0 and 1 begin; 0 aborts (offsets 0 to 2), 1 commits, 0 aborts again (4 to 5), an empty abort (6)."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    batches = [data_of(0, 0), data_of(1, 0), marker(ControlType.ABORT, 0), marker(ControlType.COMMIT, 1), data_of(0, 1)]
    batches += [marker(ControlType.ABORT, 0), marker(ControlType.ABORT, 9)]
    for offset, batch in enumerate(batches):
        assign_offsets(batch, offset, 0)
    (folder / "00000000000000000000.log").write_bytes(b"".join(batches))
    (folder / "00000000000000000000.index").touch()
    (folder / "00000000000000000000.timeindex").write_bytes((batch_time(batches)).to_bytes(8, "big") + bytes(4))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    (tmp_path / ".kafka_cleanshutdown").write_text("{}")
    return folder


def batch_time(batches: list[memoryview]) -> int:
    return next(split_batches(batches[0])).max_timestamp


GOOD = [AbortedTxn(0, 0, 2, 1), AbortedTxn(0, 4, 5, 6)]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (GOOD, []),
        (GOOD[:1], ["the aborted transaction of producer 0, offsets 4 to 5, is missing: it reads as committed"]),
        ([GOOD[0], GOOD[1]._replace(first_offset=3)], ["the transaction starts at offset 4"]),
        ([GOOD[0], GOOD[1]._replace(producer_id=1)], ["the abort marker at its last offset is of producer 0"]),
        (
            [GOOD[0]._replace(last_offset=3), GOOD[1]],
            ["no abort marker", "the aborted transaction of producer 0, offsets 0 to 2, is missing"],
        ),
        ([GOOD[0], GOOD[1]._replace(last_stable_offset=5)], ["has last stable offset 5, but it was 6"]),
        ([GOOD[0]._replace(first_offset=3), GOOD[1]], ["contradicts itself", "the transaction starts at offset 0"]),
    ],
)
def test_aborted_transactions(entries: list[AbortedTxn], expected: list[str], transactions: Path) -> None:
    index = TransactionIndex(RealFiles(), str(transactions / "00000000000000000000.txnindex"))
    for entry in entries:
        index.append(entry)
    problems = [finding.problem for finding in check(transactions)]
    assert len(problems) == len(expected), problems
    for problem, part in zip(problems, expected, strict=True):
        assert part in problem


def test_invalid_transaction_index(transactions: Path) -> None:
    (transactions / "00000000000000000000.txnindex").write_bytes(b"abc")
    assert [finding.problem for finding in check(transactions)] == ["3 bytes are not a whole number of entries"]


def files_of(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def test_random_file_contents_raise_no_error(clean: Path) -> None:
    rng = random.Random(8)
    for path in every(2, sorted(files_of(clean))):
        data = path.read_bytes()
        for damaged in (b"", rng.randbytes(300), data[: len(data) // 2], b"\xff" * 200, data * 2):
            path.write_bytes(damaged)
            check(clean)
        path.write_bytes(data)
    assert check(clean) == []
