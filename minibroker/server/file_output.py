"""Answers with slices of files, sent as fast as the client takes them.

The transport owns the socket, so a slice is sent by sendfile only while the transport's write buffer is empty. When the socket takes
no more, a few kilobytes of the slice go to the transport, which waits for the socket on either event loop:

    sendfile takes the whole slice      the next chunk
    sendfile takes a part or nothing    `PIECE_SIZE` bytes are read and written; the transport calls pause_writing, and resume_writing
                                        when its buffer is empty again: then sendfile goes on
    the client keeps up for TURN_SIZE   other connections have their turn first

A client that does not read therefore costs `PIECE_SIZE` and a descriptor for each slice, not the size of its answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final, cast

from minibroker.storage.file_slice import FileSlice
from minibroker.wire.schema import Buffer

TURN_SIZE: Final = 8 * 1024 * 1024  #: bytes that are sent to one client before other connections have their turn


class FileOutput:
    """Chunks of answers in order, of which at least one is a FileSlice.

    The transport must call pause_writing for each byte that it holds back (`set_write_buffer_limits(high=0)`).
    """

    __slots__ = ("_chunks", "_transport")

    def __init__(self, transport: asyncio.Transport, chunks: Iterable[Buffer]) -> None:
        self._transport = transport
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
        left = TURN_SIZE
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
        sent = chunk.send_to(self._transport.get_extra_info("socket").fileno())
        if len(chunk):
            try:
                piece = chunk.take()
            except OSError as error:
                if chunk.on_failure is not None:
                    chunk.on_failure(error)
                raise
            sent += len(piece)
            self._transport.write(piece)
        if not len(chunk):
            self._chunks.popleft()
        return sent

    def _next_buffers(self) -> list[Buffer]:
        buffers: list[Buffer] = []
        while self._chunks and not isinstance(self._chunks[0], FileSlice):
            buffers.append(cast("Buffer", self._chunks.popleft()))
        return buffers
