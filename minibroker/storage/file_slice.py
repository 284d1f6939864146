"""Unread bytes of a log file: records of an answer that go from the page cache to the socket without a copy (sendfile).

The bytes are below the size of their segment, where nothing is written again, and a slice has its own descriptor. Therefore the
bytes stay the same until the client has read them, even if the segment is deleted, renamed or replaced by compaction.

A slice is consumed from its front while it is sent (`send_to`, `take`), so the rest of an answer costs no memory, however slowly its
client reads.

The constructor reads the first and the last byte: a failed disk or a truncated file is found while the answer can still be
KAFKA_STORAGE_ERROR. If the disk fails later, the head of the answer has been sent already. Then the connection is closed, as Apache
Kafka does, and the next Fetch gets the error.

A FileRange names such bytes for another process, which has to open the file again.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from minibroker.storage.files import READ_ONLY, FileHandle, Files

LEAST_SIZE: Final = 256 * 1024  #: bytes from which a slice is cheaper than a read: it costs two system calls, and some for each rest
PIECE_SIZE: Final = 4 * 1024  #: bytes that are read at a time where the socket cannot be watched, or is closed
_READ_SIZE: Final = 256 * 1024  #: bytes that are read at a time where sendfile does not work


class FileSlice:
    """At least one byte of a file, from `position` on. Raises OSError if the disk fails, also in the constructor."""

    __slots__ = ("_descriptor", "_files", "_piece_size", "_position", "_size", "must_be_read", "on_failure")

    def __init__(self, files: Files, handle: FileHandle, position: int, size: int) -> None:
        self._descriptor = -1
        self._files = files
        self._position = position
        self._size = size
        self._piece_size = PIECE_SIZE
        self.must_be_read = False  #: sendfile failed: use `take`, which finds out why
        self.on_failure: Callable[[OSError], object] | None = None  #: called by the connection when the disk fails while it sends
        self._descriptor = files.handles.duplicate(handle)
        if not files.read_at(self._descriptor, 1, position + size - 1):
            raise _too_short()
        files.read_at(self._descriptor, 1, position)  # last: the system reads ahead from the position of the last read

    def __del__(self) -> None:
        if self._descriptor >= 0:
            self._files.close(self._descriptor)

    def __len__(self) -> int:
        return self._size

    @property
    def can_leave_the_loop(self) -> bool:
        """Whether another thread may call `send_to`, while this one does nothing with the slice."""
        return self._files.sends_in_threads

    def __bytes__(self) -> bytes:
        return self.read()

    def read(self) -> bytes:
        """Return all bytes that were not consumed."""
        return self._read(self._size)

    def send_to(self, socket_descriptor: int) -> int:
        """Send as many bytes as the socket takes now, and consume them. Not for TLS: nothing is encrypted.

        Returns:
            The number of bytes. If it is less than all and not `must_be_read`, the socket takes more later. If `must_be_read`, write the
            bytes that `take` returns: this finds out whether the socket is closed, the disk fails, or only sendfile does.
        """
        try:
            sent = self._files.send(socket_descriptor, self._descriptor, self._position, self._size)
        except BlockingIOError:
            return 0
        except OSError as error:
            self.must_be_read = True
            if not isinstance(error, ConnectionError):
                self._piece_size = _READ_SIZE
            return 0
        if not sent:
            self.must_be_read = True  # at the end of the file
        self._consume(sent)
        return sent

    def take(self, size: int = 0) -> bytes:
        """Read and consume the next bytes, `size` or a few kilobytes. Raises OSError if the disk fails."""
        piece = self._read(min(self._size, size or self._piece_size))
        self._consume(len(piece))
        return piece

    def _read(self, size: int) -> bytes:
        data = self._files.read_at(self._descriptor, size, self._position)
        if len(data) != size:
            raise _too_short()
        return data

    def _consume(self, size: int) -> None:
        self._position += size
        self._size -= size


def _too_short() -> OSError:
    return OSError(errno.ENODATA, "A log file is shorter than it was")


class FileRange(NamedTuple):
    """Bytes of a file for another process. It can be pickled if `files.is_shared`."""

    files: Files
    path: str
    identity: tuple[int, int]  #: of the file
    position: int
    size: int

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """Open the file. Raises FileNotFoundError if the path has another file or none: it was deleted, moved or compacted."""
        descriptor = self.files.open(self.path, READ_ONLY)
        try:
            if self.files.identity(descriptor) != self.identity:
                raise FileNotFoundError(errno.ENOENT, "another file has this name now", self.path)
            yield descriptor
        finally:
            self.files.close(descriptor)

    def read(self, descriptor: int, start: int, size: int) -> bytes:
        """Read at most `size` bytes of the range, from its byte `start` on; fewer at its end, or if the file is shorter than it was."""
        return self.files.read_at(descriptor, min(size, self.size - start), self.position + start)
