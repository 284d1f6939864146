"""TLS between a socket and its `Connection`: decrypt what arrives, encrypt what is written.

`TlsProtocol` is the protocol of the socket's transport, `TlsTransport` the transport of the Connection. They are used in place of
`create_server(ssl=...)`, because there a connection is not seen, counted or bounded before its handshake is over:

    accepted     the Connection is admitted and counts for all limits; it gets no bytes
    handshake    OpenSSL's state is created with the first bytes. `Handshakes` bounds how long the handshakes of one turn of the loop take,
                 and `LoginMemory` how many are under way. Each may last 20 seconds
    open         the principal is known; the Connection gets decrypted bytes
    closed       a close_notify is sent, unless the connection is aborted

Memory of a connection is bounded: BIOs get `_PIECE` bytes at a time, and nothing is read while the Connection is held.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import perf_counter
from typing import Any, Final, cast

from minibroker.clock import Timer
from minibroker.security.principals import NoPrincipal
from minibroker.security.tls import ListenerTls
from minibroker.server.login_memory import LoginMemory, Stage

log = logging.getLogger(__name__)

_PIECE: Final = 64 * 1024  #: bytes that are encrypted or decrypted at a time
_READ_SIZE: Final = 64 * 1024
_HELLO_SIZE: Final = 16 * 1024  #: bytes that are read at a time before the handshake is over
_HELLO_MAX: Final = 131_396  #: bytes of a ClientHello, by OpenSSL (CLIENT_HELLO_MAX_LENGTH)
_HELLO_HEADER_SIZE: Final = 9
_HANDSHAKE_RECORD: Final = 22
_TURN_S: Final = 0.002  #: time for handshakes in one turn of the loop
HANDSHAKE_TIMEOUT_MS: Final = 20_000
_LOGGED_EVERY_MS: Final = 1_000


class Handshakes:
    """The handshakes of all listeners of a broker: in each turn of the loop as many as fit into 2 ms, and at least one new one.

    Handshakes that are under way come first. So a client that continues does not wait for a burst of new clients, during which its
    handshake could become the oldest one and be closed.
    """

    def __init__(self, at_end_of_turn: Callable[[Callable[[], None]], None], now_ms: Callable[[], int], memory: LoginMemory) -> None:
        self.memory = memory
        self._at_end_of_turn = at_end_of_turn
        self._now_ms = now_ms
        self._new: OrderedDict[TlsProtocol, None] = OrderedDict()  #: their first bytes have arrived
        self._under_way: OrderedDict[TlsProtocol, None] = OrderedDict()  #: more bytes have arrived
        self._is_scheduled = False
        self._unlogged = 0
        self._logged_ms = 0

    def wants_turn(self, protocol: TlsProtocol, *, is_new: bool) -> None:
        """Start or continue a handshake when it is its turn."""
        (self._new if is_new else self._under_way)[protocol] = None
        self._schedule()

    def forget(self, protocol: TlsProtocol) -> None:
        """Forget a closed connection."""
        self._new.pop(protocol, None)
        self._under_way.pop(protocol, None)

    def log_failure(self, host: str, listener_name: str, reason: str) -> None:
        """Log why a handshake failed: one line a second at most, with the number of those left out."""
        now_ms = self._now_ms()
        if abs(now_ms - self._logged_ms) < _LOGGED_EVERY_MS:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more failed since the last line)" if self._unlogged else ""
        self._unlogged, self._logged_ms = 0, now_ms
        log.warning("failed authentication of %s on %s: TLS handshake failed: %s%s", host, listener_name, reason, more)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._at_end_of_turn(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        began_s = perf_counter()
        for queue in (self._under_way, self._new):
            while queue:
                queue.popitem(last=False)[0].shake_hands()
                if perf_counter() - began_s > _TURN_S:
                    break
        if self._under_way or self._new:
            self._schedule()


class TlsTransport(asyncio.Transport):
    """What a Connection writes to."""

    def __init__(self, protocol: TlsProtocol, raw: asyncio.Transport) -> None:
        super().__init__()
        self._protocol = protocol
        self._raw = raw
        self._is_closing = False
        self.is_wanted = True  #: whether the Connection wants bytes

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the socket's transport knows, for example the address of the client."""
        return self._raw.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Encrypt and send."""
        if self._is_closing or not len(data):
            return
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _PIECE):
            self._raw.write(self._protocol.encrypt(view[start : start + _PIECE]))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Encrypt and send."""
        for data in list_of_data:
            self.write(data)

    def send_piece(self, data: bytes) -> int:
        """Encrypt and send a piece of a file. Call it only while the write buffer is empty.

        The socket gets as much as it takes now, so that little is left with the transport.

        Returns:
            The bytes that were encrypted: all of them.
        """
        if self._is_closing:
            return len(data)
        cipher = self._protocol.encrypt(memoryview(data))
        try:
            sent = os.write(self._raw.get_extra_info("socket").fileno(), cipher)
        except OSError:  # the socket is full, or closed: the transport finds out
            sent = 0
        if sent < len(cipher):
            self._raw.write(cipher[sent:])
        return len(data)

    def pause_reading(self) -> None:
        """Decrypt nothing more, and stop reading the socket."""
        if self.is_wanted and not self._is_closing:
            self.is_wanted = False
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Read again, first what has arrived already."""
        if not self.is_wanted and not self._is_closing:
            self.is_wanted = True
            self._raw.resume_reading()
            self._protocol.read_on()

    def close(self) -> None:
        """Send what was written and a close_notify, then close."""
        if not self._is_closing:
            self._is_closing = True
            farewell = self._protocol.farewell()
            if farewell:
                self._raw.write(farewell)
            self._raw.close()

    def abort(self) -> None:
        """Close now."""
        self._is_closing = True
        self._raw.abort()

    def is_closing(self) -> bool:
        """Whether it is closed or closing."""
        return self._is_closing or self._raw.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return the bytes that the socket has not taken."""
        return self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when `pause_writing` is called."""
        self._raw.set_write_buffer_limits(high=high, low=low)


class TlsProtocol(asyncio.BufferedProtocol):
    """The protocol of a socket's transport. Its inner protocol gets decrypted bytes."""

    def __init__(
        self,
        inner: asyncio.BufferedProtocol,
        tls: ListenerTls,
        handshakes: Handshakes,
        after: Callable[[int, Callable[[], None]], Timer],
        at_end_of_turn: Callable[[Callable[[], None]], None],
    ) -> None:
        self._inner = inner
        self._connection: Any = inner  # a Connection
        self._tls = tls
        self._handshakes = handshakes
        self._after = after
        self._at_end_of_turn = at_end_of_turn
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object: ssl.SSLObject | None = None  #: from the first bytes on
        self._raw: asyncio.Transport | None = None
        self._transport: TlsTransport | None = None
        self._timer: Timer | None = None
        self._is_open = False  #: the handshake is over
        self._area = memoryview(b"")
        self._hello_size = 0  #: that the client's first bytes claim

    # -- called by the event loop -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the Connection be admitted, and wait for the client's first bytes."""
        self._raw = cast("asyncio.Transport", transport)
        self._transport = TlsTransport(self, self._raw)
        self._timer = self._after(HANDSHAKE_TIMEOUT_MS, self._timed_out)
        self._inner.connection_made(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything."""
        self._end_handshake()
        self._handshakes.forget(self)
        self._raw = None
        self._inner.connection_lost(exc)
        self._transport = self._object = None  # OpenSSL's memory is freed now, and not by the garbage collector
        self._incoming = self._outgoing = ssl.MemoryBIO()
        self._area = memoryview(b"")

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the sizes are ours
        """Return where the loop puts the next bytes."""
        if not self._area:
            self._area = memoryview(bytearray(_READ_SIZE if self._is_open else _HELLO_SIZE))
        return self._area

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt, or continue the handshake."""
        area, self._area = self._area[:nbytes], memoryview(b"")  # an idle connection keeps none
        self._incoming.write(area)
        if self._is_open:
            self._feed()
        elif self._raw is not None:
            self._raw.pause_reading()  # one piece at a time: a client cannot fill memory before its handshake
            is_new = self._object is None
            if is_new:
                self._hello_size = _claimed_size(area)
                self._handshakes.memory.holds(self._connection, nbytes)
            self._handshakes.wants_turn(self, is_new=is_new)

    def eof_received(self) -> bool:
        """Close when the client sends no more."""
        return False

    def pause_writing(self) -> None:
        """Hold a client that does not read."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Continue."""
        self._inner.resume_writing()

    # -- handshake --------------------------------------------------------------------------------------------------

    def shake_hands(self) -> None:
        """Take the next step with the bytes that have arrived."""
        if self._raw is None or self._raw.is_closing():
            return
        if self._object is None:
            self._handshakes.memory.enter(self._connection, Stage.HANDSHAKE, self._hello_size)
            if self._raw.is_closing():  # it was the oldest itself
                return
            self._object = self._tls.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            if not self._raw.is_closing():
                self._raw.resume_reading()
            return
        except ssl.SSLError as error:
            self._flush()  # an alert tells the client
            self.fail(_reason(error))
            return
        self._flush()
        self._opened(self._object)

    def _opened(self, tls: ssl.SSLObject) -> None:
        raw, transport = self._raw, self._transport
        if raw is None or transport is None:
            return
        try:
            principal = self._tls.principal_of(tls.getpeercert(binary_form=True))
        except NoPrincipal as error:
            self.fail(str(error), is_abrupt=False)
            return
        self._end_handshake()
        self._is_open = True
        self._connection.info.principal = principal
        if self._tls.is_principal:
            self._handshakes.memory.forget(self._connection)
        else:
            self._handshakes.memory.enter(self._connection, Stage.OPEN)
        if transport.is_wanted:
            raw.resume_reading()
            self._feed()

    def _timed_out(self) -> None:
        self.fail(f"not done in {HANDSHAKE_TIMEOUT_MS // 1000} s")

    def fail(self, reason: str, *, is_abrupt: bool = True) -> None:
        """Log why the handshake failed, and close."""
        if self._raw is None or self._raw.is_closing():
            return
        info = self._connection.info
        self._handshakes.log_failure(info.client_host, info.listener_name, reason)
        self._end_handshake()
        if is_abrupt and not self._raw.get_write_buffer_size():
            self._raw.abort()
        else:
            self._raw.close()

    def _end_handshake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush(self) -> None:
        if self._outgoing.pending and self._raw is not None and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    # -- called by the transport ------------------------------------------------------------------------------------

    def encrypt(self, data: memoryview) -> bytes:
        """Return the records of some bytes."""
        if self._object is None:
            return b""
        self._object.write(data)
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """Return the close_notify, if the handshake is over."""
        if self._object is None or not self._is_open:
            return b""
        with suppress(ssl.SSLError):  # the client's own close_notify is not waited for
            self._object.unwrap()
        return self._outgoing.read()

    def read_on(self) -> None:
        """Decrypt bytes that arrived before reading was paused, after this call."""
        if self._is_open and self._object is not None and (self._incoming.pending or self._object.pending()):
            self._at_end_of_turn(self._feed)

    # -- decrypting -------------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Give the Connection decrypted bytes until there are no more or it is held."""
        transport, tls = self._transport, self._object
        if transport is None or tls is None:
            return
        while transport.is_wanted and self._raw is not None and not transport.is_closing():
            space = cast("memoryview", self._inner.get_buffer(-1))
            size, is_over, is_dry = self._decrypt(tls, space)
            if size:
                self._inner.buffer_updated(size)
            self._flush()  # answers of TLS itself, for example to a key update
            if is_over:
                transport.close()
            if is_dry:
                return

    def _decrypt(self, tls: ssl.SSLObject, space: memoryview) -> tuple[int, bool, bool]:
        """Fill `space`. Returns the size, whether the client sends no more, and whether everything that arrived is decrypted."""
        size = 0
        try:
            while size < len(space):
                count: Any = tls.read(len(space) - size, cast("bytearray", space[size:]))  # into the buffer: it returns the size
                if not count:
                    return size, True, True
                size += count
        except ssl.SSLWantReadError:
            return size, False, True
        except ssl.SSLError as error:
            info = self._connection.info
            if not isinstance(error, ssl.SSLZeroReturnError):
                log.warning("closing the connection of %s on %s: %s", info.client_host, info.listener_name, _reason(error))
            return size, True, True
        return size, False, False


def _claimed_size(data: memoryview) -> int:
    """Return the size of a ClientHello by its header: record (type, version, size), then handshake (type, 24-bit size)."""
    if len(data) < _HELLO_HEADER_SIZE or data[0] != _HANDSHAKE_RECORD:
        return _HELLO_MAX
    return min(int.from_bytes(data[6:_HELLO_HEADER_SIZE], "big"), _HELLO_MAX)


def _reason(error: ssl.SSLError) -> str:
    """Return the reason as one line, for example `no shared cipher`."""
    text = getattr(error, "verify_message", None) or error.reason or str(error)
    text = text.replace("_", " ").lower()
    return "the client does not speak TLS" if text in {"http request", "wrong version number"} else text
