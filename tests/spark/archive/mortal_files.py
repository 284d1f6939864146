"""A file system for archives whose process dies before its n-th change, with the change half done where that can be."""

from __future__ import annotations

from collections.abc import Callable

from minibroker.spark.archive.files import LocalTableFiles


class Died(BaseException):
    """SIGKILL, as far as one process can play it."""


class MortalTableFiles(LocalTableFiles):
    """Dies before its `lives`-th change; a write is torn, a folder half deleted. `before`: called instead of dying, and it lives on."""

    def __init__(self, lives: int, before: Callable[[], None] | None = None) -> None:
        self.lives = lives
        self._before = before

    def _is_last(self) -> bool:
        self.lives -= 1
        if self.lives == -1 and self._before is not None:
            self._before()
            return False
        return self.lives == -1

    def write(self, path: str, data: bytes) -> None:
        if self._is_last():
            super().write(path, data[: len(data) // 2])
            raise Died
        super().write(path, data)

    def commit(self, source: str, target: str) -> None:
        if self._is_last():
            raise Died
        super().commit(source, target)

    def move(self, source: str, target: str) -> None:
        if self._is_last():
            raise Died
        super().move(source, target)

    def remove(self, path: str) -> None:
        if self._is_last():
            for file in self.below(path)[::2]:
                super().remove(f"{path}/{file.path}")
            raise Died
        super().remove(path)

    def sync(self, folder: str) -> None:
        """Nothing: these tests are of processes that die, not of power."""
