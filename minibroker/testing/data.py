"""The data of a broker under test: in memory or in folders, and replaced by those of a snapshot or removed.

Nothing is synced: records of a test need not survive a power loss, and in a folder they survive the
death of the broker anyway.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

from minibroker.storage.files import Files, RealFiles
from minibroker.testing.broker_folder import BrokerFolder, FolderCopy
from minibroker.testing.memory_files import MemoryFiles
from minibroker.testing.options import BrokerError, DataDir

if TYPE_CHECKING:
    from minibroker.testing.options import BrokerOptions

_IN_MEMORY: Final = "/minibroker"  #: the only log directory of its file system
_PREFIX: Final = "minibroker-"


class Snapshot:
    """Data of a broker at one moment: topics with records and configs, offsets of groups, transactions.

    It may be restored many times. `snapshot` of a broker returns one.

    Args:
        copy: the copied data; a name if another process has them.
        owner: the data that were copied. No other broker can restore them.
    """

    def __init__(self, copy: MemoryFiles | list[FolderCopy] | str, owner: object) -> None:
        self.copy = copy  #: the copied data; a name if another process has them
        self.owner = owner  #: the data that were copied; no other broker can restore them


class Data(Protocol):
    """The data of one broker, which survive its stops."""

    log_dir: str  #: log.dirs

    def files(self) -> Files:
        """The file system that has the data now."""

    def clear(self) -> None:
        """Remove the data; no file is open."""

    def copy(self) -> Snapshot:
        """Copy the data; the broker may run if it changes nothing meanwhile."""

    def check(self, snapshot: Snapshot) -> None:
        """Raise BrokerError if the snapshot is of another broker."""

    def take(self, snapshot: Snapshot) -> None:
        """Replace the data by those of a checked snapshot; no file is open."""

    def close(self) -> None:
        """Remove what is temporary; the broker is not started again."""


class MemoryData:
    """Data in the memory of this process."""

    def __init__(self) -> None:
        self.log_dir = _IN_MEMORY
        self._files = MemoryFiles()

    def files(self) -> Files:
        """The file system."""
        return self._files

    def clear(self) -> None:
        """Take another file system; pending work on the old one does no harm."""
        self._files = MemoryFiles()

    def copy(self) -> Snapshot:
        """Copy all bytes."""
        return Snapshot(self._files.copy(), self)

    def check(self, snapshot: Snapshot) -> None:
        """See Data."""
        if not isinstance(snapshot.copy, MemoryFiles) or snapshot.owner is not self:
            raise _foreign()

    def take(self, snapshot: Snapshot) -> None:
        """Take a copy of the copy, which can then be restored again."""
        if isinstance(snapshot.copy, MemoryFiles):
            self._files = snapshot.copy.copy()

    def close(self) -> None:
        """Drop the file system."""
        self._files = MemoryFiles()


class UnsyncedFiles(RealFiles):
    """The file system of this machine without syncs."""

    def __reduce__(self) -> tuple[type[RealFiles], tuple[()]]:
        return UnsyncedFiles, ()

    def sync(self, descriptor: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: str) -> None:
        """Do nothing."""


class FolderData:
    """Data in one or several folders that stay.

    Snapshots are in temporary folders, removed by `close` or with their last reference.
    """

    def __init__(self, *log_dirs: str) -> None:
        self.log_dir = log_dirs[0]
        self._folders = [BrokerFolder(each) for each in log_dirs]
        self._snapshots = WeakSet[Snapshot]()

    def files(self) -> Files:
        """The file system."""
        return UnsyncedFiles()

    def clear(self) -> None:
        """Remove the files of a broker."""
        for each in self._folders:
            each.clear()

    def copy(self) -> Snapshot:
        """Copy the files into new folders, except those that are about to be removed."""
        snapshot = Snapshot([each.copy(Path(tempfile.mkdtemp(prefix=_PREFIX))) for each in self._folders], self)
        self._snapshots.add(snapshot)
        return snapshot

    def check(self, snapshot: Snapshot) -> None:
        """See Data."""
        if not isinstance(snapshot.copy, list) or snapshot.owner is not self:
            raise _foreign()

    def take(self, snapshot: Snapshot) -> None:
        """Copy back what has changed.

        Metadata are removed first and restored last, so that a start never finds a part of a
        snapshot.
        """
        if isinstance(snapshot.copy, list):
            pairs = [*zip(self._folders, snapshot.copy, strict=True)]
            for folder, _ in pairs:
                folder.remove_metadata()
            for folder, copy in pairs:
                folder.restore_logs(copy)
            for folder, copy in pairs:
                folder.restore_metadata(copy)

    def close(self) -> None:
        """Remove snapshots."""
        for snapshot in list(self._snapshots):
            if isinstance(snapshot.copy, list):
                for each in snapshot.copy:
                    each.remove()


class LogDirsData(FolderData):
    """Data in the log directories of a broker's configuration, synced by its properties."""

    def files(self) -> Files:
        """The file system."""
        return RealFiles()


class TemporaryData(FolderData):
    """Data in a temporary folder. `clear` moves them aside, and a thread removes them."""

    def __init__(self) -> None:
        self._removals: list[threading.Thread] = []
        self._temporary = tempfile.mkdtemp(prefix=_PREFIX)
        super().__init__(f"{self._temporary}/data")
        Path(self.log_dir).mkdir()

    def clear(self) -> None:
        """Replace the folder by an empty one of the same name."""
        aside = tempfile.mkdtemp(dir=self._temporary)
        Path(self.log_dir).replace(aside)
        Path(self.log_dir).mkdir()
        self._folders = [BrokerFolder(self.log_dir)]
        removal = threading.Thread(target=shutil.rmtree, args=(aside,), kwargs={"ignore_errors": True}, name="minibroker-removal")
        removal.start()
        self._removals = [*(each for each in self._removals if each.is_alive()), removal]

    def close(self) -> None:
        """Remove everything."""
        for removal in self._removals:
            removal.join()
        super().close()
        shutil.rmtree(self._temporary, ignore_errors=True)


def _foreign() -> BrokerError:
    return BrokerError("restore: this snapshot is of another broker: take one of this broker")


def data_of(options: BrokerOptions) -> Data:
    """Create the data for these options."""
    if options.data_dir is DataDir.MEMORY:
        return MemoryData()
    return TemporaryData() if isinstance(options.data_dir, DataDir) else FolderData(options.data_dir)
