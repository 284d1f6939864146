"""The garbage collector of a process that serves."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from minibroker.server import garbage


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


def test_nothing_is_collected_while_a_broker_starts() -> None:
    garbage.put_off()
    assert not gc.isenabled()


def test_what_a_start_made_is_never_looked_at_and_what_comes_is() -> None:
    garbage.put_off()
    made_at_start: list[object] = []
    garbage.settle()
    assert gc.isenabled()
    assert not any(each is made_at_start for each in gc.get_objects())
    looks: list[int] = []

    def hear(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            looks.append(info["generation"])

    gc.callbacks.append(hear)
    try:
        kept: list[object] = [[] for _ in range(5_000)]
    finally:
        gc.callbacks.remove(hear)
    assert kept
    assert looks.count(0) == 4
