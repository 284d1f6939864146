"""`dump-log`: to the letter what DumpLogSegments prints of Kafka's files, and problems with their file and position."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker.records.any_format import read_batch
from minibroker.records.builder import build_batch
from minibroker.records.legacy import build_message_set, write_message
from minibroker.records.record import Record
from tests.cli.conftest import Cluster, Commands
from tests.support import java

DUMPED = Path(__file__).parent / "dumped"
ZEROS = "0" * 20
LOG = f"tx-0/{ZEROS}.log"
DATA_FILES = [f"tx-0/{ZEROS}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex")] + [f"tx-0/{4:020}.snapshot"]
OLD_LOGS = [f"old-{number}/{50:020}.log" for number in (0, 1)]
OLD_FILES = [OLD_LOGS[0], *(f"old-0/{50:020}{suffix}" for suffix in (".index", ".timeindex")), OLD_LOGS[1]]
METADATA_FILES = [f"__cluster_metadata-0/{ZEROS}.log", f"__cluster_metadata-0/{ZEROS}-0000000000.checkpoint"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the dumped files to spoil, and the working directory."""
    shutil.copytree(DUMPED, tmp_path / "dumped")
    monkeypatch.chdir(tmp_path / "dumped")
    return tmp_path / "dumped"


@pytest.mark.parametrize(
    ("expected", "files", "options"),
    [
        ("data", DATA_FILES, ["--print-data-log"]),
        ("shallow", [LOG], []),
        ("deep", [LOG], ["--deep-iteration"]),
        ("content", [LOG], ["--print-data-log", "--skip-record-metadata"]),
        ("limited", [LOG], ["--max-bytes", "400"]),
        ("sanity", [f"tx-0/{ZEROS}.index"], ["--index-sanity-check"]),
        ("metadata", METADATA_FILES, ["--cluster-metadata-decoder"]),
        ("old", OLD_FILES, ["--print-data-log"]),
        ("old_shallow", OLD_LOGS, []),
        ("old_content", OLD_LOGS[:1], ["--print-data-log", "--skip-record-metadata"]),
    ],
)
def test_output_matches_kafka(offline: Commands, folder: Path, expected: str, files: list[str], options: list[str]) -> None:
    result = offline("dump-log", *files, *options)
    assert result.out == (folder / f"{expected}.txt").read_text()
    assert result.err == ""


def items(offline: Commands, *arguments: str, code: int = 0) -> list[dict[str, object]]:
    return [json.loads(line) for line in offline("dump-log", *arguments, "-o", "jsonl", code=code).lines]


def test_json_lines(offline: Commands, folder: Path) -> None:
    found = items(offline, LOG, "--print-data-log")
    assert [item["type"] for item in found[:7]] == ["file", "batch", "record", "record", "record", "record", "batch"]
    assert found[1] == {
        "type": "batch",
        "base_offset": 0,
        "last_offset": 3,
        "count": 4,
        "base_sequence": 0,
        "last_sequence": 3,
        "producer_id": 8,
        "producer_epoch": 0,
        "partition_leader_epoch": 0,
        "is_transactional": True,
        "is_control": False,
        "delete_horizon_ms": None,
        "position": 0,
        "timestamp_type": "CreateTime",
        "timestamp": 1795255223422,
        "size": 121,
        "magic": 2,
        "compression": "none",
        "crc": 3200561246,
        "is_valid": True,
    }
    assert (found[2]["key"], found[2]["value"], found[2]["headers"]) == ("k0", "v0-0", [{"key": "h", "value": "1"}])
    assert (found[5]["key"], found[5]["value"]) == ({"base64": "//4="}, None)
    assert (found[7]["control"], found[7]["control_value"]) == ("COMMIT", {"coordinatorEpoch": 0})


def test_directory_means_all_its_files(offline: Commands, folder: Path) -> None:
    result = offline("dump-log", "tx-0")
    dumped = [line.removeprefix("Dumping tx-0/") for line in result.lines if line.startswith("Dumping")]
    assert dumped == [Path(name).name for name in sorted(DATA_FILES)] + ["leader-epoch-checkpoint"]
    assert result.lines[-1] == "epoch: 0 startOffset: 0"


