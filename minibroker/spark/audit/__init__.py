"""Compare two sides, such as a topic and its archive or two clusters. See docs/audit.md.

    sides     what can be compared, as users write it     extents    which offsets of both sides are compared
    comparing two DataFrames -> digests of ranges, side by side, from 64-bit digests of records
    by_offset, by_order   the two ways to match records   reading    one side as DataFrames, and single records
    auditing  `audit`, all steps                          result     the result as values and JSON

Invariants: records stay on executors. The driver gets one row per partition and a bounded number of
differences. No window, sort or task spans a whole partition of a topic.
"""

from __future__ import annotations

from minibroker.spark.audit.auditing import audit
from minibroker.spark.audit.result import AuditResult, Difference, DifferentRange, NotCompared, PartitionAudit, SeenRecord
from minibroker.spark.audit.sides import Side, parse_side

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
