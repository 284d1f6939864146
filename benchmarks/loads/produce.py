"""Produce: how many bytes and requests a broker accepts."""

from __future__ import annotations

import json
import random
from functools import partial

import frames
from peers import Need, Peer

from loads.common import LINKS, check_produced, measured, new_topic, pumping, warming
from loads.declaration import SYNCED, SYNCED_PROPERTIES, Figures, Load

RECORDS = 64
#: Warms up a broker that syncs every record without syncing.
UNSYNCED = {b"flush.messages": b"9223372036854775807"}


def produce(peer: Peer, scale: float) -> Figures:
    """Batches of 64 records of 1 kB from four connections into four partitions, five requests in flight on each."""
    batch = frames.record_batch(RECORDS, 1000)
    return _produce(peer, batch, scale, warm=12_000, total=max(200, int(512e6 * scale / len(batch))))


def small(peer: Peer, scale: float) -> Figures:
    """One record of 100 bytes a request."""
    return _produce(peer, frames.record_batch(1, 100), scale, warm=80_000, total=max(2000, int(200_000 * scale)))


def produce_synced(peer: Peer, scale: float) -> Figures:
    """Batches of 64 records of 1 kB, each on the disk before it is acknowledged."""
    return _produce(peer, frames.record_batch(RECORDS, 1000), scale, warm=1500, total=max(100, int(1500 * scale)), warm_configs=UNSYNCED)


def small_synced(peer: Peer, scale: float) -> Figures:
    """One record of 100 bytes a request, on the disk before it is acknowledged."""
    return _produce(peer, frames.record_batch(1, 100), scale, warm=3000, total=max(200, int(3000 * scale)), warm_configs=UNSYNCED)


def produce_lz4(peer: Peer, scale: float) -> Figures:
    """Batches of 64 records of 1 kB of JSON, compressed by lz4 beforehand; MB/s and GB are those of the records."""
    import lz4.frame  # noqa: PLC0415  other loads do without it

    return _compressed(peer, scale, frames.Codec(3, lz4.frame.compress))


def produce_zstd(peer: Peer, scale: float) -> Figures:
    """Batches of 64 records of 1 kB of JSON, compressed by zstd beforehand; MB/s and GB are those of the records."""
    import cramjam  # noqa: PLC0415  other loads do without it

    return _compressed(peer, scale, frames.Codec(4, lambda data: bytes(cramjam.zstd.compress(data, 3))))


def _compressed(peer: Peer, scale: float, codec: frames.Codec) -> Figures:
    batch = frames.compressed_batch(_json_values(RECORDS, 1000), codec)
    return _produce(peer, batch, scale, warm=12_000, total=max(200, int(12_000 * scale)), size=RECORDS * 1000)


def _json_values(count: int, size: int) -> list[bytes]:
    """Return JSON like events: repeated names and random numbers."""
    dice = random.Random(1)  # noqa: S311  values, no secrets
    events = ({f"measurement_{number:02}": dice.randrange(10**9) for number in range(40)} for _ in range(count))
    return [json.dumps(event).encode()[:size] for event in events]


def _produce(
    peer: Peer,
    batch: bytes,
    scale: float,
    *,
    warm: int,
    total: int,
    size: int = 0,
    warm_configs: dict[bytes, bytes] | None = None,
) -> Figures:
    topic = new_topic(peer, LINKS)
    warm_topic = new_topic(peer, LINKS, warm_configs) if warm_configs else topic
    with pumping(peer) as pump:

        def run(into: bytes, count: int) -> float:
            requests = [frames.produce(into, partition, batch) for partition in range(LINKS)]
            return pump.run(count, lambda link, _: requests[link.number], check_produced(into))

        run(warm_topic, warming(warm, scale))
        found = measured(peer, total, partial(run, topic, total))
    return found.by_request() | found.by_size(total * (size or len(batch)))


_SYNC = frozenset({Need.SYNC})
LOADS = (
    Load("produce 64 x 1 kB", produce, "Produce", quick=0.2),
    Load("produce 1 x 100 B", small, "Produce", quick=0.2),
    Load("produce 64 x 1 kB, lz4", produce_lz4, "Produce", quick=0.2),
    Load("produce 64 x 1 kB, zstd", produce_zstd, "Produce"),
    Load("produce 64 x 1 kB" + SYNCED, produce_synced, "Produce", properties=SYNCED_PROPERTIES, needs=_SYNC),
    Load("produce 1 x 100 B" + SYNCED, small_synced, "Produce", quick=0.2, properties=SYNCED_PROPERTIES, needs=_SYNC),
)
