"""What one client writes, every client reads: keys, values, headers, timestamps, null apart from empty, all codecs, large ones."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.clients.adapters import CLIENTS, Read, Sent

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = [
    Sent(b"key", b"value", (("header", b"one"), ("header", b"again"), ("empty", b"")), 1_700_000_000_123),
    Sent(None, b"no key", (), 1_700_000_000_200),
    Sent(b"", b"", (), 1_700_000_000_100),  # out of order, and empty is not null
    Sent(b"tombstone", None, (("h", b"\x00\xff"),), 1_700_000_000_300),
    Sent("schlüssel".encode(), "wert ✓".encode(), (("ключ", "значение".encode()),), 1),
]

each_writer = pytest.mark.parametrize("writer", CLIENTS)
each_reader = pytest.mark.parametrize("reader", CLIENTS)


def expected(records: list[Sent], first_offset: int = 0) -> list[Read]:
    return [Read(first_offset + i, record) for i, record in enumerate(records)]


@each_writer
def test_every_client_reads_records_of_each_other(writer: str, bootstrap: str, topic: str) -> None:
    assert CLIENTS[writer].write(bootstrap, topic, RECORDS) == [0, 1, 2, 3, 4]
    for name, reader in CLIENTS.items():
        assert reader.read(bootstrap, topic, count=5) == expected(RECORDS), name


@pytest.mark.parametrize("writer", ["aiokafka", "confluent-kafka"])  # kafka-python writes none
def test_a_header_may_be_null(writer: str, bootstrap: str, topic: str) -> None:
    records = [Sent(b"k", b"v", (("null", None), ("empty", b"")))]
    CLIENTS[writer].write(bootstrap, topic, records)
    for name, reader in CLIENTS.items():
        assert reader.read(bootstrap, topic, count=1) == expected(records), name


@pytest.mark.parametrize("codec", CODECS)
@each_writer
def test_codecs(writer: str, codec: str, bootstrap: str, topic: str) -> None:
    records = [Sent(b"k%d" % (i % 7), b"a value that compresses well " * 10 + b"%d" % i, (), 1_700_000_000_000 + i) for i in range(200)]
    assert CLIENTS[writer].write(bootstrap, topic, records, compression=codec) == list(range(200))
    for name, reader in CLIENTS.items():
        assert reader.read(bootstrap, topic, count=200) == expected(records), name
        assert reader.read(bootstrap, topic, start=150, count=50) == expected(records[150:], 150), name  # into the middle of a batch


@each_writer
@each_reader
def test_900_kilobyte_messages(writer: str, reader: str, bootstrap: str, topic: str) -> None:
    noise = random.Random(writer).randbytes(900_000)
    records = [Sent(b"large", noise[i:] + noise[:i]) for i in range(3)]
    CLIENTS[writer].write(bootstrap, topic, records)
    assert CLIENTS[reader].read(bootstrap, topic, count=3) == expected(records)


@each_writer
def test_too_large_message_is_refused_and_the_next_is_accepted(writer: str, bootstrap: str, topic: str) -> None:
    with pytest.raises(Exception, match=r"(?i)message_?\s?size_?\s?too_?\s?large|larger than") as refused:
        CLIENTS[writer].write(bootstrap, topic, [Sent(b"k", random.Random(1).randbytes(1_500_000))])
    assert "MessageSizeTooLarge" in type(refused.value).__name__ or "MSG_SIZE_TOO_LARGE" in str(refused.value)
    assert CLIENTS[writer].write(bootstrap, topic, [Sent(b"k", b"v")]) == [0]


@each_writer
def test_a_topic_may_allow_more_than_the_broker(writer: str, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(**{"max.message.bytes": "3000000", "retention.ms": "-1"})
    records = [Sent(b"k", random.Random(1).randbytes(1_500_000))]
    CLIENTS[writer].write(bootstrap, topic, records)
    assert CLIENTS[writer].read(bootstrap, topic, count=1) == expected(records)


@each_writer
def test_partitions_are_apart(writer: str, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3, **{"retention.ms": "-1"})
    for partition in range(3):
        CLIENTS[writer].write(bootstrap, topic, [Sent(None, b"%d" % partition)] * (partition + 1), partition=partition)
    for partition in range(3):
        assert [r.record.value for r in CLIENTS[writer].read(bootstrap, topic, partition=partition, count=partition + 1)] == [
            b"%d" % partition
        ] * (partition + 1)


@each_writer
def test_readers_see_log_append_time(writer: str, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(**{"message.timestamp.type": "LogAppendTime"})
    CLIENTS[writer].write(bootstrap, topic, [Sent(b"k", b"1"), Sent(b"k", b"2")])
    for name, reader in CLIENTS.items():
        assert all(r.record.timestamp > 1_750_000_000_000 for r in reader.read(bootstrap, topic, count=2)), name


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_topic_may_recompress(codec: str, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(**{"compression.type": codec, "retention.ms": "-1"})
    CLIENTS["confluent-kafka"].write(bootstrap, topic, RECORDS, compression="none")
    for name, reader in CLIENTS.items():
        assert reader.read(bootstrap, topic, count=5) == expected(RECORDS), name