def test_directory_with_an_index_option_means_its_indexes(offline: Commands, folder: Path) -> None:
    for option in ("--index-sanity-check", "--verify-index-only"):
        names = [item["file"] for item in items(offline, "tx-0", option) if item["type"] == "file"]
        assert names == [f"tx-0/{ZEROS}.index", f"tx-0/{ZEROS}.timeindex"]


def test_preallocated_zeros_are_no_entries(offline: Commands, folder: Path) -> None:
    for name in (f"tx-0/{ZEROS}.index", f"tx-0/{ZEROS}.timeindex"):
        before = offline("dump-log", name).out
        with (folder / name).open("ab") as file:
            file.write(bytes(1200))
        assert offline("dump-log", name).out == before


def spoil(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


def test_wrong_crc_is_reported_and_the_rest_is_printed(offline: Commands, folder: Path) -> None:
    spoil(folder / LOG, 300)
    result = offline("dump-log", LOG, "--print-data-log", code=1)
    assert result.err == f"Error: {LOG} at position 199: the batch at offset 5 has a wrong CRC\n"
    assert [line.rpartition(" ")[2] for line in result.lines if line.startswith("baseOffset")] == ["true", "true", "false"] + ["true"] * 9


@pytest.mark.parametrize("size", [1, 11, 16, 60, 120, 499])
def test_torn_last_batch_is_reported(offline: Commands, folder: Path, size: int) -> None:
    file = folder / LOG
    file.write_bytes(file.read_bytes()[:size])
    position = 0 if size < 121 else 398
    result = offline("dump-log", LOG, code=1)
    assert result.lines[-1] == f"Found {size - position} invalid bytes at the end of {ZEROS}.log"
    assert result.err.startswith(f"Error: {LOG} at position {position}: the remaining {size - position} bytes are not a record batch: ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "garbage",
    [bytes(100), b"\xff" * 100, b"GET / HTTP/1.1\r\n" * 8, b"\0" * 8 + b"\x7f\xff\xff\xff" + b"\0" * 4 + b"\x02" + b"\0" * 100],
    ids=["zeros", "ones", "text", "two gigabytes"],
)
def test_garbage_is_reported(offline: Commands, folder: Path, garbage: bytes) -> None:
    (folder / LOG).write_bytes(garbage)
    assert f"{LOG} at position 0: " in offline("dump-log", LOG, "--print-data-log", code=1).err


def test_non_increasing_offsets_are_reported(offline: Commands, folder: Path) -> None:
    batch = bytes(build_batch([Record(0, 1, None, b"v")] * 3, base_offset=5))
    (folder / LOG).write_bytes(batch + bytes(build_batch([Record(0, 1, None, b"v")], base_offset=7)))
    assert offline("dump-log", LOG, code=1).err == f"Error: {LOG} at position {len(batch)}: offset 7 follows 7\n"


def test_unreadable_record_is_reported(offline: Commands, folder: Path) -> None:
    (folder / LOG).write_bytes(build_batch([Record(0, 1, None, b"no metadata")]))
    error = offline("dump-log", LOG, "--cluster-metadata-decoder", code=1).err
    assert error.startswith(f"Error: {LOG} at position 0: the batch at offset 0 cannot be read: ")


@pytest.mark.parametrize(
    ("name", "position", "words"),
    [
        (f"tx-0/{ZEROS}.index", 3, "at position 0: index offset 5, log offset 4"),
        (f"tx-0/{ZEROS}.index", 15, "at position 8: no batch of the segment starts at its position 321"),
        (f"tx-0/{ZEROS}.timeindex", 7, "at position 0: index timestamp 1795255223458, log timestamp 1795255223459"),
        (f"tx-0/{ZEROS}.timeindex", 35, "at position 24: no batch of the segment ends with its offset 15"),
        (f"tx-0/{ZEROS}.txnindex", 0, "unknown version 256"),
        (f"tx-0/{4:020}.snapshot", 20, "the snapshot's CRC is wrong"),
        ("tx-0/leader-epoch-checkpoint", 0, "not a checkpoint"),
    ],
)
def test_damaged_small_files_are_reported(offline: Commands, folder: Path, name: str, position: int, words: str) -> None:
    spoil(folder / name, position)
    error = offline("dump-log", name, code=1).err
    assert error.startswith(f"Error: {name}")
    assert words in error
    assert error.count("\n") == 1
    if name.endswith("index"):
        assert offline("dump-log", name, "--verify-index-only", code=1).err == error


def test_damaged_index_fails_its_sanity_check(offline: Commands, folder: Path) -> None:
    index = folder / f"tx-0/{ZEROS}.index"
    data = index.read_bytes()
    index.write_bytes(data[:-3])
    assert "45 bytes are not a whole number of entries of 8 bytes" in offline("dump-log", str(index), "--index-sanity-check", code=1).err
    index.write_bytes(data[8:16] + data[:8])
    assert "entry 1 (offset 4) is not above the entry before it" in offline("dump-log", str(index), "--index-sanity-check", code=1).err


def test_an_index_without_its_segment(offline: Commands, folder: Path) -> None:
    (folder / LOG).unlink()
    assert "the segment of the index is missing" in offline("dump-log", f"tx-0/{ZEROS}.index", code=1).err


def test_a_file_of_no_known_kind(offline: Commands, folder: Path) -> None:
    assert "not a known kind of file" in offline("dump-log", "README.md", code=1).err
    assert "does not exist" in offline("dump-log", "nowhere.log", code=2).err


def test_output_matches_dump_log_segments(cli: Commands, cluster: Cluster, fresh: Callable[..., str], tmp_path: Path) -> None:
    topic = fresh(**{"index.interval.bytes": "200"})
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        cli(
            "produce", topic, "-z", codec, "-K", ":", "-H", "h=1", "--batch-bytes", "300", stdin="".join(f"k{n}:v{n}\n" for n in range(100))
        )
    shutil.copytree(cluster.data_dir / f"{topic}-0", tmp_path / "copy")
    log = tmp_path / "copy" / f"{ZEROS}.log"
    for options in ([], ["--deep-iteration"], ["--print-data-log"]):
        assert cli("dump-log", str(log), *options).out == java.run_tool(java.DUMP_LOG_SEGMENTS, "--files", str(log), *options)
    metadata = tmp_path / "metadata" / f"{ZEROS}.log"
    metadata.parent.mkdir()
    shutil.copy(cluster.data_dir / "__cluster_metadata-0" / metadata.name, metadata)
    expected = java.run_tool(java.DUMP_LOG_SEGMENTS, "--cluster-metadata-decoder", "--files", str(metadata))
    assert cli("dump-log", str(metadata), "--cluster-metadata-decoder").out == expected


def test_damage_in_old_formats(offline: Commands, folder: Path) -> None:
    """A wrong CRC of a set, one inside a set, and a set that cannot be decompressed."""
    good = (folder / OLD_LOGS[0]).read_bytes()
    first = read_batch(good)
    inner = bytearray(build_message_set([Record(50, -1, b"k", b"v")], 0))
    inner[-1] ^= 1
    for name, value, problem in (
        ("inner", zlib.compress(inner, wbits=31), "message 0 of a compressed set is corrupt"),
        ("broken", b"no gzip", "a broken gzip payload"),
    ):
        wrapped = bytearray()
        write_message(wrapped, Record(53, -1, None, value), 0, 1)
        (folder / OLD_LOGS[0]).write_bytes(bytes(wrapped) + good[first.size :])
        found = items(offline, OLD_LOGS[0], "--deep-iteration", code=1)
        assert (found[1]["base_offset"], found[1]["last_offset"], found[1]["count"], found[1]["is_valid"]) == (None, 53, None, True), name
        assert problem in str(found[2]["problem"])
        assert found[3]["base_offset"] == 54
    (folder / OLD_LOGS[0]).write_bytes(good[:30] + b"!" + good[31:])
    found = items(offline, OLD_LOGS[0], "--deep-iteration", code=1)
    assert found[2]["problem"] == "the batch at offset 53 has a wrong CRC"
    assert found[3]["magic"] == 0
