"""What topics hold: offsets, records by day, gaps and why, producers, transactions, lag. docs/report.md shows how.

    pipeline    the report, put together                       results     what it says, as values, JSON and DataFrames
    facts       what is told without a scan, by                cluster_facts     brokers
                                                               directory_facts   the files of one
    scan        Spark's tasks, each of which reads batches     fetching    from leaders
                                                               reading     from files
    pieces      batches -> what is counted                     counting    counts it
    runs        summaries of ranges, and how they are joined   tables, picture   for people

Invariants: nothing is collected but summaries, a few kilobytes a task. No record is touched one by one, but of formats v0 and v1.
A cluster and the log directory of its broker give the same report, but for what only brokers know: leaders, states of groups.
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
