"""A Kafka broker for tests: it starts and resets in milliseconds, and logs the requests of clients.

    with BrokerThread(topics={"orders": 3}) as broker:          beside the test, in a thread
    async with Broker(topics={"orders": 3}) as broker:          in the test's own event loop
    with BrokerProcess(topics={"orders": 3}) as broker:         in its own process, which a test may kill

    with secure(users={"alice": "secret"}) as broker:           any of them, with TLS, logins and access control

Any Kafka client connects to `broker.bootstrap_servers`. `surface.py` has the methods that all three
have, docs/testing.md has examples, and `plugin.py` has pytest's fixtures.

    hosted.py         a broker on its event loop, whose data can be replaced; broker.py, broker_thread.py and broker_process.py run it
    data.py           its data, in memory (memory_files.py) or in folders (broker_folder.py)
    hosted_registry.py   its schema registry, from the first use on
    moving_clock.py   its clock, which `advance` moves
    recording.py      the dispatcher that writes request_log.py
    wire.py           topics, records and groups over the wire, also of a real Kafka (given_cluster.py)
    faults/           faults of requests; lab/: all operations of a test on its broker, also over HTTP
    simulation/       several brokers to clients, and held high watermarks

A name is imported at its first use: pytest loads the plugin in every run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from minibroker.testing.broker import Broker
    from minibroker.testing.broker_process import BrokerProcess
    from minibroker.testing.broker_thread import BrokerThread
    from minibroker.testing.clients import PushingClient
    from minibroker.testing.data import Snapshot
    from minibroker.testing.given_cluster import GivenCluster
    from minibroker.testing.options import MEMORY, TEMPORARY, BrokerError, BrokerOptions, Unsupported
    from minibroker.testing.request_log import LoggedRequest, RequestLog
    from minibroker.testing.secured import secure
    from minibroker.testing.surface import AsyncSurface, Surface
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
    "PushingClient",
    "RequestLog",
    "Snapshot",
    "Surface",
    "Unsupported",
    "secure",
]

_HOMES: Final = {
    "AsyncSurface": "surface",
    "Broker": "broker",
    "BrokerError": "options",
    "BrokerOptions": "options",
    "BrokerProcess": "broker_process",
    "BrokerThread": "broker_thread",
    "FoundRecord": "wire",
    "GivenCluster": "given_cluster",
    "LoggedRequest": "request_log",
    "MEMORY": "options",
    "PushingClient": "clients",
    "RequestLog": "request_log",
    "Snapshot": "data",
    "Surface": "surface",
    "TEMPORARY": "options",
    "Unsupported": "options",
    "secure": "secured",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found
