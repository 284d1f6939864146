"""Replay records of a table or a DataFrame to topics, each exactly once, and resume interrupted runs. See docs/replay.md.

    job         `replay`, one run step by step            begin      the state that earlier runs have left
    frame       selected records, counted, one target partition per task
    targets     the topics, and partitions by key         encode     Arrow columns -> batches
    task        the function that executors run           writer     transactions of one target partition
    sender      their produce requests                    ledger     the topic of runs and offset mappings
    mapping     the offset mapping as a DataFrame

Invariant: records, the mapping of their offsets and the offset to continue from are committed in one
transaction, or not at all. Only old offsets decide which records a transaction has. Therefore tasks, drivers
and brokers may die at any time.
"""

from __future__ import annotations

from minibroker.spark.failures import ReplayError
from minibroker.spark.replay.job import ReplayedPartition, ReplayResult, Tuning, replay
from minibroker.spark.replay.mapping import read_mapping
from minibroker.spark.replay.targets import Creation

__all__ = ["Creation", "ReplayError", "ReplayResult", "ReplayedPartition", "Tuning", "read_mapping", "replay"]
