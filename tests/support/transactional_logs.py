"""Logs full of transactions, for tests."""

from __future__ import annotations

import random

from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.control import ControlType, read_marker
from tests.support.compacting import end_transaction
from tests.support.log_batches import batch_of, idempotent_batch


def fill(log: PartitionLog, seed: int, count: int = 60) -> None:
    """Four transactional producers and one that is none, in each other's way."""
    rng = random.Random(seed)
    sequences, epochs = dict.fromkeys(range(5), 0), dict.fromkeys(range(5), 0)
    ongoing: set[int] = set()
    for _ in range(count):
        producer_id = rng.randrange(5)
        values = [rng.randbytes(rng.randrange(60)) for _ in range(rng.randint(1, 3))]
        if producer_id in ongoing and rng.random() < 0.5:
            ongoing.remove(producer_id)
            if rng.random() < 0.5:
                epochs[producer_id] += 1
                sequences[producer_id] = 0
            end_transaction(log, producer_id, rng.choice([ControlType.ABORT, ControlType.COMMIT]), epoch=epochs[producer_id])
            continue
        is_transactional = producer_id != 4
        log.append(
            idempotent_batch(producer_id, sequences[producer_id], *values, epoch=epochs[producer_id], is_transactional=is_transactional)
        )
        sequences[producer_id] += len(values)
        if is_transactional:
            ongoing.add(producer_id)
        if rng.random() < 0.2:
            log.append(batch_of(*values))


def committed_values(log: PartitionLog, offset: int, max_bytes: int) -> dict[int, bytes | None]:
    """What a consumer gets who asks for committed records only, fetch after fetch, and leaves out what is listed as aborted."""
    values: dict[int, bytes | None] = {}
    void: set[int] = set()
    start = offset
    while data := log.read(offset, max_bytes, isolation=IsolationLevel.READ_COMMITTED):
        batches = list(split_batches(data))
        listed = log.aborted_transactions(offset, batches[-1].last_offset) if log.may_have_aborted(offset) else []
        listed.sort(key=lambda each: each.first_offset)
        for batch in batches:
            while listed and listed[0].first_offset <= batch.last_offset:
                void.add(listed.pop(0).producer_id)
            if batch.is_control:
                marker = read_marker(batch)
                if marker is not None and marker.control_type is ControlType.ABORT:
                    void.discard(batch.producer_id)
            elif not batch.is_transactional or batch.producer_id not in void:
                values |= {record.offset: record.value for record in decode_records(batch) if record.offset >= start}
        offset = batches[-1].next_offset
    return values
