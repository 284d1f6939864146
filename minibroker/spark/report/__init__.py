"""Report what topics hold: offsets, records by day, gaps and their reasons, producers, transactions, lag. See docs/report.md.

    pipeline    `report`, all steps                          results     what was found, as values
    cluster_facts, directory_facts, internal_topics          offset_report   the result: JSON, text, picture, DataFrames
                what is known without a scan, from brokers   scan        Spark tasks that read batches, from leaders
                or files                                                 (fetching) or files (reading)
    pieces      batches -> what is counted                   counting    counts it
    runs        summaries of ranges, and how to join them    tables, picture   text and pictures

Invariants: executors return only summaries, a few kilobytes per task. No single record is touched,
except in formats v0 and v1. A cluster and its broker's log directory give the same report, except for
what only brokers know: leaders, states of groups.
"""

from minibroker.spark.report.offset_report import OffsetReport
from minibroker.spark.report.pipeline import report
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
