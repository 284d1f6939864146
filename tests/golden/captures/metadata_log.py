"""Copy batches of an Apache Kafka's metadata log.

Writes metadata_log_kafka_4.3.1.json: provenance, and batches in hexadecimal: each that holds a record type for one of its first
three times, in the order of the log, offsets as they were. Topics, partitions, configs and producer ids were made with the Admin API.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch

FILE = Path(__file__).parents[1] / "metadata_log_kafka_4.3.1.json"
TIMES = 3


def kinds(batch: RecordBatch) -> set[bytes]:
    """Control type, or frame version, record id and record version (each below 128, so one byte)."""
    return {(record.key or b"") if batch.is_control else (record.value or b"")[:3] for record in decode_records(batch)}


def capture(log_file: str) -> None:
    """Choose the batches and write them."""
    seen: Counter[bytes] = Counter()
    batches = []
    for batch in split_batches(Path(log_file).read_bytes(), allow_partial=True):
        if any(seen[kind] < TIMES for kind in kinds(batch)):
            batches.append(bytes(batch.data).hex())
        seen.update(kinds(batch))
    provenance = "__cluster_metadata-0/00000000000000000000.log of Apache Kafka 4.3.1, one KRaft node formatted with --standalone"
    FILE.write_text(json.dumps({"provenance": provenance, "batches": batches}, indent=0) + "\n")
