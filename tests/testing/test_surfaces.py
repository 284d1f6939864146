"""Each form of a broker under test has the same methods with the same arguments: in a thread, a loop, a process; awaited or not."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from minibroker.testing import AsyncSurface, Broker, BrokerError, BrokerProcess, BrokerThread, GivenCluster, Surface
from minibroker.testing.lab import handles, operations, registry_operations

LIFE = {"start", "stop", "close"}
OF_A_PROCESS = {"pid", "kill", "output"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def signature(kind: type, name: str) -> Any:
    """What a method takes; a property takes nothing."""
    found = inspect.getattr_static(kind, name)
    if isinstance(found, property):
        return "property"
    return [(each.name, each.kind, each.default) for each in inspect.signature(found).parameters.values()]


@pytest.mark.parametrize(
    ("one", "other", "more"),
    [
        (Surface, BrokerThread, set()),
        (Surface, BrokerProcess, OF_A_PROCESS),
        (Surface, GivenCluster, set()),
        (Surface, Broker, set()),
        (AsyncSurface, Broker, LIFE),
        (handles.Fault, handles.AsyncFault, set()),
        (handles.Hold, handles.AsyncHold, set()),
        (handles.Faults, handles.AsyncFaults, set()),
        (operations.Leaders, handles.AsyncLeaders, set()),
        (operations.Nodes, handles.AsyncNodes, set()),
        (registry_operations.RegistryOperations, handles.AsyncRegistry, set()),
    ],
)
def test_both_surfaces_have_the_same_methods(one: type, other: type, more: set[str]) -> None:
    assert public(other) - more == public(one) - {"sync"}
    for name in public(one) - {"sync"}:
        expected, found = signature(one, name), signature(other, name)
        if name == "wait_assigned" and one is Surface and other is Broker:
            expected = [each for each in expected if each[0] != "poll"]  # a consumer that must be polled would block the loop
        assert found == expected, name


def test_they_are_started_with_the_same() -> None:
    assert signature(BrokerThread, "__init__") == signature(BrokerProcess, "__init__") == signature(Broker, "__init__")


def test_same_methods_are_coroutines_in_each_surface() -> None:
    for name in public(AsyncSurface) & public(Broker):
        found = [inspect.iscoroutinefunction(inspect.getattr_static(kind, name)) for kind in (AsyncSurface, Broker)]
        assert found[0] == found[1], name
    for kind in (handles.AsyncLeaders, handles.AsyncNodes, handles.AsyncRegistry):
        methods = [inspect.getattr_static(kind, name) for name in public(kind)]
        assert all(inspect.iscoroutinefunction(each.fget if isinstance(each, property) else each) for each in methods)


@pytest.mark.parametrize("kind", [Surface, AsyncSurface])
@pytest.mark.parametrize("method", ["records", "produce", "wait_assigned"])
def test_wrong_argument_names_the_public_method(kind: Any, method: str) -> None:
    with pytest.raises(TypeError, match=rf"^broker\.{method}\(\) got an unexpected keyword argument 'nope'"):
        getattr(kind, method)(None, "orders", nope=1)


def test_timeout_is_another_name_of_timeout_s() -> None:
    with BrokerThread(topics={"orders": 1}) as broker:
        with pytest.raises(BrokerError, match=r"records\('orders', count=1\): 0 came within 0\.01 s"):
            broker.records("orders", count=1, timeout=0.01)
        with pytest.raises(BrokerError, match=r"0\.01 s"):
            broker.wait_assigned("nobody", timeout=0.01)


def test_timeout_is_so_when_awaited() -> None:
    async def main() -> None:
        async with Broker(topics={"orders": 1}) as broker:
            with pytest.raises(BrokerError, match=r"came within 0\.01 s"):
                await broker.records("orders", count=1, timeout=0.01)

    asyncio.run(main())
