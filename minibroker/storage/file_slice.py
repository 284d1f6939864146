"""Bytes of a log file that nobody has read yet: an answer's records that go from the page cache to the socket without a copy (sendfile).

They lie below the size of their segment, where nothing is written any more, and a slice has a descriptor of its own. So it says the same
whatever becomes of the segment before the client has taken the answer: deleted, renamed, replaced by compaction.

Its first and its last byte are read when it is made: a disk that is gone, and a file that was cut, are found while the answer can still
say KAFKA_STORAGE_ERROR. A disk that fails in the middle is found when the head of the answer has left: the connection is closed, as by
Apache Kafka, and the next Fetch is told.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from minibroker.storage.files import FileHandle, Files

LEAST_SIZE: Final = 256 * 1024  #: bytes from which on a slice is cheaper than reading: it costs two system calls, and one to send the rest


class FileSlice:
    """`size` bytes, one at least, from `position`; they are there, or the disk fails (OSError, also from the constructor)."""

    __slots__ = ("_descriptor", "_files", "_position", "_size", "on_failure")

    def __init__(self, files: Files, handle: FileHandle, position: int, size: int) -> None:
        self._descriptor = -1
        self._files = files
        self._position = position
        self._size = size
        self.on_failure: Callable[[OSError], object] | None = None  #: told by who cannot answer because the disk fails
        self._descriptor = files.handles.duplicate(handle)
        if not files.read_at(self._descriptor, 1, position + size - 1):
            raise _too_short()
        files.read_at(self._descriptor, 1, position)  # last: the system reads ahead from where it was asked last

    def __del__(self) -> None:
        if self._descriptor >= 0:
            self._files.close(self._descriptor)

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self.read()

    def read(self, start: int = 0) -> bytes:
        """The bytes behind the first `start`."""
        data = self._files.read_at(self._descriptor, self._size - start, self._position + start)
        if len(data) != self._size - start:
            raise _too_short()
        return data

    def send_to(self, socket_descriptor: int) -> int:
        """Send as much as the socket takes now, and say how much; 0 when it takes nothing, or when the socket or the disk fails."""
        try:
            return self._files.send(socket_descriptor, self._descriptor, self._position, self._size)
        except OSError:
            return 0  # who reads the rest and writes it finds out why


def _too_short() -> OSError:
    return OSError(errno.ENODATA, "A log file is shorter than it was")
