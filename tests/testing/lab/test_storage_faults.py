"""A file system that fails by rules, over memory and over a disk."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker.storage.files import APPEND, Files, RealFiles, read_all, write_all
from minibroker.testing import BrokerError
from minibroker.testing.faults.rule import FaultFrequency
from minibroker.testing.lab.storage_faults import FailingFiles, StorageFault
from minibroker.testing.memory_files import MemoryFiles


@pytest.fixture(params=[MemoryFiles, RealFiles])
def beneath(request: pytest.FixtureRequest) -> Files:
    found: Files = request.param()
    return found


def fault(on: str, often: dict[str, Any] | None = None, *, topic: str | None = "orders", partition: int | None = 0) -> StorageFault:
    return StorageFault(topic=topic, partition=partition, on=on, error="ENOSPC", frequency=FaultFrequency(often or {}))


def folders(files: Files, tmp_path: Path) -> tuple[str, str]:
    found = (f"{tmp_path}/data/orders-0", f"{tmp_path}/data/orders-1")
    for each in found:
        files.make_directory(each)
    return found


def test_each_operation_fails_where_it_shall_and_nowhere_else(beneath: Files, tmp_path: Path) -> None:
    failing = FailingFiles(beneath)
    files = failing.as_files()
    folder, other = folders(files, tmp_path)
    descriptors = {each: files.open(f"{each}/0.log", APPEND) for each in (folder, other)}
    calls: dict[str, Callable[[str], object]] = {
        "write": lambda each: files.write(descriptors[each], b"1234"),
        "read": lambda each: files.read_at(descriptors[each], 4, 0),
        "sync": lambda each: files.sync(descriptors[each]),
        "open": lambda each: files.close(files.open(f"{each}/0.log", APPEND)),
    }
    for broken in calls:
        failing.fail((fault(broken),))
        for name, call in calls.items():
            call(other)
            if name == broken:
                with pytest.raises(OSError, match="a fault of the test") as found:
                    call(folder)
                assert found.value.errno == errno.ENOSPC
            else:
                call(folder)
    failing.fail(())
    for call in calls.values():
        call(folder)
    assert len(read_all(files, f"{folder}/0.log")) == 4 * 4
    for descriptor in descriptors.values():
        files.close(descriptor)


def test_names_are_written_to_the_disk_as_well(beneath: Files, tmp_path: Path) -> None:
    failing = FailingFiles(beneath)
    files = failing.as_files()
    folder, _ = folders(files, tmp_path)
    files.close(files.open(f"{folder}/a", APPEND))
    failing.fail((fault("write"), fault("sync")))
    changes: list[Callable[[], None]] = [
        lambda: files.rename(f"{folder}/a", f"{folder}/b"),
        lambda: files.make_directory(folder),
        lambda: files.sync_directory(folder),
    ]
    for call in changes:
        with pytest.raises(OSError, match="a fault of the test"):
            call()
    assert files.exists(f"{folder}/a")


def test_how_often_is_counted(beneath: Files, tmp_path: Path) -> None:
    failing = FailingFiles(beneath)
    files = failing.as_files()
    folder, other = folders(files, tmp_path)
    descriptor = files.open(f"{folder}/0.log", APPEND)
    second = fault("write", {"call": 2}, topic=None, partition=None)
    failing.fail((second,))
    write_all(files, descriptor, b"1")
    copy = files.duplicate(descriptor)
    with pytest.raises(OSError, match="a fault of the test"):
        files.write(copy, b"2")
    third = files.open(f"{other}/0.log", APPEND)
    write_all(files, third, b"3")
    assert (second.frequency.calls, second.frequency.hits) == (3, 1)
    assert second.to_json() == {"kind": "storage", "topic": None, "partition": None, "on": "write", "error": "ENOSPC"} | {
        "often": {"call": 2},
        "calls": 3,
        "hits": 1,
    }
    for each in (descriptor, copy, third):
        files.close(each)


def test_a_topic_is_all_its_partitions_and_no_other_topic() -> None:
    expected = fault("write", partition=None)
    assert expected.is_for("write", "/data/orders-0/0.log")
    assert expected.is_for("write", "/data/orders-12/0.log")
    assert not expected.is_for("read", "/data/orders-0/0.log")
    for path in ("/data/my-orders-0/0.log", "/data/orders/0.log", "/data/orders-0.1234-delete/0.log", "/data/meta.properties"):
        assert not expected.is_for("write", path)


def test_file_operations_are_not_wrapped_without_faults() -> None:
    files = FailingFiles(RealFiles())
    assert files.read_at is os.pread
    assert files.write is os.write
    files.fail((fault("read"),))
    assert files.read_at is not os.pread
    files.fail(())
    assert files.read_at is os.pread


def test_another_process_gets_the_files_beneath() -> None:
    assert type(pickle.loads(pickle.dumps(FailingFiles(RealFiles())))) is RealFiles  # noqa: S301  our own


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on": "rename"}, "on must be one of write, read, sync, open, got 'rename'"),
        ({"error": "ENOSUCH"}, "'ENOSUCH' is not an error"),
        ({"error": "errorcode"}, "'errorcode' is not an error"),
        ({"topic": None}, "a partition needs its topic"),
    ],
)
def test_nonsense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BrokerError, match=message):
        StorageFault(**dict[str, Any](topic="orders", partition=0, on="write", error="EIO", frequency=FaultFrequency({})) | arguments)
