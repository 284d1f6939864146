"""A clean stop with many logs that have something to be synced."""

from __future__ import annotations

import errno
import threading

import pytest

from minibroker.cluster.directories.partition_logs import THREADS
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles

COUNT = 2 * THREADS


def _broker(files: FaultyFiles, partition_count: int) -> BrokerInMemory:
    broker = BrokerInMemory(files=files, topics={"orders": partition_count})
    for index in range(partition_count):
        broker.append("orders", index, records(index + 1))
    return broker


class _ListeningFiles(FaultyFiles):
    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def sync(self, descriptor: int) -> None:
        self.threads.add(threading.get_ident())
        super().sync(descriptor)


@pytest.mark.parametrize(("partition_count", "in_threads"), [(COUNT, True), (THREADS - 1, False)])
def test_close_syncs_all_logs_in_threads(partition_count: int, in_threads: bool) -> None:
    files = _ListeningFiles()
    broker = _broker(files, partition_count)
    files.threads.clear()
    logs = [partition.log for partition in broker.cluster.topics["orders"].partitions]
    again = broker.restart()
    assert (files.threads != {threading.get_ident()}) is in_threads
    assert [log.flusher.unflushed_messages for log in logs] == [0] * partition_count
    assert all(directory.was_clean for directory in again.cluster.log_directories)
    assert [partition.log.log_end_offset for partition in again.cluster.topics["orders"].partitions] == list(range(1, partition_count + 1))


def test_failed_sync_makes_the_stop_unclean_but_closes_the_other_logs(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    broker = _broker(files, COUNT)
    logs = [partition.log for partition in broker.cluster.topics["orders"].partitions]
    files.fail("sync", errno.ENOSPC, path_part="orders-7/")
    again = broker.restart()
    assert "orders-7 was not closed cleanly" in caplog.text
    assert all(log.failures.is_closed for log in logs if log.partition != 7)
    assert not any(directory.was_clean for directory in again.cluster.log_directories)
    assert [partition.log.log_end_offset for partition in again.cluster.topics["orders"].partitions] == list(range(1, COUNT + 1))
