"""Peers that lie, over real sockets (FAULTS: frames, counts, names): closed or refused, memory flat, nobody else disturbed."""

from __future__ import annotations

import gzip
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import cramjam
import lz4.frame
import pytest

from minibroker.records.compression import Compression
from minibroker.records.legacy import build_message_set, with_old_checksum, write_message
from minibroker.records.record import Record
from minibroker.schemas import k00_produce, k03_metadata, k18_api_versions, k19_create_topics, k21_delete_records
from minibroker.wire import codec
from tests.golden import golden
from tests.records import lies
from tests.support.broker_process import BrokerProcess

MEGABYTE = 1 << 20
API_VERSIONS = golden("k18_api_versions_v3_request_franz_go_1.22.2")


class Peer:
    """A raw connection."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._socket = socket.create_connection(("127.0.0.1", broker.port), timeout=60)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """One frame without its size; empty when the broker closed."""
        try:
            prefix = self._exactly(4)
            return self._exactly(int.from_bytes(prefix, "big")) if prefix else b""
        except ConnectionResetError:
            return b""

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                return b""
            data += more
        return data

    def ask(self, frame: bytes) -> bytes:
        self.send(struct.pack(">i", len(frame)) + frame)
        return self.receive()

    def is_served(self) -> bool:
        answer = self.ask(API_VERSIONS.frame)
        return answer[:4] == API_VERSIONS.frame[4:8]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("bad-input") / "broker"  # whose parent has nothing of other tests
    folder.mkdir()
    with BrokerProcess(folder) as process:
        yield process
        assert "Traceback" not in process.output, process.output
        assert process.stop() == 0


@pytest.fixture(autouse=True)
def nobody_else_notices(broker: BrokerProcess) -> Iterator[None]:
    """A connection that was there before is served after, and memory did not grow."""
    bystander = Peer(broker)
    assert bystander.is_served()
    before = broker.resident_bytes()
    yield
    assert bystander.is_served()
    assert broker.resident_bytes() - before < 32 * MEGABYTE
    bystander.close()


@pytest.mark.parametrize(
    ("first_bytes", "looks_like"),
    [
        (struct.pack(">i", -1), ""),
        (struct.pack(">i", 0), ""),
        (struct.pack(">i", 2**31 - 1), ""),
        (struct.pack(">i", 104_857_601), ""),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), "TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
    ],
    ids=["minus one", "zero", "2^31-1", "one above the limit", "HTTP", "TLS", "SSH"],
)
def test_a_senseless_frame_size_closes_with_one_line_in_the_log(broker: BrokerProcess, first_bytes: bytes, looks_like: str) -> None:
    lines = len(broker.output.splitlines())
    peer = Peer(broker)
    peer.send(first_bytes)
    assert peer.receive() == b""
    (said,) = broker.output.splitlines()[lines:]
    assert looks_like in said


def request(api_key: int, version: int, body: bytes, *, tagged: bool = False) -> bytes:
    return struct.pack(">hhih", api_key, version, 1, 1) + b"x" + (b"\0" if tagged else b"") + body


@pytest.mark.parametrize(
    "frame",
    [
        request(3, 1, struct.pack(">i", 2**31 - 1)),
        request(3, 1, struct.pack(">i", -2)),
        request(3, 1, struct.pack(">ih", 1, -1)),
        request(3, 1, struct.pack(">ih", 1, 32767) + b"short"),
        request(3, 9, b"\xff\xff\xff\xff\x0f", tagged=True),
        request(3, 9, b"\xff\xff\xff\xff\xff\xff", tagged=True),
        request(3, 9, b"\x01\x00\x00\x00\x80\x80\x80\x80\x04", tagged=True),
        struct.pack(">hhih", 3, 9, 1, 1) + b"x" + b"\x80\x80\x80\x80\x04",
        struct.pack(">hhih", 3, 1, 1, 1000) + b"x",
        struct.pack(">hhih", 3, 1, 1, -2),
        b"\x00",
        request(999, 0, b""),
        request(-1, 0, b""),
        request(3, 14, b""),
        request(3, -1, b""),
        request(0, 2, b""),
    ],
    ids=[
        "array of 2^31-1",
        "array of -2",
        "null name",
        "string beyond the end",
        "compact array of 2^31",
        "varint of six bytes",
        "2^30 tagged fields",
        "2^30 tagged fields in the header",
        "client_id beyond the end",
        "client_id of length -2",
        "one byte",
        "unknown key",
        "negative key",
        "version too new",
        "version below zero",
        "version too old",
    ],
)
def test_a_lie_closes(broker: BrokerProcess, frame: bytes) -> None:
    peer = Peer(broker)
    assert peer.ask(frame) == b""


def test_api_versions_too_new_is_answered_in_version_0(broker: BrokerProcess) -> None:
    peer = Peer(broker)
    answer = codec.decode(
        k18_api_versions.Response, peer.ask(golden("k18_api_versions_v5_request_franz_go_1.22.2").frame)[4:], 0, flexible=False
    )
    assert answer.error_code == 35
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
    assert peer.is_served()


def create(peer: Peer, name: str) -> int:
    """Ask for a topic; the error code."""
    topic = k19_create_topics.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    asked = k19_create_topics.Request(topics=[topic], timeout_ms=1000)
    answer = peer.ask(request(19, 4, codec.encode(asked, 4, flexible=False)))
    return int(codec.decode(k19_create_topics.Response, answer[4:], 4, flexible=False).topics[0].error_code)


BAD_NAMES = ["", ".", "..", "../up", "a/b", "a\\b", "x" * 250, "ü", "tab\t", "null\0", "__cluster_metadata/..", "C:"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_topic_name_makes_nothing_anywhere(broker: BrokerProcess, name: str) -> None:
    def tree() -> set[Path]:
        return {path for path in broker.folder.parent.rglob("*") if path.is_dir()}

    before = tree()
    peer = Peer(broker)
    assert create(peer, name) == 17

    auto = k03_metadata.Request(topics=[k03_metadata.Topic(name=name)], allow_auto_topic_creation=True)
    asked = codec.decode(k03_metadata.Response, peer.ask(request(3, 4, codec.encode(auto, 4, flexible=False)))[4:], 4, flexible=False)
    assert [topic.error_code for topic in asked.topics] == [17]

    delete = k21_delete_records.Request(
        topics=[k21_delete_records.Topic(name=name, partitions=[k21_delete_records.Partition(partition_index=0, offset=-1)])], timeout_ms=0
    )
    refused = codec.decode(
        k21_delete_records.Response, peer.ask(request(21, 1, codec.encode(delete, 1, flexible=False)))[4:], 1, flexible=False
    )
    assert [partition.error_code for topic in refused.topics for partition in topic.partitions] == [3]
    assert tree() == before


def test_names_that_collide_in_metrics_are_refused(broker: BrokerProcess) -> None:
    peer = Peer(broker)
    assert create(peer, "a.b") == 0
    assert create(peer, "a_b") == 17
    assert create(peer, "a.b") == 36


def peak_bytes(broker: BrokerProcess) -> int:
    """The most memory that the broker ever held."""
    (line,) = [line for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def bomb(codec: Compression) -> bytes:
    """A batch below 1 MB whose payload is much more when decompressed: 100 MB of zeros, 10 GB for zstd."""
    zeros = bytes(101 * MEGABYTE)
    match codec:
        case Compression.GZIP:
            payload = gzip.compress(zeros, 5)
        case Compression.LZ4:
            payload = lz4.frame.compress(zeros)
        case Compression.SNAPPY:  # compresses zeros to a twentieth at best, so it says that it holds more than it does
            payload = b"\xff\xff\xff\xff\x07" + bytes(cramjam.snappy.compress_raw(zeros[:MEGABYTE]))[3:]
        case _:
            payload = b"\x28\xb5\x2f\xfd\x00\x38" + b"\x02\x00\x10\x00" * ((10 << 30 >> 17) - 1) + b"\x03\x00\x10\x00"
    return lies.with_payload(payload, 1, codec)(int(time.time() * 1000))


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.LZ4, Compression.SNAPPY, Compression.ZSTD])
def test_a_decompression_bomb_is_an_invalid_record(broker: BrokerProcess, kind: Compression) -> None:
    peer = Peer(broker)
    create(peer, "bombed")
    partition = k00_produce.Partition(index=0, records=bomb(kind))
    asked = k00_produce.Request(acks=-1, timeout_ms=1000, topic_data=[k00_produce.Topic(name="bombed", partition_data=[partition])])
    before = peak_bytes(broker)
    answer = codec.decode(k00_produce.Response, peer.ask(request(0, 7, codec.encode(asked, 7, flexible=False)))[4:], 7, flexible=False)
    assert [p.error_code for topic in answer.responses for p in topic.partition_responses] == [87]
    assert peak_bytes(broker) - before < 32 * MEGABYTE  # it is walked piece by piece
    assert sum(file.stat().st_size for file in (broker.data_dir / "bombed-0").glob("*.log")) == 0


def old_bomb(codec: Compression, content: bytes) -> bytes:
    """A compressed set of message format v0 around `content`, 100 MB or so."""
    match codec:
        case Compression.GZIP:
            payload = gzip.compress(content, 5)
        case Compression.LZ4:
            payload = bytes(with_old_checksum(lz4.frame.compress(content, store_size=False)))
        case _:
            payload = b"\xff\xff\xff\xff\x07" + bytes(cramjam.snappy.compress_raw(content[:MEGABYTE]))[3:]
    message = bytearray()
    write_message(message, Record(0, -1, None, payload), 0, codec)
    return bytes(message)


SMALLEST = bytes(build_message_set([Record(0, -1, None, None)], 0))


@pytest.mark.parametrize(
    ("kind", "content", "code"),
    [
        (Compression.GZIP, bytes(101 * MEGABYTE), 87),
        (Compression.LZ4, bytes(101 * MEGABYTE), 87),
        (Compression.SNAPPY, bytes(101 * MEGABYTE), 87),
        (Compression.GZIP, SMALLEST * (20 * MEGABYTE // len(SMALLEST)), 10),  # 700,000 messages: MESSAGE_TOO_LARGE
    ],
    ids=["gzip", "lz4", "snappy", "messages"],
)
def test_a_decompression_bomb_of_an_old_client(broker: BrokerProcess, kind: Compression, content: bytes, code: int) -> None:
    peer = Peer(broker)
    create(peer, "bombed-by-the-old")
    partition = k00_produce.Partition(index=0, records=old_bomb(kind, content))
    topic = k00_produce.Topic(name="bombed-by-the-old", partition_data=[partition])
    asked = k00_produce.Request(acks=-1, timeout_ms=1000, topic_data=[topic])
    before = peak_bytes(broker)
    answer = codec.decode(k00_produce.Response, peer.ask(request(0, 1, codec.encode(asked, 1, flexible=False)))[4:], 1, flexible=False)
    assert [p.error_code for topic in answer.responses for p in topic.partition_responses] == [code]
    assert peak_bytes(broker) - before < 96 * MEGABYTE
    assert sum(file.stat().st_size for file in (broker.data_dir / "bombed-by-the-old-0").glob("*.log")) == 0
