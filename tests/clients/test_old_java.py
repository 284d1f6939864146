"""Java clients of ten years at one topic: each version writes in all its codecs, and each reads what all of them wrote.

Up to 0.10.0 they read with SimpleConsumer: KafkaConsumer of 0.9 and 0.10.0 asks for a group coordinator even with an assigned partition.
One JVM a version serves the whole module (tests/support/old_java.py).

Apache Kafka 3.9.1 passes these tests too (--bootstrap-server), but for two: of zstd clients of before 2.1 die there, by an unknown codec or
by the bytes that fill a Fetch whose conversion failed half way; and to an AdminClient of 0.11 it calls no config a default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from tests.clients.adapters import CLIENTS, Read, Sent
from tests.support.command_program import ProgramError
from tests.support.old_java import VERSIONS, Found, OldJavaClient, OldRecord, number, run_admin
from tests.support.old_versions import require_old_versions

pytestmark = [pytest.mark.timeout(900)]  # the first run fetches the jars of nine versions

OLD_CODECS = ("none", "gzip", "snappy", "lz4")
START_MS = 1_700_000_000_000
MODERN = [Sent(b"modern", b"with a header", (("h", b"x"),), START_MS + 5000), Sent(None, b"and without", (), START_MS + 5001)]
BATCHES, ZSTD = 0, 1  #: partitions

each_version = pytest.mark.parametrize("version", VERSIONS)


class Written(NamedTuple):
    """What is in partition BATCHES: the record at each offset, and the client that wrote it (None: a modern one)."""

    topic: str
    records: list[OldRecord]
    writers: list[OldJavaClient | None]


@pytest.fixture(scope="module")
def clients(bootstrap: str) -> Iterator[dict[str, OldJavaClient]]:
    require_old_versions(bootstrap)
    with ExitStack() as stack:
        yield {version: stack.enter_context(OldJavaClient(version, bootstrap)) for version in VERSIONS}


def new_topic(bootstrap: str) -> str:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    name = f"old-java-{os.getpid()}"
    admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "-1"})])[name].result(timeout=60)
    return name


def records_of(version: str, codec: str, first: int) -> list[OldRecord]:
    """A plain one, a tombstone, one without a key, one of 2,000 bytes, an empty one; the header is of those who know headers."""
    values = ["värde", None, "keyless", "long " * 400, ""]
    keys = ["key", "key", None, version, ""]
    return [OldRecord(START_MS + first + i, keys[i], values[i], f"{version} {codec}") for i in range(len(values))]


@pytest.fixture(scope="module")
def written(bootstrap: str, clients: dict[str, OldJavaClient]) -> Written:
    topic = new_topic(bootstrap)
    written = Written(topic, [], [])
    for version, client in clients.items():
        for codec in OLD_CODECS:
            records = records_of(version, codec, len(written.records))
            offsets = client.produce(topic, BATCHES, codec, records)
            assert offsets == list(range(len(written.records), len(written.records) + len(records)))
            written.records.extend(records)
            written.writers.extend([client] * len(records))
    CLIENTS["aiokafka"].write(bootstrap, topic, MODERN, partition=BATCHES)
    written.records.extend([OldRecord(START_MS + 5000, "modern", "with a header", "x"), OldRecord(START_MS + 5001, None, "and without")])
    written.writers.extend([None, None])
    return written


def timestamp_of(record: OldRecord, writer: OldJavaClient | None) -> int | None:
    return record.timestamp if writer is None or writer.knows_timestamps else -1


def header_of(record: OldRecord, writer: OldJavaClient | None) -> str | None:
    return record.header if writer is None or writer.knows_headers else None


def as_read_by(reader: OldJavaClient, written: Written) -> list[Found]:
    """All records, as far as both their writers and this reader can say them."""
    found = []
    for offset, (record, writer) in enumerate(zip(written.records, written.writers, strict=True)):
        timestamp = timestamp_of(record, writer) if reader.knows_timestamps else None
        header = header_of(record, writer) if reader.knows_headers else None
        found.append(Found(offset, timestamp, record.key, record.value, header and f"h={header}"))
    return found


@each_version
def test_each_version_reads_records_of_all(clients: dict[str, OldJavaClient], written: Written, version: str) -> None:
    wanted = as_read_by(clients[version], written)
    assert clients[version].consume(written.topic, BATCHES, 0, len(wanted)) == wanted


@each_version
def test_from_the_middle_of_a_batch(clients: dict[str, OldJavaClient], written: Written, version: str) -> None:
    wanted = as_read_by(clients[version], written)
    for offset in (8, len(wanted) // 2 + 1):  # of a gzip set, and of one between
        assert clients[version].consume(written.topic, BATCHES, offset, 20)[:20] == wanted[offset : offset + 20]


def test_modern_client_reads_records_of_all(bootstrap: str, written: Written) -> None:
    def encoded(text: str | None) -> bytes | None:
        return None if text is None else text.encode()

    wanted = []
    for offset, (record, writer) in enumerate(zip(written.records, written.writers, strict=True)):
        header = header_of(record, writer)
        headers = () if header is None else (("h", encoded(header)),)
        wanted.append(Read(offset, Sent(encoded(record.key), encoded(record.value), headers, timestamp_of(record, writer) or 0)))
    assert CLIENTS["aiokafka"].read(bootstrap, written.topic, count=len(wanted), partition=BATCHES) == wanted


@each_version
def test_log_start_and_end_offsets(clients: dict[str, OldJavaClient], written: Written, version: str) -> None:
    client = clients[version]
    assert client.offsets(written.topic, BATCHES, -2) == [0]
    assert client.offsets(written.topic, BATCHES, -1)[0] == len(written.records)
    if client.reads_with_kafka_consumer:  # the others know but the time of a segment's last write
        assert client.offsets(written.topic, BATCHES, START_MS + 5001) == [len(written.records) - 1]


@pytest.fixture(scope="module")
def zstd_from_1(clients: dict[str, OldJavaClient], written: Written) -> str:
    """The topic whose partition ZSTD holds a plain record at offset 0, and zstd batches behind it."""
    clients["0.8.2.2"].produce(written.topic, ZSTD, "none", [OldRecord(None, None, "plain")])
    for version in ("2.8.2", "3.9.1"):
        clients[version].produce(written.topic, ZSTD, "zstd", [OldRecord(START_MS, "k", version)] * 2)
    return written.topic


@each_version
def test_zstd_is_read_by_versions_that_support_it(clients: dict[str, OldJavaClient], zstd_from_1: str, version: str) -> None:
    client = clients[version]
    if client.knows_zstd:
        values = [found.value for found in client.consume(zstd_from_1, ZSTD, 0, 5)]
        assert values == ["plain", "2.8.2", "2.8.2", "3.9.1", "3.9.1"]
        return
    if client.reads_with_kafka_consumer and number(version) >= (0, 11):
        # Their versions of Fetch (4 to 9) are answered with the batches as they are, as by Apache Kafka 4.3.1.
        with pytest.raises(ProgramError, match="Unknown compression type id: 4"):
            client.consume(zstd_from_1, ZSTD, 0, 1)
        return
    # Clients with older versions of Fetch get the records before it. KafkaConsumer then asks again; SimpleConsumer reports the error.
    assert [found.value for found in client.consume(zstd_from_1, ZSTD, 0, 1)] == ["plain"]
    if not client.reads_with_kafka_consumer:
        with pytest.raises(ProgramError, match="error 76"):
            client.consume(zstd_from_1, ZSTD, 1, 1)


@pytest.mark.parametrize("version", [version for version in VERSIONS if number(version) >= (0, 11)])
def test_admin_client(bootstrap: str, version: str) -> None:
    require_old_versions(bootstrap)
    said = run_admin(version, bootstrap, f"admin-{version}-{os.getpid()}")
    assert said == [
        "listed: true",
        "partitions: 2",
        "brokers: 1",
        "configs: {retention.ms=-1, segment.bytes=1073741824 (default)}",
        "configs: {retention.ms=604800000 (default), segment.bytes=1048576}",
        *(["log dirs: 1"] if number(version) >= (1, 0) else []),
        "listed: false",
    ]
