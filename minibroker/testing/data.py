"""Where the data of a broker under test are, and how they are exchanged: for nothing, or for a snapshot.

Nothing is synced: what a test writes need not survive a power loss, and the death of the broker it survives in a folder anyway.
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
from minibroker.testing.errors import BrokerError
from minibroker.testing.memory_files import MemoryFiles
from minibroker.testing.options import DataDir

if TYPE_CHECKING:
    from minibroker.testing.options import BrokerOptions

_IN_MEMORY: Final = "/minibroker"  #: the log directory of a file system that has nothing else
_PREFIX: Final = "minibroker-"


class Snapshot:
    """What a broker held at a moment: topics with records and configs, offsets of groups, transactions. It may be restored many times."""

    def __init__(self, copy: MemoryFiles | list[FolderCopy] | str, owner: object) -> None:
        self.copy = copy  #: where the copy is; a name where another process has it
        self.owner = owner  #: whose data they are: it alone takes them back


class Data(Protocol):
    """The data of one broker, through its starts and stops."""

    log_dir: str  #: log.dirs

    def files(self) -> Files:
        """The file system that has them now."""

    def clear(self) -> None:
        """Forget them; nothing is open."""

    def copy(self) -> Snapshot:
        """Copy them; the broker may run, as long as it does nothing meanwhile."""

    def check(self, snapshot: Snapshot) -> None:
        """BrokerError when it is none of this broker."""

    def take(self, snapshot: Snapshot) -> None:
        """Have those of a snapshot that was checked instead; nothing is open."""

    def close(self) -> None:
        """The broker is not started again."""


class MemoryData:
    """In this process alone."""

    def __init__(self) -> None:
        self.log_dir = _IN_MEMORY
        self._files = MemoryFiles()

    def files(self) -> Files:
        """The file system."""
        return self._files

    def clear(self) -> None:
        """Have another one; who still has work to do on the old one does no harm."""
        self._files = MemoryFiles()

    def copy(self) -> Snapshot:
        """All bytes."""
        return Snapshot(self._files.copy(), self)

    def check(self, snapshot: Snapshot) -> None:
        """See Data."""
        if not isinstance(snapshot.copy, MemoryFiles) or snapshot.owner is not self:
            raise _foreign()

    def take(self, snapshot: Snapshot) -> None:
        """A copy of the copy, which may be taken again."""
        if isinstance(snapshot.copy, MemoryFiles):
            self._files = snapshot.copy.copy()

    def close(self) -> None:
        """The memory goes with its last user."""
        self._files = MemoryFiles()


class UnsyncedFiles(RealFiles):
    """The file system of this machine, which writes to the disk when it likes to."""

    def __reduce__(self) -> tuple[type[RealFiles], tuple[()]]:
        return UnsyncedFiles, ()

    def sync(self, descriptor: int) -> None:  # type: ignore[override]  # a method where there is a system call
        """Nothing."""

    def sync_directory(self, path: str) -> None:
        """Nothing."""


class FolderData:
    """In folders that stay, one or several; snapshots are in temporary ones, which go with the broker, or with who holds them."""

    def __init__(self, *log_dirs: str) -> None:
        self.log_dir = log_dirs[0]
        self._folders = [BrokerFolder(each) for each in log_dirs]
        self._snapshots = WeakSet[Snapshot]()

    def files(self) -> Files:
        """The file system."""
        return UnsyncedFiles()

    def clear(self) -> None:
        """Remove what a broker keeps there."""
        for each in self._folders:
            each.clear()

    def copy(self) -> Snapshot:
        """The same files in folders of their own, but for what is about to be removed."""
        snapshot = Snapshot([each.copy(Path(tempfile.mkdtemp(prefix=_PREFIX))) for each in self._folders], self)
        self._snapshots.add(snapshot)
        return snapshot

    def check(self, snapshot: Snapshot) -> None:
        """See Data."""
        if not isinstance(snapshot.copy, list) or snapshot.owner is not self:
            raise _foreign()

    def take(self, snapshot: Snapshot) -> None:
        """Copy back what has changed. Metadata go first and come last, so that nobody finds a part of it all."""
        if isinstance(snapshot.copy, list):
            pairs = [*zip(self._folders, snapshot.copy, strict=True)]
            for folder, _ in pairs:
                folder.take_metadata_away()
            for folder, copy in pairs:
                folder.restore_logs(copy)
            for folder, copy in pairs:
                folder.restore_metadata(copy)

    def close(self) -> None:
        """Remove what is temporary."""
        for snapshot in list(self._snapshots):
            if isinstance(snapshot.copy, list):
                for each in snapshot.copy:
                    each.remove()


class LogDirsData(FolderData):
    """The log directories of a broker's own configuration; what is written is synced as that says."""

    def files(self) -> Files:
        """The file system."""
        return RealFiles()


class TemporaryData(FolderData):
    """In a temporary folder; what is cleared is put aside, and removed by a thread."""

    def __init__(self) -> None:
        self._removals: list[threading.Thread] = []
        self._temporary = tempfile.mkdtemp(prefix=_PREFIX)
        super().__init__(f"{self._temporary}/data")
        Path(self.log_dir).mkdir()

    def clear(self) -> None:
        """Take another folder of the same name."""
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
    """As the options say."""
    if options.data_dir is DataDir.MEMORY:
        return MemoryData()
    return TemporaryData() if isinstance(options.data_dir, DataDir) else FolderData(options.data_dir)
