"""Which calls of the file system fail: a list that is put into force on the files that the broker has now."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from minibroker.storage.files import Files
from minibroker.testing.lab.failing_files import FailingFiles, StorageFault
from minibroker.testing.often import Often

PREFIX: Final = "storage-"  #: of ids, which tells them from those of other faults


class StorageFaults:
    """Of one broker."""

    def __init__(self, open_logs: Callable[[], None]) -> None:
        """`open_logs` gives new partitions their files, which they otherwise get when they are used."""
        self._open_logs = open_logs
        self._faults: dict[str, StorageFault] = {}
        self._numbers = count(1)
        self._files: FailingFiles | None = None

    def over(self, files: Files) -> Files:
        """The file system for a broker that starts: nothing of it fails yet."""
        self._faults.clear()
        self._files = FailingFiles(files)
        return self._files.as_files()

    def add(
        self,
        on: str,
        error: str,
        topic: str | None = None,
        partition: int | None = None,
        often: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Let calls of the file system fail: on write, read, sync or open, with ENOSPC, EIO, ... The log directory goes offline."""
        fault = StorageFault(topic=topic, partition=partition, on=on, error=error, often=Often(often or {}))
        if on != "open":
            self._open_logs()  # what fails is to be an append, not the folder of a topic that was just created
        name = f"{PREFIX}{next(self._numbers)}"
        self._faults[name] = fault
        self._put_into_force()
        return {"id": name}

    def _put_into_force(self) -> None:
        if self._files is not None:
            self._files.fail(tuple(self._faults.values()))

    def list(self) -> list[dict[str, Any]]:
        """All of them, with what they did."""
        return [{"id": name} | fault.to_json() for name, fault in self._faults.items()]

    def find(self, name: str) -> StorageFault | None:
        """By id."""
        return self._faults.get(name)

    def remove(self, name: str) -> None:
        """Let it fail no more; harmless when there is none."""
        self._faults.pop(name, None)
        self._put_into_force()

    def clear(self) -> None:
        """Let nothing fail; what is offline stays offline until it is healed."""
        self._faults.clear()
        self._put_into_force()
