"""Where the data of a broker under test are, and how they are exchanged: for nothing, or for a snapshot.

Nothing is synced: what a test writes need not survive a power loss, and the death of the broker it survives in a folder anyway.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

from minibroker.storage.files import Files, RealFiles
from minibroker.storage.log_file_names import DELETE_FOLDER, delete_folder_name
from minibroker.storage.memory_files import MemoryFiles
from minibroker.testing.errors import BrokerError
from minibroker.testing.options import DataDir

if TYPE_CHECKING:
    from minibroker.testing.options import BrokerOptions

_IN_MEMORY: Final = "/minibroker"  #: the log directory of a file system that has nothing else
_PREFIX: Final = "minibroker-"
_METADATA_FOLDER: Final = "__cluster_metadata-"


class Snapshot:
    """What a broker held at a moment: topics with records and configs, offsets of groups, transactions. It may be restored many times."""

    def __init__(self, copy: MemoryFiles | Path | str) -> None:
        self.copy = copy  #: where the copy is; a name where another process has it


class Data(Protocol):
    """The data of one broker, through its starts and stops."""

    log_dir: str  #: log.dirs

    def files(self) -> Files:
        """The file system that has them now."""

    def clear(self) -> None:
        """Forget them; nothing is open."""

    def copy(self) -> Snapshot:
        """Copy them; the broker may run, as long as it does nothing meanwhile."""

    def take(self, snapshot: Snapshot) -> None:
        """Have those of a snapshot instead; nothing is open."""

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
        return Snapshot(self._files.copy())

    def take(self, snapshot: Snapshot) -> None:
        """A copy of the copy, which may be taken again."""
        if not isinstance(snapshot.copy, MemoryFiles):
            raise _foreign()
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
    """In a folder that stays; snapshots are in temporary ones, which go with the broker."""

    def __init__(self, log_dir: str) -> None:
        self.log_dir = log_dir
        self._temporary: list[Path] = []

    def files(self) -> Files:
        """The file system."""
        return UnsyncedFiles()

    def clear(self) -> None:
        """Remove all that is in the folder; partitions are put away as those of deleted topics, which the broker removes meanwhile."""
        for found in Path(self.log_dir).iterdir():
            if found.name.endswith(DELETE_FOLDER):
                continue  # it may be gone at any moment
            if not found.is_dir() or found.is_symlink():
                found.unlink()
            elif found.name.startswith(_METADATA_FOLDER):
                shutil.rmtree(found)
            else:
                found.rename(found.with_name(delete_folder_name(found.name, uuid4().hex)))

    def copy(self) -> Snapshot:
        """Another folder with the same files, but for what is about to be removed."""
        target = self._new_folder()
        shutil.copytree(self.log_dir, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(f"*{DELETE_FOLDER}"))
        return Snapshot(target)

    def _new_folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._temporary.append(folder)
        return folder

    def take(self, snapshot: Snapshot) -> None:
        """Copy them back."""
        if not isinstance(snapshot.copy, Path):
            raise _foreign()
        self.clear()
        shutil.copytree(snapshot.copy, self.log_dir, dirs_exist_ok=True)

    def close(self) -> None:
        """Remove what is temporary."""
        for folder in self._temporary:
            shutil.rmtree(folder, ignore_errors=True)
        self._temporary.clear()


class TemporaryData(FolderData):
    """In a temporary folder; what is cleared is put aside, and removed by a thread."""

    def __init__(self) -> None:
        self._removals: list[threading.Thread] = []
        super().__init__("")
        self.log_dir = str(self._new_folder() / "data")
        Path(self.log_dir).mkdir()

    def clear(self) -> None:
        """Take another folder of the same name."""
        aside = tempfile.mkdtemp(dir=Path(self.log_dir).parent)
        Path(self.log_dir).replace(aside)
        Path(self.log_dir).mkdir()
        removal = threading.Thread(target=shutil.rmtree, args=(aside,), kwargs={"ignore_errors": True}, name="minibroker-removal")
        removal.start()
        self._removals = [*(each for each in self._removals if each.is_alive()), removal]

    def close(self) -> None:
        """Remove everything."""
        for removal in self._removals:
            removal.join()
        super().close()


def _foreign() -> BrokerError:
    return BrokerError("restore: this snapshot is of a broker that keeps its data elsewhere: take one of this broker")


def data_of(options: BrokerOptions) -> Data:
    """As the options say."""
    if options.data_dir is DataDir.MEMORY:
        return MemoryData()
    return TemporaryData() if isinstance(options.data_dir, DataDir) else FolderData(options.data_dir)
