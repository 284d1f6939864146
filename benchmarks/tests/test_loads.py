"""What loads declare, and the frames that they send: judged by our own codec, which the tests judge by others'."""

from __future__ import annotations

from typing import Any

import frames
import pytest
from loads import LOADS
from loads.common import Measured, tail_latencies
from loads.declaration import AT, SYNCED, SYNCED_PROPERTIES, curve
from loads.figures import FIGURES, Better, better

from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch
from minibroker.records.compression import Compression, compress
from minibroker.schemas import k01_fetch
from minibroker.wire.compiled import decode_all


def test_each_load_has_a_summary() -> None:
    assert {name for name, load in LOADS.items() if not load.summary or name != load.name} == set()


def test_synced_loads_are_named_synced() -> None:
    assert [load.name for load in LOADS.values() if load.is_synced] == [
        "produce 64 x 1 kB, synced",
        "produce 1 x 100 B, synced",
        "latency, synced",
    ]
    for load in LOADS.values():
        assert (load.properties == SYNCED_PROPERTIES) == load.name.endswith(SYNCED)


def test_only_rates_are_better_when_higher() -> None:
    directed = {name: figure.better for name, figure in FIGURES.items() if figure.better is not Better.NEITHER}
    for name, direction in directed.items():
        assert (direction is Better.HIGHER) == ("/s" in name), name


def test_a_point_of_a_curve_has_the_direction_of_its_figure() -> None:
    assert curve("produce CPU us/request", 1000, "partitions") == f"produce CPU us/request{AT}1,000 partitions"
    assert better(curve("produce CPU us/request", 1000, "partitions")) is Better.LOWER
    assert better("requests/s") is Better.HIGHER
    assert better("nobody declared it") is Better.NEITHER


def test_figures_of_a_measurement() -> None:
    found = Measured(total=1000, seconds=2.0, cpu_s=0.5, client_cpu_s=0.1)
    assert found.by_request() == {"requests/s": 500.0, "CPU us/request": 500.0, "client CPU us/request": 100.0}
    assert found.by_size(4e9) == {"MB/s": 2000.0, "CPU s/GB": 0.125}


def test_tail_latencies() -> None:
    assert tail_latencies("acknowledged", [number / 1e6 for number in range(1000, 0, -1)]) == {
        "acknowledged p50 us": pytest.approx(501),
        "acknowledged p99 us": pytest.approx(991),
        "acknowledged p99.9 us": pytest.approx(1000),
    }


@pytest.mark.parametrize("kind", [Compression.LZ4, Compression.ZSTD])
def test_compressed_batch_is_valid(kind: Compression) -> None:
    values = [b"one", b"two" * 300, b""]
    codec = frames.Codec(kind.value, lambda data: bytes(compress(kind, data, None)))
    batch = RecordBatch(memoryview(bytearray(frames.compressed_batch(values, codec))))
    assert batch.check_crc()
    assert batch.compression is kind
    assert [record.value for record in decode_records(batch, max_bytes=10_000)] == values


def test_a_batch_of_a_time() -> None:
    body = frames.record_batch(3, 10)[frames.BATCH_HEADER :]
    batch = RecordBatch(memoryview(bytearray(frames.timed_batch(3, body, 1_700_000_000_000))))
    assert batch.check_crc()
    assert [record.timestamp for record in decode_records(batch, max_bytes=10_000)] == [1_700_000_000_000] * 3


def test_a_fetch_of_a_session() -> None:
    request = decoded_fetch(frames.fetch_of_session(b"topic", (7, 3), {2: 5, 4: 6}, max_wait_ms=100))
    assert (request.session_id, request.session_epoch, request.max_wait_ms) == (7, 3, 100)
    (topic,) = request.topics
    assert topic.topic == "topic"
    assert [(each.partition, each.fetch_offset) for each in topic.partitions] == [(2, 5), (4, 6)]
    assert not decoded_fetch(frames.fetch_of_session(b"topic", (7, 3), {})).topics


def decoded_fetch(frame: bytes) -> Any:
    """Behind its size and header: key, version, correlation id, client id."""
    return decode_all(k01_fetch.Request, memoryview(frame), 4 + 2 + 2 + 4 + 2 + len(frames.CLIENT_ID), 11, False)
