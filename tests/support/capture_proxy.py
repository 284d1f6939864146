"""A proxy for Kafka's protocol that keeps every frame it passes on: what a client sends, and what the broker answers.

The broker must advertise the proxy's address, or clients go round it. Threads, not asyncio: it is started once by
`python -m tests.golden capture clients`, at nobody's cost.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import NamedTuple

REQUEST, RESPONSE = "request", "response"


class Captured(NamedTuple):
    """One frame with its size prefix, and the key and version it belongs to."""

    label: str
    api_key: int
    version: int
    direction: str
    client_id: str
    data: bytes


class CaptureProxy:
    """Listens on 127.0.0.1:`port`, speaks to `target`, collects `frames`; `label` marks whatever passes from now on."""

    def __init__(self, port: int, target: tuple[str, int]) -> None:
        self.frames: list[Captured] = []
        self.label = ""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts, or it would keep the port
        self._listener.close()

    def loses(self, frame: Captured) -> bool:
        """Whether the connection dies instead of passing this frame on; for a subclass to say."""
        del frame
        return False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:  # not up yet, or gone
                client.close()
                continue
            waiting: dict[int, tuple[str, int, int, str]] = {}
            threading.Thread(target=self._pass_on, args=(client, server, waiting, REQUEST), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, waiting, RESPONSE), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, waiting: dict[int, tuple[str, int, int, str]], direction: str) -> None:
        reader = source.makefile("rb")
        with contextlib.suppress(OSError):
            while len(prefix := reader.read(4)) == 4:
                data = prefix + reader.read(int.from_bytes(prefix, "big"))
                frame = self._request(data, waiting) if direction == REQUEST else self._response(data, waiting)
                self.frames.append(frame)
                if self.loses(frame):
                    source.shutdown(socket.SHUT_RDWR)
                    break
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _request(self, data: bytes, waiting: dict[int, tuple[str, int, int, str]]) -> Captured:
        api_key, version, correlation_id, length = struct.unpack_from(">hhih", data, 4)
        client_id = data[14 : 14 + max(length, 0)].decode()
        waiting[correlation_id] = (self.label, api_key, version, client_id)
        return Captured(self.label, api_key, version, REQUEST, client_id, data)

    @staticmethod
    def _response(data: bytes, waiting: dict[int, tuple[str, int, int, str]]) -> Captured:
        label, api_key, version, client_id = waiting.pop(int.from_bytes(data[4:8], "big"))
        return Captured(label, api_key, version, RESPONSE, client_id, data)
