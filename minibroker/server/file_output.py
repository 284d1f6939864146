"""Answers with slices of files, sent as fast as the client takes them.

The transport owns the socket, so a slice is sent by sendfile only while the transport's write buffer is empty. When the socket takes
no more, a few kilobytes of the slice go to the transport, which waits for the socket on either event loop:

    sendfile takes the whole slice      the next chunk
    sendfile takes a part or nothing    `PIECE_SIZE` bytes are read and written; the transport calls pause_writing, and resume_writing
                                        when its buffer is empty again: then sendfile goes on
    the client keeps up for TURN_SIZE   other connections have their turn first

A client that does not read therefore costs `PIECE_SIZE` and a descriptor for each slice, not the size of its answer.

A transport of TLS has `send_piece`: slices are read, encrypted and sent in pieces of `TLS_PIECE_SIZE`, because sendfile would send plain
bytes. The rest of one piece waits for a client that does not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, cast

from minibroker.storage.file_slice import FileSlice
from minibroker.wire.schema import Buffer

TURN_SIZE: Final = 8 * 1024 * 1024  #: bytes that are sent to one client before other connections have their turn


TLS_PIECE_SIZE: Final = 64 * 1024
TLS_TURN_SIZE: Final = 1024 * 1024  #: as TURN_SIZE; encrypting a megabyte takes half a millisecond


class FileOutput:
    """Chunks of answers in order, of which at least one is a FileSlice.

    The transport must call pause_writing for each byte that it holds back (`set_write_buffer_limits(high=0)`).
    """

    __slots__ = ("_chunks", "_send_piece", "_transport")

    def __init__(self, transport: asyncio.Transport, chunks: Iterable[Buffer]) -> None:
        self._transport = transport
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
            Whether everything was sent or is with the transport. If not, and the transport holds nothing, call again after other
            connections had their turn.

        Raises:
            OSError: the disk failed. Close the connection: the head of the answer has been sent.
        """
        transport, chunks = self._transport, self._chunks
        left = TURN_SIZE if self._send_piece is None else TLS_TURN_SIZE
        while chunks:
            if transport.is_closing():
                chunks.clear()
            elif transport.get_write_buffer_size() or left <= 0:
                return False
            elif isinstance(chunks[0], FileSlice):
                left -= self._send_slice(chunks[0])
            else:
                transport.writelines(self._next_buffers())
        return True

    def _send_slice(self, chunk: FileSlice) -> int:
        if self._send_piece is not None:
            sent = self._send_piece(self._take(chunk, TLS_PIECE_SIZE))
        else:
            sent = chunk.send_to(self._transport.get_extra_info("socket").fileno())
            if len(chunk):
                piece = self._take(chunk)
                sent += len(piece)
                self._transport.write(piece)
        if not len(chunk):
            self._chunks.popleft()
        return sent

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
