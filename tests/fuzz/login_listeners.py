"""Listeners with TLS and SASL of a fuzzed broker, and connections to them."""

from __future__ import annotations

import json
import socket
import ssl
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.certificates import Authority
from tests.support.ports import free_ports

CLOSE_BOUND_S: Final = 30.0  #: the broker waits 20 s for the rest of a TLS handshake
PASSWORD: Final = "right-horse-battery"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SECURITY: Final = "org.apache.kafka.common.security"
_MODULES: Final = {
    "plain": f'{_SECURITY}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
    "scram-sha-256": f"{_SECURITY}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_SECURITY}.scram.ScramLoginModule required;",
    "oauthbearer": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
}


class Ports(NamedTuple):
    """The listeners."""

    plain: int
    ssl: int
    sasl: int
    sasl_ssl: int


class LoginListeners:
    """The properties of a broker with these listeners."""

    def __init__(self, folder: Path) -> None:
        first = free_ports(4)
        self.ports = Ports(first, first + 1, first + 2, first + 3)
        authority = Authority(folder)
        self.ca = authority.file
        self._broker = authority.issue("broker").file
        self._jwks = folder / "jwks.json"
        self._jwks.write_text(json.dumps({"keys": [_public_key()]}))

    def properties(self) -> dict[str, str]:
        """Return the properties."""
        names = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        found = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in zip(names, self.ports, strict=True)),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._broker),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": self._jwks.as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka",
            "connection.failed.authentication.delay.ms": "1",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            prefix = f"listener.name.{listener}"
            found |= {f"{prefix}.{mechanism}.sasl.jaas.config": text for mechanism, text in _MODULES.items()}
            found[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = (
                f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            )
        return found


def _public_key() -> dict[str, str]:
    numbers = rsa.generate_private_key(65537, 2048).public_key().public_numbers()

    def text(number: int) -> str:
        return urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8, "big")).decode().rstrip("=")

    return {"kty": "RSA", "kid": "one", "alg": "RS256", "n": text(numbers.n), "e": text(numbers.e)}


class Link:
    """A connection that sends in pieces. `received` is empty at the end of what the broker sends."""

    def __init__(self, port: int, pieces: Callable[[bytes], list[bytes]]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), CLOSE_BOUND_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pieces = pieces

    def send(self, data: bytes) -> None:
        """Send, unless the broker has closed."""
        with suppress(ConnectionError):
            for piece in self._pieces(data):
                self._socket.sendall(piece)

    def received(self) -> bytes:
        """Wait for bytes. Raise TimeoutError if there are none for too long."""
        try:
            return self._socket.recv(1 << 16)
        except ConnectionError:
            return b""

    def finish(self) -> None:
        """Send no more."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close."""
        self._socket.close()


class TlsLink:
    """A Link with TLS."""

    def __init__(self, link: Link, context: ssl.SSLContext) -> None:
        self._link = link
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._link.send(self._outgoing.read())
                self._incoming.write(self._link.received())

    def send(self, data: bytes) -> None:
        """Encrypt and send."""
        self._tls.write(data)
        self._link.send(self._outgoing.read())

    def received(self) -> bytes:
        """Wait for decrypted bytes."""
        while True:
            try:
                return self._tls.read(1 << 16)
            except ssl.SSLWantReadError:
                more = self._link.received()
                if not more:
                    return b""
                self._incoming.write(more)
            except ssl.SSLError:  # the close_notify
                return b""

    def finish(self) -> None:
        """Send no more."""
        self._link.finish()

    def close(self) -> None:
        """Close."""
        self._link.close()
