"""Replay: records of a table or a DataFrame go to topics, each exactly once, and a run that ended early goes on. docs/replay.md shows how.

    job         `replay`: one run, step by step          begin      what earlier runs of its name did, and that this is the last one
    selection   which records                            frame      their columns, arranged one target partition a task
    scan        what there is to do                      keys       the partition of records without one
    targets     the topics                               placement  numbers that Spark's hash sends to different tasks
    task        what an executor does                    encode     columns of Arrow -> payload of a batch    packing  cuts, compresses
    writer      transactions of one target partition     sender     their produce requests                    pace     so many a second
    ledger      the topic of runs and offset ranges      runs       old and new offsets                       mapping  as a DataFrame

Invariant: records, the mapping of their offsets and the offset with which to go on are committed in one transaction, or not at all. Which
records are in it is told by old offsets alone, so that tasks, drivers and brokers may die anywhere.
"""

from __future__ import annotations

from minibroker.spark.errors import ReplayError
from minibroker.spark.replay.job import ReplayedPartition, ReplayResult, Tuning, replay
from minibroker.spark.replay.mapping import read_mapping
from minibroker.spark.replay.targets import Creation

__all__ = ["Creation", "ReplayError", "ReplayResult", "ReplayedPartition", "Tuning", "read_mapping", "replay"]
