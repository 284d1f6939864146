"""Segments with message formats v0 and v1, as an old Kafka left them: today's clients and Apache Kafka 4.3.1 read them from our broker's
directory, and what is written behind them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from minibroker.records.compression import Compression
from minibroker.records.legacy import build_message_set
from minibroker.records.record import Record
from tests.clients.adapters import CLIENTS, Read, Sent
from tests.cluster.directories.test_storage_checking import check
from tests.support.broker_process import BrokerProcess
from tests.support.dump_log import check_directory
from tests.support.kafka_process import KafkaProcess

pytestmark = [pytest.mark.timeout(600)]

START_MS = 1_700_000_000_000
#: the set in front of all: of the readers here only librdkafka knows the old lz4 header without another package
FIRST = (0, Compression.LZ4)
SETS = [FIRST, *((magic, codec) for magic in (1, 0, 1, 0) for codec in list(Compression)[:4] if (magic, codec) != FIRST)]
PER_SET = 25
TIMES = [0, *range(START_MS, START_MS + 400, 20), START_MS + 10_000, START_MS + 10_001]
END = -1  #: librdkafka's OFFSET_END: there is no such record
NEW = [Sent(b"new", b"behind them", (("h", b"1"),), START_MS + 10_000)]


def old_log() -> tuple[bytes, list[Record]]:
    """Sets of each codec and format."""
    data = bytearray()
    records: list[Record] = []
    for magic, codec in SETS:
        first = len(records)
        numbers = range(first, first + PER_SET)
        found = [Record(number, START_MS + number if magic else -1, b"k%d" % number, b"old %d " % number * 9) for number in numbers]
        data += build_message_set(found, magic, compression=codec)
        records += found
    return bytes(data), records


def without_missing_times(found: list[Read]) -> list[Read]:
    """Clients show the absent time of v0 as -1, 0 or None."""
    return [Read(offset, sent if (sent.timestamp or 0) > 0 else sent._replace(timestamp=-1)) for offset, sent in found]


def offsets_at(bootstrap: str) -> list[int]:
    """The first offset at or after each of TIMES."""
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used"})
    try:
        return [consumer.offsets_for_times([TopicPartition("orders", 0, time)], timeout=60)[0].offset for time in TIMES]
    finally:
        consumer.close()


def put(data_dir: Path, data: bytes) -> None:
    """In place of what an empty topic has."""
    folder = data_dir / "orders-0"
    for path in folder.glob("0*"):
        path.unlink()
    (folder / f"{0:020}.log").write_bytes(data)


@pytest.mark.parametrize("is_clean", [True, False])
def test_todays_clients_read_them(tmp_path: Path, is_clean: bool) -> None:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    data, records = old_log()
    expected = [Read(record.offset, Sent(record.key, record.value, (), record.timestamp)) for record in records]
    with BrokerProcess(tmp_path) as broker:
        topic = NewTopic("orders", 1, 1, config={"retention.ms": "-1", "index.interval.bytes": "500"})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([topic])["orders"].result(timeout=60)
        assert broker.stop() == 0
        put(broker.data_dir, data)
        if not is_clean:
            (broker.data_dir / ".kafka_cleanshutdown").unlink()
        broker.restart()
        for name, client in CLIENTS.items():
            start = 0 if name == "confluent-kafka" else PER_SET
            found = client.read(broker.bootstrap, "orders", start=start, count=len(records) - start)
            assert without_missing_times(found) == expected[start:], name
            assert without_missing_times(client.read(broker.bootstrap, "orders", start=137, count=1)) == expected[137:138], name
        assert CLIENTS["confluent-kafka"].write(broker.bootstrap, "orders", NEW) == [len(records)]
        expected.append(Read(len(records), NEW[0]))
        offsets = offsets_at(broker.bootstrap)
        assert offsets == [next((o for o, sent in expected if sent.timestamp >= time), END) for time in TIMES]
        assert broker.stop() == 0
        check_directory(broker.data_dir)
        assert check(broker.data_dir) == []

        (tmp_path / "kafka").mkdir()
        with KafkaProcess(tmp_path / "kafka", broker.data_dir) as kafka:
            read = CLIENTS["confluent-kafka"].read(kafka.bootstrap, "orders", count=len(expected))
            assert without_missing_times(read) == expected
            assert offsets_at(kafka.bootstrap) == offsets
            kafka.stop()
        broker.restart()
        assert without_missing_times(CLIENTS["confluent-kafka"].read(broker.bootstrap, "orders", count=len(expected))) == expected
        assert broker.stop() == 0
