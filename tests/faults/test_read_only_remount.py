"""FAULTS 8: the kernel remounts a file system read-only under a running broker, as it does when a disk fails.

A file system in a file, mounted in a namespace of the broker's own; the kernel's own switch for tests makes it report an error. It needs
root, loop devices and mkfs.ext4.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.client.client import Client
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k01_fetch, k19_create_topics
from tests.support.becoming import becomes
from tests.support.broker_process import BrokerProcess

STORAGE_ERROR = 56
NO_LEADER = (5, 6, STORAGE_ERROR)
MOUNT = 'mount -o errors=remount-ro "$0" "$1" && shift && exec "$@"'


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A loop device with an ext4 on it, which reports errors when it is told to."""
    if os.geteuid() or not Path("/dev/loop-control").exists() or not shutil.which("mkfs.ext4") or not Path("/sys/fs/ext4").exists():
        pytest.skip("needs root, loop devices and ext4")
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    run("mkfs.ext4", "-q", str(image))
    try:
        device = run("losetup", "-f", "--show", str(image))
        run("unshare", "-m", "true")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop devices or namespaces here: {error.stderr}")
    yield device
    run("losetup", "-d", device)


def produce(client: Client, topic: str, value: bytes) -> int:
    """The error code; 0 is an acknowledgement."""
    batch = build_batch([Record(0, int(time.time() * 1000), None, value)])
    asked = k00_produce.Topic(name=topic, partition_data=[k00_produce.Partition(index=0, records=bytes(batch))])
    request = k00_produce.Request(acks=-1, timeout_ms=10_000, topic_data=[asked])
    connection = client.to_any(client.deadline())
    answer = connection.ask(k00_produce, request, client.deadline(), most=12)
    return int(answer.responses[0].partition_responses[0].error_code)


def values(client: Client, topic: str) -> list[bytes | None]:
    """All records."""
    partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = k01_fetch.Request(max_wait_ms=0, min_bytes=0, topics=[k01_fetch.Topic(topic=topic, partitions=[partition])])
    answer = client.to_any(client.deadline()).ask(k01_fetch, request, client.deadline(), most=12)
    (result,) = answer.responses[0].partitions
    assert result.error_code == 0
    return [record.value for batch in split_batches(result.records or b"", allow_partial=True) for record in decode_records(batch)]


def test_one_log_directory_becomes_read_only(tmp_path: Path, disk: str) -> None:
    mounted, whole = tmp_path / "failing", tmp_path / "whole"
    mounted.mkdir()
    whole.mkdir()
    arguments = ("--set", "log.flush.interval.messages=1")
    # The first directory has the metadata log; the one that fails is the second. Its files are in a folder, beside lost+found.
    dirs = (whole, mounted / "data")
    prefix = ("unshare", "-m", "sh", "-c", MOUNT, disk, str(mounted))
    with BrokerProcess(tmp_path, *arguments, log_dirs=dirs, prefix=prefix) as broker:
        with Client(broker.bootstrap, timeout_ms=20_000) as client:
            topics = [
                k19_create_topics.Topic(name=f"t{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[])
                for number in range(4)
            ]
            client.ask(k19_create_topics, k19_create_topics.Request(topics=topics, timeout_ms=10_000))
            names = [topic.name for topic in topics]
            assert [produce(client, name, b"before") for name in names] == [0] * 4  # opens the logs that wait for their turn
            unhurt = [name for name in names if (whole / f"{name}-0").exists()]
            failing = [name for name in names if name not in unhurt]
            assert unhurt
            assert failing

            Path("/sys/fs/ext4", Path(disk).name, "trigger_fs_error").write_text("1")
            refused = {name: produce(client, name, b"lost") for name in failing}
            assert set(refused.values()) <= set(NO_LEADER), refused
            assert [produce(client, name, b"after") for name in unhurt] == [0] * len(unhurt)
            assert becomes(lambda: "offline" in broker.output)
            assert [values(client, name) for name in unhurt] == [[b"before", b"after"]] * len(unhurt)
        assert "Traceback" not in broker.output
        assert broker.stop() == 0

        subprocess.run(["e2fsck", "-fy", disk], check=False, capture_output=True)  # its exit code says that it mended something
        broker.restart()
        with Client(broker.bootstrap, timeout_ms=20_000) as client:
            assert [values(client, name) for name in failing] == [[b"before"]] * len(failing)  # what was acknowledged, and nothing else
            assert [produce(client, name, b"again") for name in failing] == [0] * len(failing)
        assert broker.stop() == 0
    checked = subprocess.run(
        [*prefix, sys.executable, "-m", "minibroker", "storage", "check", *map(str, dirs)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
