"""The commands of one broker: what a test does to it, by name and with JSON in and out, on the thread of its loop.

    await lab.execute("high_watermark.hold", {"topic": "orders", "partition": 0})        {"id": 1}

Faults, holds and moved leaders end with `reset`, `restore` and with the broker. `faults.heal` ends faults of the storage, and as it opens
the logs anew, stopped brokers run again and leaders are where they were placed; faults of requests and holds stay.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from minibroker.testing.errors import BrokerError, told
from minibroker.testing.lab.command_table import CommandTable
from minibroker.testing.lab.holds import Holds
from minibroker.testing.lab.storage_faults import StorageFaults
from minibroker.testing.request_log import COLUMNS, to_json

if TYPE_CHECKING:
    from minibroker.testing.data import Snapshot
    from minibroker.testing.faults.faults import Faults
    from minibroker.testing.hosted import HostedBroker


class Lab:
    """Of a hosted broker."""

    def __init__(self, hosted: HostedBroker, faults: Faults) -> None:
        """`faults`: of requests."""
        self._hosted = hosted
        self._faults = faults
        self.storage = StorageFaults(self._open_logs)
        self.holds = Holds(lambda: hosted.broker.cluster)
        self._snapshots: dict[str, Snapshot] = {}
        self.table = CommandTable()
        self._add_commands()

    async def execute(self, command: str, arguments: Mapping[str, Any]) -> Any:
        """Do it; BrokerError says in one line why not."""
        with told(command):
            done = self.table.call(command, arguments)
            return await done if inspect.isawaitable(done) else done

    def forget(self) -> None:
        """The data are others, or the broker is: no fault, no hold."""
        self.holds.forget()
        self._clear_faults()

    def _add_commands(self) -> None:
        commands: dict[str, Callable[..., Any]] = {
            "info": self._info,
            "advance": self._advance,
            "reset": self._reset,
            "snapshot": self._snapshot,
            "restore": self._restore,
            "snapshots": self._list_snapshots,
            "requests": self._requests,
            "high_watermark.hold": self.holds.hold,
            "high_watermark.release": self.holds.release,
            "high_watermark.list": self.holds.list,
            "faults.storage": self.storage.add,
            "faults.inject": self._inject,
            "faults.list": self._list_faults,
            "faults.state": self._state_of_fault,
            "faults.remove": self._remove_fault,
            "faults.clear": self._clear_faults,
            "faults.heal": self._heal,
        }
        for name, command in commands.items():
            self.table.add(name, command)

    def _open_logs(self) -> None:
        self._hosted.broker.cluster.finish_opening()

    # -- the broker -------------------------------------------------------------------------------------------------

    def _info(self) -> dict[str, Any]:
        """Where the broker listens, its time, and whether its log directories are online."""
        cluster = self._hosted.broker.cluster
        return {
            "bootstrap_servers": self._hosted.bootstrap_servers,
            "cluster_id": cluster.cluster_id,
            "now_ms": self._hosted.now_ms,
            "log_dirs": {each.path: each.offline_cause is None for each in cluster.log_directories},
        }

    async def _advance(self, ms: float) -> None:
        """Let so many milliseconds go by at once: retention, time-outs, transactions follow."""
        await self._hosted.advance(timedelta(milliseconds=ms))

    def _reset(self) -> None:
        """Forget everything: topics, groups, transactions, faults, the request log."""
        self._hosted.reset()

    def _snapshot(self, name: str | None = None) -> dict[str, str]:
        """Keep what there is now under a name (a number when none is given); an earlier one of that name is replaced."""
        if name is None:
            name = str(next(number for number in range(1, len(self._snapshots) + 2) if str(number) not in self._snapshots))
        self._snapshots[name] = self._hosted.snapshot()
        return {"snapshot": name}

    def _restore(self, name: str) -> None:
        """Be as when the snapshot of that name was taken."""
        if name not in self._snapshots:
            known = ", ".join(self._snapshots) or "none"
            raise BrokerError(f"restore: there is no snapshot {name!r}; there are: {known}")
        self._hosted.restore(self._snapshots[name])

    def _list_snapshots(self) -> list[str]:
        """Names of the snapshots."""
        return [*self._snapshots]

    def _requests(self, since: int = 0) -> dict[str, Any]:
        """What clients asked, from number `since` on; `first` is the number of the first row, `next` that of the next request.

        `columns` are the names of what is in a row.
        """
        log, next_number = self._hosted.request_log, self._hosted.request_count
        first = max(next_number - len(log), since, 0)
        return {"first": first, "next": next_number, "columns": [*COLUMNS], "rows": to_json(log[len(log) - (next_number - first) :])}

    # -- faults -----------------------------------------------------------------------------------------------------

    def _inject(self, rule: dict[str, Any]) -> dict[str, Any]:
        """Let requests fail, wait, or find their connection cut, as a rule says (docs/faults.md)."""
        return {"id": self._faults.inject(rule)}

    def _list_faults(self) -> list[dict[str, Any]]:
        """All faults with their calls and hits, those of the storage too."""
        return [*self._faults.list(), *self.storage.list()]

    def _state_of_fault(self, id: int | str) -> dict[str, Any]:  # noqa: A002  JSON's name
        """How many calls a fault was asked about, and how many it hit."""
        if isinstance(id, str):
            fault = self.storage.find(id)
            if fault is None:
                raise BrokerError(f"faults: there is no fault {id}: it was removed, or ended with a reset")
            return {"calls": fault.often.calls, "hits": fault.often.hits}
        return self._faults.state(id)

    def _remove_fault(self, id: int | str) -> None:  # noqa: A002  as above
        """Remove a fault; harmless when there is none any more."""
        if isinstance(id, str):
            self.storage.remove(id)
        else:
            self._faults.remove(id)

    def _clear_faults(self) -> None:
        """Remove all faults; log directories that went offline stay so until `faults.heal`."""
        self.storage.clear()
        self._faults.clear()

    def _heal(self) -> None:
        """Remove the faults of the storage, and open the logs anew, as a start behind a crash does: offline directories are back."""
        self.storage.clear()
        self._hosted.open_anew()
        self.holds.renew()
