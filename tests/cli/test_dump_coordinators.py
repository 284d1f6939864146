"""`dump-log` of `__transaction_state` and `__consumer_offsets`: to the letter what DumpLogSegments prints of Kafka's segments."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from minibroker.coordinator.stored_topic import partition_of
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas.internal.offset_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from minibroker.storage.record_frame import CONSUMER_OFFSETS
from tests.cli.conftest import Cluster, Commands, wait_until_complete
from tests.support import java

RECORDS = Path(__file__).parents[1] / "golden" / "records"
GOLDEN = {
    f"{name} of {file}": segment
    for file in ("coordinators_kafka_4.3.1.json", "groups_kafka_4.3.1.json")
    for name, segment in json.loads((RECORDS / file).read_text())["segments"].items()
}
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
    output = re.findall(r"^\| offset: (\d+) .*? key: (\{.*) payload: (.*)$", offline("dump-log", log, decoder).out, re.MULTILINE)
    assert [[int(offset), key, value] for offset, key, value in output] == GOLDEN[segment]["records"]
    content = offline("dump-log", log, decoder, "--skip-record-metadata").out
    assert re.findall(r"^\| key: (\{.*) payload: (.*)$", content, re.MULTILINE) == [(key, value) for _, key, value in output]


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


def test_subscriptions_and_assignments_are_decoded(offline: Commands, tmp_path: Path) -> None:
    output = offline("dump-log", write(tmp_path, group(SUBSCRIPTION, ASSIGNMENT)), "--offsets-decoder").out
    assert (  # a line of DumpLogSegments but for names
        '"subscription":{"topics":["grp"],"userData":"","ownedPartitions":[],"generationId":-1,"rackId":""},'
        '"assignment":{"assignedPartitions":[{"topic":"grp","partitions":[0]}],"userData":""}}]}}' in output
    )


@pytest.mark.parametrize("wrong", [b"", b"\0", b"\0\4" + SUBSCRIPTION[2:], SUBSCRIPTION[:-1], SUBSCRIPTION + b"\0"])
def test_invalid_subscription_is_reported(offline: Commands, tmp_path: Path, wrong: bytes) -> None:
    log = write(tmp_path, group(wrong, ASSIGNMENT))
    assert "the batch at offset 0 cannot be read: " in offline("dump-log", log, "--offsets-decoder", code=1).err


def test_types_of_later_versions_and_the_wrong_decoder(offline: Commands, tmp_path: Path) -> None:
    log = write(tmp_path, bytes(build_batch([Record(0, 1, b"\0\x63", b"?")], base_offset=7)))
    for decoder in DECODERS.values():
        assert offline("dump-log", log, decoder).lines[-1].endswith(" key: Unknown record type 99 at offset 7, skipping.")
    assert "one decoder at a time" in offline("dump-log", log, *DECODERS.values(), code=2).err
    log = write(tmp_path, bytes(build_batch([Record(0, 1, b"\0\1", b"?")])))
    error = offline("dump-log", log, "--offsets-decoder", code=1).err
    assert error.startswith(f"Error: {log} at position 0: the batch at offset 0 cannot be read: not a record of __consumer_offsets: ")


def test_transaction_output_matches_dump_log_segments(cli: Commands, cluster: Cluster, fresh: Callable[..., str], tmp_path: Path) -> None:
    """Control batches, .txnindex, and what the coordinator wrote of it all."""
    topic = fresh()
    name = f"{topic}-writer"
    for end in ("commit", "abort", "abort", "none"):
        cli("produce", topic, "--transactional-id", name, "--transaction-end", end, stdin="a\nb\n")
        if end != "none":
            wait_until_complete(cli, name)
    folder = shutil.copytree(cluster.data_dir / f"{topic}-0", tmp_path / "topic")
    state_folder = f"__transaction_state-{partition_of(name)}"
    state = shutil.copytree(cluster.data_dir / state_folder, tmp_path / "state") / f"{0:020}.log"
    log, index = folder / f"{0:020}.log", folder / f"{0:020}.txnindex"
    for files, options in (([log, index], ["--deep-iteration"]), ([state], ["--transaction-log-decoder"])):
        names = [str(file) for file in files]
        expected = java.run_tool(java.DUMP_LOG_SEGMENTS, *options, "--files", ",".join(names))
        assert cli("dump-log", *options, *names).out == expected, options
    assert len(cli("dump-log", str(index)).lines) == 1 + 2
    assert f'"transactionalId":"{name}"' in cli("dump-log", str(state), "--transaction-log-decoder").out
    cli("transactions", "abort", "--transactional-id", name)
