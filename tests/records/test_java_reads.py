from __future__ import annotations

from pathlib import Path

from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from minibroker.records.record import Record
from tests.support.dump_log import batches_of, dump

NOW_MS = 1_700_000_000_000
LEVELS = {Compression.GZIP: 9, Compression.LZ4: 17, Compression.ZSTD: 19}


def test_dump_log_segments_reads_batches_of_every_codec(tmp_path: Path) -> None:
    """DumpLogSegments decompresses, sums and counts each batch, and prints every record."""
    records = [Record(0, NOW_MS + index, b"key-%d" % index, b"value " * index, (("trace", b"%d" % index),)) for index in range(100)]
    log = bytearray()
    next_offset = 0
    for codec in Compression:
        for level in {None, LEVELS.get(codec)}:
            log += build_batch(records, base_offset=next_offset, compression=codec, level=level, partition_leader_epoch=0)
            next_offset += len(records)
    marker = EndTransactionMarker(ControlType.COMMIT, 3)
    log += build_end_transaction_batch(
        marker, timestamp=NOW_MS, producer_id=1, producer_epoch=0, base_offset=next_offset, partition_leader_epoch=0
    )
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(log)

    output = dump([file], "--deep-iteration", "--print-data-log")

    batches = batches_of(output)
    assert [batch["compresscodec"] for batch in batches] == ["none", "gzip", "gzip", "snappy", "lz4", "lz4", "zstd", "zstd", "none"]
    assert {batch["isvalid"] for batch in batches} == {"true"}
    assert [int(batch["count"]) for batch in batches] == [100] * 8 + [1]
    assert output.count("payload: value value") == 8 * 98
    assert output.count("headerKeys: [trace]") == 800
    assert "endTxnMarker: COMMIT coordinatorEpoch: 3" in output
