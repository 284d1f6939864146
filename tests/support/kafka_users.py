"""Send requests to an Apache Kafka as its users: connections that log in by SASL PLAIN, and requests of our schemas.

port, settings = kafka_with_users(["alice", "bob"])
with KafkaProcess(folder, settings=settings), KafkaUser(port, "alice") as alice:
    answer = alice.ask(k03.Request(...))
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Self

from minibroker.config.broker_properties import STANDARD_AUTHORIZER
from minibroker.wire.api import api_of
from minibroker.wire.codec import decode
from minibroker.wire.header import decode_response_header, response_header_version
from tests.support.broker_in_memory import frame_of
from tests.support.ports import free_port

PASSWORD = "pw"
SUPER_USER = "admin"
TIMEOUT_S = 30.0

_HANDSHAKE = b"\x00\x11\x00\x01\x00\x00\x00\x00\xff\xff\x00\x05PLAIN"  # SaslHandshake v1


def settings_with_users(port: int, sasl_port: int, controller_port: int, users: Iterable[str]) -> Mapping[str, str]:
    """Return the lines of a server.properties with an authorizer; the plain listener is the broker's own, and a super user's."""
    entries = " ".join(f'user_{user}="{PASSWORD}"' for user in [*users, SUPER_USER])
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {entries};"
        ),
    }


def kafka_with_users(users: Iterable[str]) -> tuple[int, Mapping[str, str]]:
    """Return the port for users, and the settings of a KafkaProcess, on free ports."""
    plain, sasl, controller = free_port(), free_port(), free_port()
    quorum = {"controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}"}
    return sasl, {**settings_with_users(plain, sasl, controller, users), **quorum}


class ConnectionClosedError(Exception):
    """The broker closed the connection instead of an answer."""


class LoginRefusedError(Exception):
    """The broker refused a login, with the message of the exception."""


class KafkaUser:
    """One connection of one user."""

    def __init__(self, port: int, user: str, token_hmac: bytes | None = None) -> None:
        """With `token_hmac` the user is the id of a delegation token, and logs in by SCRAM-SHA-512. An empty user does not log in."""
        self._port, self._user, self._token_hmac = port, user, token_hmac
        self._socket: socket.socket | None = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), TIMEOUT_S)
            if self._token_hmac is not None:
                self._log_in_by_token(base64.b64encode(self._token_hmac))
            elif self._user:
                self._exchange(_HANDSHAKE)
                self._authenticate(f"\0{self._user}\0{PASSWORD}".encode())
        return self._socket

    def _log_in_by_token(self, password: bytes) -> None:
        mechanism = b"SCRAM-SHA-512"
        self._exchange(_HANDSHAKE[:-7] + len(mechanism).to_bytes(2, "big") + mechanism)
        bare = f"n={self._user},r=nonce,tokenauth=true"
        first = self._authenticate(b"n,," + bare.encode()).decode()
        nonce, salt, iterations = (part[2:] for part in first.split(","))
        salted = hashlib.pbkdf2_hmac("sha512", password, base64.b64decode(salt), int(iterations))
        client_key = hmac.digest(salted, b"Client Key", "sha512")
        unproven = f"c=biws,r={nonce}"
        signature = hmac.digest(hashlib.sha512(client_key).digest(), f"{bare},{first},{unproven}".encode(), "sha512")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._authenticate(f"{unproven},p={base64.b64encode(proof).decode()}".encode())

    def _authenticate(self, token: bytes) -> bytes:
        """Send SaslAuthenticate v0; return the bytes of the answer."""
        answer = self._exchange(b"\x00\x24\x00\x00\x00\x00\x00\x00\xff\xff" + len(token).to_bytes(4, "big") + token)
        if answer[4:6] != b"\0\0":
            raise LoginRefusedError(answer[8:].decode(errors="replace"))
        return answer[12:]  # after correlation id, error code, a null message, and the size

    def _exchange(self, frame: bytes) -> bytes:
        assert self._socket is not None
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(self._receive(4), "big")
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                self.close()
                raise ConnectionClosedError
            data += part
        return data

    def ask(self, request: Any, version: int | None = None, *, client_id: str | None = "test") -> Any:
        """Send a request and return its response, or raise ConnectionClosedError."""
        api = api_of(sys.modules[type(request).__module__])
        number = api.max_version if version is None else version
        self._connected()
        answer = self._exchange(bytes(frame_of(request, number, client_id=client_id)))
        _, position = decode_response_header(answer, response_header_version(api, number))
        return decode(api.Response, answer[position:], number, flexible=api.flexible(number))

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
