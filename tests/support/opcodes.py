"""What code costs without a clock: the instructions of Python's virtual machine that it executes.

The same on every machine, however busy. What C does is not counted: bytes that are copied, system calls, a list that is sorted.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import pytest

from minibroker.compilation import is_compiled

_TOOL = 4  #: of sys.monitoring: one that has no meaning there


def count_opcodes(work: Callable[[], object]) -> int:
    """How many instructions `work` executes. Skips the test where part of the code is not Python's: in a compiled build."""
    if is_compiled():
        pytest.skip("compiled code executes no instructions of Python's virtual machine")
    return _count_monitored(work) if sys.version_info >= (3, 12) else _count_traced(work)


def _count_monitored(work: Callable[[], object]) -> int:
    """Used from 3.12 on: in 3.14 a trace function that asks for the instructions of a function when it is called gets next to none."""
    count = 0
    thread = get_ident()

    def add(_code: CodeType, _offset: int) -> None:
        nonlocal count
        if get_ident() == thread:
            count += 1

    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # mypy checks for 3.11
    monitoring.use_tool_id(_TOOL, __name__)
    try:
        monitoring.register_callback(_TOOL, monitoring.events.INSTRUCTION, add)
        monitoring.set_events(_TOOL, monitoring.events.INSTRUCTION)
        work()
    finally:
        monitoring.set_events(_TOOL, 0)
        monitoring.free_tool_id(_TOOL)
    return count


def _count_traced(work: Callable[[], object]) -> int:
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
