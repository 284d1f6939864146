"""Validate a produced batch as the log does: at once, or in steps where it is long."""

from __future__ import annotations

from minibroker.records.batch import RecordBatch
from minibroker.records.long_batch import validate_in_steps
from minibroker.records.steps import LongBatch, finished
from minibroker.records.validate import ProduceRules, validate_at_once


def validate_produced(data: memoryview, rules: ProduceRules, *, now_ms: int, produce_version: int | None = None) -> RecordBatch:
    try:
        return validate_at_once(data, rules, now_ms=now_ms, produce_version=produce_version)
    except LongBatch:
        return finished(validate_in_steps(data, rules, now_ms=lambda: now_ms, produce_version=produce_version))
