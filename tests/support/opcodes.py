"""What code costs without a clock: the instructions of Python's virtual machine that it executes.

The same on every machine, however busy. What C does is not counted: bytes that are copied, system calls, a list that is sorted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_opcodes(work: Callable[[], object]) -> int:
    """How many instructions `work` executes."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        elif event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def least_opcodes(makes: Callable[[], Callable[[], object]], rounds: int = 4) -> int:
    """The least of several rounds, behind one that warms up; `makes` prepares a round's work, which is not counted."""
    makes()()
    return min(count_opcodes(makes()) for _ in range(rounds))
