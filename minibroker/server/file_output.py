"""Answers with slices of files, sent as fast as the client takes them.

The transport owns the socket, so a slice is sent by sendfile only while the transport's write buffer is empty:

    several clients read much           a thread calls sendfile (sender_threads.py), and the loop goes on when it has
    sendfile takes the whole slice      the next chunk
    sendfile takes a part or nothing    the socket is full. WritableSockets calls when it takes bytes again: then sendfile goes on
    sendfile fails                      a piece is read and written: it shows whether the disk, the socket or only sendfile fails. The
                                        transport calls pause_writing, and resume_writing when its buffer is empty again
    the client keeps up for TURN_SIZE   other connections have their turn first

A client that does not read therefore costs a descriptor for each slice, and no memory for its answers. Where the socket cannot be
watched (no epoll, or no descriptor for it), pieces of `PIECE_SIZE` bytes are read and written when the socket is full.

A transport of TLS has `send_piece`: slices are read, encrypted and sent in pieces of `TLS_PIECE_SIZE`, because sendfile would send plain
bytes. The rest of one piece waits for a client that does not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, cast

from minibroker.server.sender_threads import THREAD_SIZE, SenderThreads, Sending
from minibroker.server.writable_sockets import WritableSockets
from minibroker.storage.file_slice import FileSlice
from minibroker.wire.schema import Buffer

TURN_SIZE: Final = 8 * 1024 * 1024  #: bytes that are sent to one client before other connections have their turn


TLS_PIECE_SIZE: Final = 64 * 1024
TLS_TURN_SIZE: Final = 1024 * 1024  #: as TURN_SIZE; encrypting a megabyte takes half a millisecond


class FileOutput:
    """Chunks of answers in order, of which at least one is a FileSlice.

    The transport must call pause_writing for each byte that it holds back (`set_write_buffer_limits(high=0)`).
    """

    __slots__ = (
        "_chunks", "_send_on", "_send_piece", "_sending", "_sockets", "_taken", "_threads", "_transport", "_watched", "waits_for_socket",
    )  # fmt: skip

    def __init__(
        self,
        transport: asyncio.Transport,
        chunks: Iterable[Buffer],
        sockets: WritableSockets,
        threads: SenderThreads,
        send_on: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._sockets = sockets
        self._threads = threads
        self._sending: Sending | None = None  #: the first chunk, while a thread has it
        self._taken = THREAD_SIZE  #: bytes that the socket took at once; a thread does not pay for a client that takes little
        self._send_on = send_on
        self._watched = -1  #: the socket, once it was full
        self.waits_for_socket = False  #: `send_on` will be called
        self._send_piece: Callable[[bytes], int] | None = getattr(transport, "send_piece", None)
        self._chunks = deque(cast("Iterable[Buffer | FileSlice]", chunks))

    def add(self, chunks: Iterable[Buffer]) -> None:
        """Send `chunks` after those that are there."""
        self._chunks += chunks

    @property
    def memory_size(self) -> int:
        """Bytes that are in memory, not in files."""
        return sum(len(chunk) for chunk in self._chunks if not isinstance(chunk, FileSlice))

    def send(self) -> bool:
        """Send what the socket takes now.

        Returns:
            Whether everything was sent or is with the transport. If not, and the transport holds nothing, call again when `send_on` is
            called if this `waits_for_socket`, else after other connections had their turn.

        Raises:
            OSError: the disk failed. Close the connection: the head of the answer has been sent.
        """
        transport, chunks = self._transport, self._chunks
        left = TURN_SIZE if self._send_piece is None else TLS_TURN_SIZE
        self.waits_for_socket = False
        while chunks:
            if transport.is_closing():
                chunks.clear()
            elif self.waits_for_socket or transport.get_write_buffer_size() or left <= 0:
                return False
            elif isinstance(chunks[0], FileSlice):
                left -= self._send_slice(chunks[0])
            else:
                transport.writelines(self._next_buffers())
        return True

    def _send_slice(self, chunk: FileSlice) -> int:
        if self._send_piece is not None:
            sent = self._send_piece(self._take(chunk, TLS_PIECE_SIZE))
        elif chunk.must_be_read:
            sent = self._write_piece(chunk)
        else:
            descriptor = self._transport.get_extra_info("socket").fileno()
            if self._taken >= THREAD_SIZE:
                self._sending = self._threads.send(chunk, descriptor, self._thread_has_sent)
                if self._sending is not None:
                    self._taken = len(chunk)
                    self.waits_for_socket = True
                    return 0
            sent = self._taken = chunk.send_to(descriptor)
            if len(chunk) and not self._is_awaited(descriptor, chunk):
                sent += self._write_piece(chunk)
        if not len(chunk):
            self._chunks.popleft()
        return sent

    def _thread_has_sent(self) -> None:
        """Go on after a thread, unless the socket is full."""
        self._sending = None
        self.waits_for_socket = False
        chunk = cast("FileSlice", self._chunks[0])
        self._taken -= len(chunk)
        if not len(chunk):
            self._chunks.popleft()
        elif self._is_awaited(self._transport.get_extra_info("socket").fileno(), chunk):
            return
        self._send_on()

    def _is_awaited(self, descriptor: int, chunk: FileSlice) -> bool:
        """Wait for the socket, if it is full and the system can watch it."""
        if not chunk.must_be_read and self._sockets.wait(descriptor, self._send_on):
            self._watched = descriptor
            self.waits_for_socket = True
        return self.waits_for_socket

    def _write_piece(self, chunk: FileSlice) -> int:
        piece = self._take(chunk)
        self._transport.write(piece)
        return len(piece)

    def close(self) -> None:
        """Forget the socket: the connection is closed."""
        if self._sending is not None:
            self._sending.cancel()
        if self._watched >= 0:
            self._sockets.forget(self._watched)

    @staticmethod
    def _take(chunk: FileSlice, size: int = 0) -> bytes:
        try:
            return chunk.take(size)
        except OSError as error:
            if chunk.on_failure is not None:
                chunk.on_failure(error)
            raise

    def _next_buffers(self) -> list[Buffer]:
        buffers: list[Buffer] = []
        while self._chunks and not isinstance(self._chunks[0], FileSlice):
            buffers.append(cast("Buffer", self._chunks.popleft()))
        return buffers
