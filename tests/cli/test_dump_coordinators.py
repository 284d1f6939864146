"""`dump-log` of `__transaction_state` and `__consumer_offsets`: to the letter what DumpLogSegments prints of Kafka's segments."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from minibroker.coordinator.record_frame import CONSUMER_OFFSETS
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas.internal.offset_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tests.cli.conftest import Commands

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "records" / "coordinators_kafka_4.3.1.json").read_text())["segments"]
DECODERS = {"__transaction_state": "--transaction-log-decoder", "__consumer_offsets": "--offsets-decoder"}
#: as librdkafka writes them: version 3 with its topics, version 0 with a partition
SUBSCRIPTION = bytes.fromhex("0003 00000001 0003677270 00000000 00000000 ffffffff 0000".replace(" ", ""))
ASSIGNMENT = bytes.fromhex("0000 00000001 0003677270 00000001 00000000 00000000".replace(" ", ""))


def write(folder: Path, data: bytes) -> str:
    path = folder / f"{0:020}.log"
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("segment", GOLDEN)
def test_records_as_kafka_prints_them(offline: Commands, tmp_path: Path, segment: str) -> None:
    decoder = DECODERS[segment.partition("-")[0]]
    log = write(tmp_path, bytes.fromhex(GOLDEN[segment]["segment"]))
    said = re.findall(r"^\| offset: (\d+) .*? key: (\{.*) payload: (.*)$", offline("dump-log", log, decoder).out, re.MULTILINE)
    assert [[int(offset), key, value] for offset, key, value in said] == GOLDEN[segment]["records"]
    content = offline("dump-log", log, decoder, "--skip-record-metadata").out
    assert re.findall(r"^\| key: (\{.*) payload: (.*)$", content, re.MULTILINE) == [(key, value) for _, key, value in said]


def test_json_lines(offline: Commands, tmp_path: Path) -> None:
    segment = next(name for name in GOLDEN if name.startswith("__transaction_state"))
    log = write(tmp_path, bytes.fromhex(GOLDEN[segment]["segment"]))
    items = [json.loads(line) for line in offline("dump-log", log, "--transaction-log-decoder", "-o", "jsonl").lines]
    records = [item for item in items if item["type"] == "record"]
    assert [[item["offset"], item["coordinator_key"], item["coordinator_value"]] for item in records] == [
        [offset, json.loads(key), json.loads(value)] for offset, key, value in GOLDEN[segment]["records"]
    ]


def group(subscription: bytes, assignment: bytes) -> bytes:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=45000, subscription=subscription, assignment=assignment
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="m", members=[member])
    key = GroupMetadataKey(group="g")
    record = Record(0, 1, CONSUMER_OFFSETS.encode_key(key), CONSUMER_OFFSETS.encode_value(key, value, 3))
    return bytes(build_batch([record]))


def test_what_consumers_told_each_other(offline: Commands, tmp_path: Path) -> None:
    said = offline("dump-log", write(tmp_path, group(SUBSCRIPTION, ASSIGNMENT)), "--offsets-decoder").out
    assert (  # a line of DumpLogSegments but for names
        '"subscription":{"topics":["grp"],"userData":"","ownedPartitions":[],"generationId":-1,"rackId":""},'
        '"assignment":{"assignedPartitions":[{"topic":"grp","partitions":[0]}],"userData":""}}]}}' in said
    )


@pytest.mark.parametrize("wrong", [b"", b"\0", b"\0\4" + SUBSCRIPTION[2:], SUBSCRIPTION[:-1], SUBSCRIPTION + b"\0"])
def test_what_is_no_subscription_is_told(offline: Commands, tmp_path: Path, wrong: bytes) -> None:
    log = write(tmp_path, group(wrong, ASSIGNMENT))
    assert "the batch at offset 0 cannot be read: " in offline("dump-log", log, "--offsets-decoder", code=1).err


def test_types_of_later_versions_and_the_wrong_decoder(offline: Commands, tmp_path: Path) -> None:
    log = write(tmp_path, bytes(build_batch([Record(0, 1, b"\0\x63", b"?")], base_offset=7)))
    for decoder in DECODERS.values():
        assert offline("dump-log", log, decoder).lines[-1].endswith(" key: Unknown record type 99 at offset 7, skipping.")
    assert "one decoder at a time" in offline("dump-log", log, *DECODERS.values(), code=2).err
    log = write(tmp_path, bytes(build_batch([Record(0, 1, b"\0\1", b"?")])))
    error = offline("dump-log", log, "--offsets-decoder", code=1).err
    assert error.startswith(f"Error: {log} at position 0: the batch at offset 0 cannot be read: ")
