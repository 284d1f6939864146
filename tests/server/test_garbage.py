"""The garbage collector of a process that serves: each case runs in a new process, because the collector belongs to the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PUT_OFF = """
import gc
from minibroker.server.loop import put_off_garbage_collection, settle_garbage_collection
put_off_garbage_collection()
print(gc.isenabled())
"""

SETTLED = """
import gc
from minibroker.server.loop import put_off_garbage_collection, settle_garbage_collection
put_off_garbage_collection()
made_at_start = []
settle_garbage_collection()
checks = []
gc.callbacks.append(lambda phase, info: checks.append(info["generation"]) if phase == "stop" else None)
kept = [[] for _ in range(5_000)]
gc.callbacks.clear()
print(gc.isenabled(), any(each is made_at_start for each in gc.get_objects()), checks.count(0))
"""


def run(program: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def test_nothing_is_collected_while_a_broker_starts() -> None:
    assert run(PUT_OFF) == ["False"]


def test_startup_objects_are_frozen_and_later_ones_collected() -> None:
    assert run(SETTLED) == ["True", "False", "4"]
