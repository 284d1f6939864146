"""A file system that remembers what would survive a power loss: bytes that were synced, and names in folders that were synced.

    disk = LosingFiles(folder)                       everything that is there already counts as synced
    ...                                              work on `folder`
    disk.lose_power(target, rng, Loss.STRICT)        `target` is what a disk shows after the power came back

POSIX promises no more than STRICT: of what was not synced nothing is left, neither bytes nor names. JOURNALED is what ext4 does: names
change in order and are all there, but the bytes of files that were not synced may be missing, torn or zeros. MIXED is anything between,
folder by folder and file by file.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from random import Random
from tempfile import mkdtemp

from minibroker.storage.files import RealFiles

Entries = dict[str, int]  #: name -> inode


class Loss(Enum):
    """How bad it is."""

    STRICT = "strict"
    JOURNALED = "journaled"
    MIXED = "mixed"


class LosingFiles(RealFiles):
    """See the module. Inodes name files and folders; what is deleted moves to a graveyard, so that no inode is used twice."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._graveyard = Path(mkdtemp(dir=folder.parent, prefix="graveyard"))
        self._buried = 0
        self._synced: dict[int, bytes] = {}
        self._entries: dict[int, Entries] = {}
        self._folders: set[int] = set()
        for path in (folder, *folder.rglob("*")):
            if path.is_dir():
                self._entries[inode(path)] = self._listed(path)
            else:
                self._synced[inode(path)] = path.read_bytes()

    def _listed(self, path: Path) -> Entries:
        found = {entry.name: entry.inode() for entry in os.scandir(path)}
        self._folders |= {entry.inode() for entry in os.scandir(path) if entry.is_dir()}
        return found

    def _grave(self) -> Path:
        self._buried += 1
        return self._graveyard / str(self._buried)

    def sync(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        reader = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
        self._synced[status.st_ino] = os.pread(reader, status.st_size, 0)
        os.close(reader)

    def sync_directory(self, path: str) -> None:
        self._entries[inode(Path(path))] = self._listed(Path(path))

    def rename(self, source: str, target: str) -> None:  # type: ignore[override]
        if Path(target).is_file():
            os.link(target, self._grave())
        RealFiles.rename(source, target)

    def remove(self, path: str) -> None:
        if Path(path).exists():
            Path(path).rename(self._grave())

    def remove_directory(self, path: str) -> None:
        if Path(path).exists():
            assert not any(Path(path).iterdir()), path
            Path(path).rename(self._grave())

    def lose_power(self, target: Path, rng: Random, loss: Loss) -> None:
        """Write into `target` what is left."""
        places = {inode(path): path for path in (*self._graveyard.rglob("*"), self._folder, *self._folder.rglob("*"))}
        self._restore(inode(self._folder), target, places, rng, loss)

    def _restore(self, number: int, target: Path, places: dict[int, Path], rng: Random, loss: Loss) -> None:
        target.mkdir()
        durable = self._entries.get(number, {})
        place = places.get(number)
        current = self._listed(place) if place is not None else {}
        for name, each in (durable if self._is_lost(rng, loss) else current).items():
            if each in self._folders:
                self._restore(each, target / name, places, rng, loss)
            else:
                (target / name).write_bytes(self._left(each, places[each].read_bytes(), rng, loss))

    @staticmethod
    def _is_lost(rng: Random, loss: Loss) -> bool:
        return loss is Loss.STRICT or (loss is Loss.MIXED and rng.random() < 0.5)

    def _left(self, number: int, current: bytes, rng: Random, loss: Loss) -> bytes:
        """A file's bytes: what was synced, and of the rest what chance leaves."""
        synced = self._synced.get(number, b"")
        if loss is Loss.STRICT:
            return synced
        if not current.startswith(synced):
            return rng.choice((synced, current))
        rest = bytearray(current[len(synced) :])
        fate = rng.choice(("kept", "lost", "torn", "zeros", "holes"))
        if fate == "lost":
            rest.clear()
        elif fate == "torn":
            del rest[rng.randrange(len(rest) + 1) :]
        elif fate == "zeros":
            rest = bytearray(len(rest))
        elif fate == "holes" and rest:
            begin = rng.randrange(len(rest))
            end = rng.randrange(begin, len(rest)) + 1
            rest[begin:end] = bytes(end - begin)
        return synced + bytes(rest)


def inode(path: Path) -> int:
    """Its number on the disk."""
    return path.stat().st_ino
