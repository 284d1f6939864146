"""Users' type checkers see the signatures and results of every handle: `make lint` runs mypy (strict) on this file, as on all tests.

An expected error is under `type: ignore` with its code. If mypy no longer reports it, the ignore is unused, which is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, assert_type

from minibroker.testing import Broker, Surface
from minibroker.testing.lab.handles import AsyncFault, AsyncHold, Fault, Hold

R = TypeVar("R")


def _call(function: Callable[[int], R]) -> R:
    return function(2)


def synchronous_handles(broker: Surface) -> None:
    """Never called: mypy reads it."""
    assert_type(broker.leaders.bump_epoch("orders", 0), int)
    assert_type(broker.leaders.describe("orders", partition=0), dict[str, Any])
    assert_type(broker.nodes.alive, list[int])
    assert_type(broker.nodes.addresses, dict[int, str])
    assert_type(broker.faults.list(), list[dict[str, Any]])
    assert_type(broker.faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders").once(), Fault)
    assert_type(broker.hold_high_watermark("orders", 0), Hold)
    _call(broker.nodes.start)
    broker.leaders.move("orders", 0, to=2)
    broker.leaders.move("orders", 0)  # type: ignore[call-arg]
    broker.leaders.move("orders", 0, 2)  # type: ignore[call-arg]
    broker.leaders.move("orders", "0", to=2)  # type: ignore[arg-type]
    broker.leaders.elect("orders", 0, unclean=1)  # type: ignore[arg-type]
    broker.nodes.stop("2")  # type: ignore[arg-type]
    broker.faults.clear("all")  # type: ignore[call-arg]


async def asynchronous_handles(broker: Broker) -> None:
    """Never called: mypy reads it."""
    assert_type(await broker.leaders.bump_epoch("orders", 0), int)
    assert_type(await broker.nodes.alive, list[int])
    assert_type(await broker.nodes.addresses, dict[int, str])
    assert_type(await broker.faults.list(), list[dict[str, Any]])
    assert_type(await broker.faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER").once(), AsyncFault)
    assert_type(await broker.hold_high_watermark("orders", 0), AsyncHold)
    assert_type(await broker.create_topic("orders", partitions=3, retention_ms=1000), str)
    assert_type(await broker.topics(), list[str])
    await _call(broker.nodes.start)
    await broker.leaders.move("orders", 0, to=2)
    await broker.leaders.move("orders", 0)  # type: ignore[call-arg]
    await broker.leaders.move("orders", "0", to=2)  # type: ignore[arg-type]
    await broker.records("orders", nope=1)  # type: ignore[call-arg]
    await broker.produce("orders", 1)  # type: ignore[arg-type]


def test_mypy_reads_this_file() -> None:
    import tomllib
    from pathlib import Path

    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["mypy"]
    assert not TYPE_CHECKING
    assert "tests" in settings["files"]
    assert settings["strict"]  # it includes warn_unused_ignores
