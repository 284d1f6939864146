"""Latency: how long one client waits."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

import frames
from peers import Peer
from pump import call, connect, read_answer

from loads.common import FETCH_BYTES, new_topic, percentile_us, seconds_of, warming
from loads.declaration import Figures, Load


def latency(peer: Peer, scale: float) -> Figures:
    """One client that waits for each acknowledgement; then from a produce to the answer of a Fetch that was waiting for it."""
    topic = new_topic(peer, 1)
    request = frames.produce(topic, 0, frames.record_batch(1, 100))
    with contextlib.closing(connect(peer.address)) as producer, contextlib.closing(connect(peer.address)) as consumer:
        for _ in range(warming(20_000, scale)):
            call(producer, request)
        acknowledged = sorted(seconds_of(lambda: call(producer, request)) for _ in range(max(500, int(5000 * scale))))
        offset = _end_offset(producer, topic)
        delivered = []
        for _ in range(max(200, int(1000 * scale))):
            consumer.sendall(frames.fetch(topic, 0, offset, FETCH_BYTES))
            time.sleep(0.0005)  # the Fetch must be parked before the record comes
            started = time.perf_counter()
            producer.sendall(request)
            read_answer(consumer)
            delivered.append(time.perf_counter() - started)
            read_answer(producer)
            offset += 1
        delivered.sort()
    return {
        "acknowledged p50 us": percentile_us(acknowledged, 0.50),
        "acknowledged p99 us": percentile_us(acknowledged, 0.99),
        "delivered p50 us": percentile_us(delivered, 0.50),
        "delivered p99 us": percentile_us(delivered, 0.99),
    }


def _end_offset(connection: socket.socket, topic: bytes) -> int:
    answer = call(connection, frames.list_offsets(topic, 0, -1))
    return int(struct.unpack_from(">q", answer, frames.BODY + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8)[0])


LOADS = (Load("latency", latency, "Latency", quick=0.2),)
