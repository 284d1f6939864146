"""The lab of one broker: the operations of operations.py, executed by name on the thread of the broker's loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import INTERNAL_TOPICS
from minibroker.dispatch.registry import Registry
from minibroker.testing.faults.faults import RequestFaults
from minibroker.testing.faults.logins import LoginFaults
from minibroker.testing.faults.registry_faults import RegistryFaults
from minibroker.testing.lab.declaration import OperationTable
from minibroker.testing.lab.operations import BrokerOperations, FaultOperations, HighWatermarks, LabHost, Leaders, Nodes
from minibroker.testing.lab.registry_operations import RegistryOperations
from minibroker.testing.lab.storage_faults import StorageFaults
from minibroker.testing.options import one_line_error
from minibroker.testing.simulation.held_watermarks import hold_high_watermark, release_high_watermark, with_held_watermarks


class Lab:
    """The operations of a hosted broker."""

    def __init__(self, host: LabHost, faults: RequestFaults) -> None:
        self._host = host
        self._faults = faults
        self.storage = StorageFaults(self._finish_opening)
        self.logins = LoginFaults(lambda: host.broker, lambda: host.authority)
        self.registry_faults = RegistryFaults(lambda: host.clock)
        self._high_watermarks = HighWatermarks(
            lambda: host.broker.cluster, INTERNAL_TOPICS, self._hold_high_watermark, release_high_watermark
        )
        self.nodes = Nodes(lambda: host.broker)
        self.table = OperationTable(
            BrokerOperations(host),
            self._high_watermarks,
            FaultOperations(faults, self.storage, self.logins, self.registry_faults, self._reopen_logs),
            Leaders(lambda: host.broker),
            self.nodes,
            RegistryOperations(lambda: host.registry),
        )

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Execute an operation. Raises BrokerError, a single line, if it fails."""
        with one_line_error(name):
            result = self.table.call(name, arguments)
            return await result if inspect.isawaitable(result) else result

    def forget(self) -> None:
        """Remove faults and holds: the broker starts, or gets other data."""
        self._high_watermarks.forget()
        self.storage.clear()
        self.logins.clear()
        self.registry_faults.clear()
        self._faults.clear()

    def use_handlers(self, load: Callable[[], Registry]) -> None:
        """Serve with other handlers from now on. Held high watermarks stay held."""
        self._faults.load = load
        has_holds = bool(self._high_watermarks.list())
        self._faults.serve_with(with_held_watermarks(load()) if has_holds else load())

    def _hold_high_watermark(self, partition: Partition) -> None:
        self._faults.serve_with(with_held_watermarks(self._faults.load()))
        hold_high_watermark(partition)

    def _finish_opening(self) -> None:
        self._host.broker.cluster.logs.finish_opening()

    def _reopen_logs(self) -> None:
        self._host.reopen_logs()
        self._high_watermarks.renew()
