"""Compare two sides, such as a topic and its archive or two clusters. See docs/audit.md.

    auditing   `audit`, all steps                        extents    which offsets of both sides are compared
    comparing  two DataFrames -> digests of ranges, side by side, from 64-bit digests of records
    matching   records by offset, or by order            reading    one side as users write it, its records as DataFrames
    result     the result as values and JSON

Invariants: records stay on executors. The driver gets one row per partition and a bounded number of
differences. No window, sort or task spans a whole partition of a topic.
"""

from __future__ import annotations

from minibroker.spark.audit.auditing import audit
from minibroker.spark.audit.reading import Side, parse_side
from minibroker.spark.audit.result import AuditResult, Difference, DifferentRange, NotCompared, PartitionAudit, SeenRecord

__all__ = [
    "AuditResult",
    "Difference",
    "DifferentRange",
    "NotCompared",
    "PartitionAudit",
    "SeenRecord",
    "Side",
    "audit",
    "parse_side",
]
