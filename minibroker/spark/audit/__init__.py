"""Two sides compared: a topic and its archive, say, or two clusters. docs/audit.md shows how.

    sides     what can be compared, as users write it            extents    which offsets of both are compared
    digest    records -> 64 bits, on executors                   comparing  two frames -> digests of ranges, side by side
    by_offset, by_order   the two ways of finding partners       sequences  what happened between two sequences
    details   the records of a first difference                  reading    one side as frames
    auditing  `audit`: all of it                                 result     what it says

Invariants: records stay on executors; what the driver gets is one row for a partition, and a bounded number of differences.
No window, sort or task ever spans a whole partition of a topic. sides, extents, sequences and result need no PySpark.
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
