"""Ask a broker what it answers to every batch of lies.py, and print a table: python -m tests.records.observe_lies HOST:PORT.

Columns: name, kind of topic, Produce version, error code, offsets by which the log grew, batch indexes of the record errors; of a
batch that was taken, what the log holds: attributes, record count, max_timestamp against the time of sending, CRC; the error message.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from minibroker.records.any_format import split_batches
from minibroker.records.batch import RecordBatch
from tests.records.lies import KINDS, LIES


class Broker:
    """Raw Produce, ListOffsets, CreateTopics and Fetch at versions that are not flexible."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.address = (host, int(port))
        self.socket = socket.create_connection(self.address)

    def call(self, key: int, version: int, body: bytes) -> bytes:
        frame = struct.pack(">hhi", key, version, 7) + text("observe") + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        return self._exactly(int.from_bytes(self._exactly(4)))[4:]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                self.socket = socket.create_connection(self.address)
                raise ConnectionError("closed")
            data += piece
        return data

    def create(self, topic: str, configs: dict[str, str]) -> None:
        listed = struct.pack(">i", len(configs)) + b"".join(text(name) + text(value) for name, value in configs.items())
        self.call(19, 2, struct.pack(">i", 1) + text(topic) + struct.pack(">ihi", 1, 1, 0) + listed + struct.pack(">ib", 30_000, 0))

    def end(self, topic: str) -> int:
        body = struct.pack(">ibi", -1, 0, 1) + text(topic) + struct.pack(">iiq", 1, 0, -1)
        return int(struct.unpack(">q", self.call(2, 2, body)[-8:])[0])

    def fetch(self, topic: str, offset: int) -> bytes:
        body = struct.pack(">iiiibi", -1, 500, 1, 1 << 30, 0, 1) + text(topic) + struct.pack(">iiqi", 1, 0, offset, 1 << 30)
        answer = self.call(1, 4, body)
        position = 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8
        aborted, size = struct.unpack_from(">ii", answer, position)
        return answer[position + 8 + max(aborted, 0) * 16 :][:size]

    def produce(self, topic: str, data: bytes, version: int) -> tuple[int, list[int], str]:
        body = struct.pack(">hhii", -1, -1, 30_000, 1) + text(topic) + struct.pack(">iii", 1, 0, len(data)) + data
        answer = self.call(0, version, body)
        position = 4 + 2 + len(topic) + 4 + 4
        (code,) = struct.unpack_from(">h", answer, position)
        position += 2 + 8 + 8 + (8 if version >= 5 else 0)
        indexes, message = [], ""
        if version >= 8:
            (count,) = struct.unpack_from(">i", answer, position)
            position += 4
            for _ in range(count):
                index, size = struct.unpack_from(">ih", answer, position)
                indexes.append(index)
                position += 6 + max(size, 0)
            (size,) = struct.unpack_from(">h", answer, position)
            message = answer[position + 2 : position + 2 + max(size, 0)].decode()
        return code, indexes, message


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def stored(broker: Broker, topic: str, offset: int, now_ms: int) -> str:
    batches: list[RecordBatch] = list(split_batches(broker.fetch(topic, offset), allow_partial=True))
    batch = batches[0]
    max_timestamp = "-1" if batch.max_timestamp == -1 else f"now{batch.max_timestamp - now_ms:+d}"
    return f"attributes={batch.attributes} count={batch.record_count} max={max_timestamp} crc={'right' if batch.check_crc() else 'wrong'}"


def main(address: str) -> None:
    broker = Broker(address)
    run = int(time.time())
    for kind, configs in KINDS.items():
        broker.create(f"lies-{kind}-{run}", configs)
    time.sleep(1)
    print("name\tkind\tproduce_version\terror_code\toffsets_taken\trecord_errors\tstored\tmessage")
    for name, lie in LIES.items():
        topic = f"lies-{lie.kind}-{run}"
        now_ms = time.time_ns() // 1_000_000
        before = broker.end(topic)
        try:
            answer, indexes, message = broker.produce(topic, lie.data(now_ms), lie.version)
            code = str(answer)
        except ConnectionError:
            code, indexes, message = "closed", [], ""
        taken = broker.end(topic) - before
        found = stored(broker, topic, before, now_ms) if taken else ""
        message = message.replace(topic, f"lies-{lie.kind}").replace("\t", " ").replace("\n", " ")
        print(name, lie.kind, lie.version, code, taken, ",".join(map(str, indexes)), found, message, sep="\t", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
