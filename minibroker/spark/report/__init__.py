"""Report what topics hold: offsets, records by day, gaps and their reasons, producers, transactions, lag. See docs/report.md.

    pipeline    `report`, all steps, and its result: JSON,   results     the values of a report
                text, picture, DataFrames
    cluster_facts, directory_facts                           scan        Spark tasks that read batches
                what is known without a scan, from brokers   reading     batches from leaders, or from files
                or files
    pieces      batches -> what is counted                   counting    counts it
    runs        summaries of ranges, and how to join them    tables, picture   text and pictures

Invariants: executors return only summaries, a few kilobytes per task. No single record is touched,
except in formats v0 and v1. A cluster and its broker's log directory give the same report, except for
what only brokers know: leaders, states of groups.
"""

from minibroker.spark.report.pipeline import OffsetReport, report
from minibroker.spark.report.results import (
    Bucket,
    Contents,
    Gap,
    GroupOffset,
    PartitionInfo,
    ProducerInfo,
    TimeOffset,
    TopicInfo,
    TransactionInfo,
)

__all__ = [
    "Bucket",
    "Contents",
    "Gap",
    "GroupOffset",
    "OffsetReport",
    "PartitionInfo",
    "ProducerInfo",
    "TimeOffset",
    "TopicInfo",
    "TransactionInfo",
    "report",
]
