"""The data of a broker with log directories of its own configuration, which a lab empties, copies and puts back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from minibroker.storage.files import Files, RealFiles
from minibroker.testing.data import FolderData, Snapshot
from minibroker.testing.errors import BrokerError


class LogDirsData:
    """Several folders; what is written is synced as the configuration says. Snapshots are in a temporary folder, which goes in the end."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.log_dir = folders[0]
        self._folders = [FolderData(each) for each in folders]
        self._snapshots: list[Path] = []

    def files(self) -> Files:
        """The file system."""
        return RealFiles()

    def clear(self) -> None:
        """Remove all that is in the folders."""
        for each in self._folders:
            each.clear()

    def copy(self) -> Snapshot:
        """A folder with a copy of each."""
        target = Path(tempfile.mkdtemp(prefix="minibroker-snapshot-"))
        self._snapshots.append(target)
        for number, each in enumerate(self._folders):
            shutil.copytree(each.log_dir, target / str(number))
        return Snapshot(target)

    def take(self, snapshot: Snapshot) -> None:
        """Copy them back."""
        if not isinstance(snapshot.copy, Path):
            raise BrokerError("restore: this snapshot is of another broker: take one of this broker")
        self.clear()
        for number, each in enumerate(self._folders):
            shutil.copytree(snapshot.copy / str(number), each.log_dir, dirs_exist_ok=True)

    def close(self) -> None:
        """Remove snapshots."""
        for each in self._snapshots:
            shutil.rmtree(each, ignore_errors=True)
        self._snapshots.clear()
