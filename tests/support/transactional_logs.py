"""Logs full of transactions, for tests."""

from __future__ import annotations

import random

from minibroker.log.partition_log import PartitionLog
from minibroker.records.control import ControlType
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
