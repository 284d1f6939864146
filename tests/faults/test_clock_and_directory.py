"""A clock that jumps, timestamps that lie in the future, and a second process on one log directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minibroker.schemas import k00_produce, k02_list_offsets
from minibroker.wire.schema import NIL_UUID
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.broker_process import BrokerProcess

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def offset_at(broker: BrokerInMemory, timestamp: int) -> tuple[int, int]:
    """(offset, timestamp) that ListOffsets finds."""
    partition = k02_list_offsets.Partition(partition_index=0, timestamp=timestamp)
    asked = k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=[partition])])
    (found,) = broker.ask(asked, 7).topics[0].partitions
    assert found.error_code == 0
    return found.offset, found.timestamp


@pytest.mark.parametrize("jump_ms", [DAY_MS, -DAY_MS])
def test_look_ups_by_timestamp_after_the_clock_jumped(jump_ms: int) -> None:
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.message.timestamp.type": "LogAppendTime"})
    before = broker.clock.now_ms()
    broker.append("orders", 0, records(5))
    broker.clock.jump(jump_ms)
    after = broker.clock.now_ms()
    broker.append("orders", 0, records(5))

    assert offset_at(broker, before) == (0, before)
    assert offset_at(broker, after) == ((5, after) if jump_ms > 0 else (0, before))  # the first record at or after it
    assert offset_at(broker, max(before, after) + 1) == (-1, -1)
    assert offset_at(broker, -3) == ((5, after) if jump_ms > 0 else (0, before))
    assert offset_at(broker, -1) == (10, -1)


@pytest.mark.parametrize("jump_ms", [DAY_MS, -DAY_MS, 8 * DAY_MS])
def test_the_same_after_a_crash_under_a_wrong_clock(jump_ms: int) -> None:
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.message.timestamp.after.max.ms": str(30 * DAY_MS)})
    start = broker.clock.now_ms()
    broker.append("orders", 0, records(5))
    broker.clock.jump(jump_ms)
    again = broker.restart(clean=False)
    assert offset_at(again, start + 2) == (2, start + 2)
    assert offset_at(again, -1) == (5, -1)
    again.append("orders", 0, records(5, timestamp=start + 100))
    assert offset_at(again, start + 50) == (5, start + 100)


def produced(broker: BrokerInMemory, timestamp: int) -> int:
    """Produce one record of that time; the error code."""
    partition = k00_produce.Partition(index=0, records=records(1, timestamp=timestamp))
    topic = k00_produce.Topic(name="orders", topic_id=NIL_UUID, partition_data=[partition])
    answer = broker.ask(k00_produce.Request(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def test_timestamps_in_the_future_are_refused_beyond_an_hour() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    now = broker.clock.now_ms()
    assert produced(broker, now + HOUR_MS) == 0
    assert produced(broker, now + HOUR_MS + 1) == 32
    assert produced(broker, now) == 0
    assert offset_at(broker, -3) == (0, now + HOUR_MS)
    assert offset_at(broker, now) == (0, now + HOUR_MS)  # the first that is not before it, by offset
    assert offset_at(broker, now + HOUR_MS + 1) == (-1, -1)


def test_a_second_process_on_one_directory_refuses(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        command = [sys.executable, "-m", "minibroker", "serve", "--port", "0", "--data-dir", str(broker.data_dir)]
        second = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert second.returncode == 1
        assert second.stdout == ""
        (line,) = second.stderr.splitlines()
        assert str(broker.data_dir) in line
        assert "Traceback" not in line
        broker.kill()
        broker.restart()  # the lock died with its owner
        assert broker.stop() == 0
