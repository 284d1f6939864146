"""A Kafka broker for tests: starts in milliseconds, forgets everything in milliseconds, and tells what clients asked of it.

    with BrokerThread(topics={"orders": 3}) as broker:          beside the test, in a thread
    async with Broker(topics={"orders": 3}) as broker:          in the test's own event loop
    with BrokerProcess(topics={"orders": 3}) as broker:         in a process of its own, which may be killed

Any Kafka client connects to `broker.bootstrap_servers`. What the three can do is said in `surface.py`; docs/testing.md has examples, and
pytest's fixtures are in `plugin.py`.

    moving_clock.py   its time, which `advance` lets go by
    data.py       where its data are; broker_folder.py: in a folder, of which it copies back what has changed
    hosted.py     a broker on its event loop, whose data can be exchanged; broker.py, broker_thread.py, broker_process.py are the ways to it
    wire.py       what is asked over the wire, so that a real Kafka can be asked the same (given_cluster.py)

Nothing is imported before it is used: pytest loads the plugin in every run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from minibroker.testing.async_surface import AsyncSurface
    from minibroker.testing.broker import Broker
    from minibroker.testing.broker_process import BrokerProcess
    from minibroker.testing.broker_thread import BrokerThread
    from minibroker.testing.data import Snapshot
    from minibroker.testing.errors import BrokerError, Unsupported
    from minibroker.testing.given_cluster import GivenCluster
    from minibroker.testing.options import MEMORY, TEMPORARY, BrokerOptions
    from minibroker.testing.request_log import LoggedRequest, RequestLog
    from minibroker.testing.surface import Surface
    from minibroker.testing.wire import FoundRecord

__all__ = [
    "MEMORY",
    "TEMPORARY",
    "AsyncSurface",
    "Broker",
    "BrokerError",
    "BrokerOptions",
    "BrokerProcess",
    "BrokerThread",
    "FoundRecord",
    "GivenCluster",
    "LoggedRequest",
    "RequestLog",
    "Snapshot",
    "Surface",
    "Unsupported",
]

_HOMES: Final = {
    "AsyncSurface": "async_surface",
    "Broker": "broker",
    "BrokerError": "errors",
    "BrokerOptions": "options",
    "BrokerProcess": "broker_process",
    "BrokerThread": "broker_thread",
    "FoundRecord": "wire",
    "GivenCluster": "given_cluster",
    "LoggedRequest": "request_log",
    "MEMORY": "options",
    "RequestLog": "request_log",
    "Snapshot": "data",
    "Surface": "surface",
    "TEMPORARY": "options",
    "Unsupported": "errors",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found
