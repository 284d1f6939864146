"""Conversations of clients that log in by SASL, rightly and wrongly, for Apache Kafka (captures/sasl.py) and for minibroker to answer.

A scene is a function that gets the ports and returns what was answered. What differs from run to run, such as nonces, is left out.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, Self

from minibroker.schemas import k00_produce as k00
from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k17_sasl_handshake as k17
from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k36_sasl_authenticate as k36
from minibroker.schemas import k50_describe_user_scram_credentials as k50
from minibroker.schemas import k51_alter_user_scram_credentials as k51
from minibroker.wire.api import api_of
from minibroker.wire.codec import decode
from minibroker.wire.header import decode_response_header, response_header_version
from minibroker.wire.schema import fields_of
from tests.support.broker_in_memory import frame_of

TIMEOUT_S = 5.0
CLOSED = "closed"
REAUTH_MS = 3_600_000
NAMED = k18.Request(client_software_name="scene", client_software_version="1")
_SECURITY = "org.apache.kafka.common.security"
_USERS = 'user_alice="secret" user_bob="other"'
MODULES = {
    "plain": f"{_SECURITY}.plain.PlainLoginModule required {_USERS};",
    "scram-sha-256": f"{_SECURITY}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_SECURITY}.scram.ScramLoginModule required;",
    "oauthbearer": f'{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}


class Ports(NamedTuple):
    """The listeners: without SASL, with it, and with sessions that end."""

    plain: int
    sasl: int
    reauth: int


def properties(ports: Ports) -> Mapping[str, str]:
    """Return the properties of the listeners, without those of Kafka's controller."""
    listeners = f"PLAINTEXT://127.0.0.1:{ports.plain},SASL://127.0.0.1:{ports.sasl},REAUTH://127.0.0.1:{ports.reauth}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,REAUTH:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(map(str.upper, MODULES)),
        "connection.failed.authentication.delay.ms": "20",
        "listener.name.reauth.connections.max.reauth.ms": str(REAUTH_MS),
        **{
            f"listener.name.{name}.{mechanism}.sasl.jaas.config": text for name in ("sasl", "reauth") for mechanism, text in MODULES.items()
        },
    }


class Conversation:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self.said: list[Any] = []  #: the outcome of the scene

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def raw(self, frame: bytes, size: int | None = None) -> bytes | None:
        """Send a frame, with another size if given. Returns the answer without its size; None if the connection is closed."""
        try:
            self._socket.sendall(struct.pack(">i", len(frame) if size is None else size) + frame)
            return self.receive()
        except ConnectionError:
            return None

    def receive(self) -> bytes | None:
        """Return the next answer without its size; None if the connection is closed."""
        prefix = self._receive(4)
        return None if prefix is None else self._receive(int.from_bytes(prefix, "big"))

    def _receive(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                return None
            data += part
        return data

    def ask(self, request: Any, version: int | None = None, encoded: int | None = None) -> Any:
        """Send a request; return and note the answer, or CLOSED. `encoded`: the version in the header, if it is another one."""
        api = api_of(sys.modules[type(request).__module__])
        number = api.max_version if version is None else version
        frame = bytearray(frame_of(request, number))
        if encoded is not None:
            struct.pack_into(">h", frame, 2, encoded)
        answer = self.raw(bytes(frame))
        if answer is None:
            self.said.append(CLOSED)
            return CLOSED
        if api.key == k18.API_KEY and struct.unpack_from(">h", answer, 4)[0] == 35:
            number = 0
        _, position = decode_response_header(answer, response_header_version(api, number))
        response = decode(api.Response, answer[position:], number, flexible=api.flexible(number))
        self.said.append(shown(response))
        return response

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        return self.ask(k17.Request(mechanism=mechanism), version)

    def authenticate(self, token: bytes | str, version: int = 2) -> Any:
        return self.ask(k36.Request(auth_bytes=token.encode() if isinstance(token, str) else token), version)

    def bare(self, token: bytes | str) -> bytes | None:
        answer = self.raw(token.encode() if isinstance(token, str) else token)
        self.said.append(CLOSED if answer is None else f"bare {_masked(answer)}")
        return answer

    def ends(self) -> None:
        """Note that the broker closes the connection, or not."""
        try:
            self.said.append(CLOSED if self._socket.recv(1) == b"" else "more bytes")
        except ConnectionError:
            self.said.append(CLOSED)
        except TimeoutError:
            self.said.append("stays open")


def _masked(token: bytes) -> str:
    """Return a token without what is random in it."""
    if token.startswith(b"r="):
        return f"r=...,s=...,{token.decode().split(',')[2]}"
    return "v=..." if token.startswith(b"v=") else token.decode(errors="replace")


def shown(value: Any) -> Any:
    """Return a response as JSON. ApiVersions lists whether it has the APIs of SASL alone."""
    if isinstance(value, k18.Response):
        keys = [each.api_key for each in value.api_keys]
        return {"error_code": value.error_code, "has": [key in keys for key in (17, 36)]}
    if isinstance(value, bytes):
        return _masked(value)
    if isinstance(value, list):
        return sorted(value) if all(isinstance(each, str) for each in value) else [shown(each) for each in value]
    if hasattr(type(value), "declared_"):
        return {field.name: shown(getattr(value, field.name)) for field in fields_of(type(value))}
    return str(value) if not isinstance(value, (int, str, bool, type(None))) else value


@cache
def _salted(hash_name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return the salted password. The same one is not computed twice: a flood of logins must not be slowed down by its clients."""
    return hashlib.pbkdf2_hmac(hash_name, password, salt, iterations)


def scram_client(name: str, password: bytes, mechanism: str, *, first: str = "", nonce: str = "0123456789abcdef") -> Callable[..., bytes]:
    """Return the last message of a client as a function of the broker's first one."""
    bare = first or f"n={name},r={nonce}"
    hash_name = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]

    def last(server_first: bytes, *, with_nonce: str | None = None) -> bytes:
        parts = dict(each.split("=", 1) for each in server_first.decode().split(","))
        salted = _salted(hash_name, password, base64.b64decode(parts["s"]), int(parts["i"]))
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        unproven = f"c=biws,r={with_nonce or parts['r']}"
        signed = f"{bare},{server_first.decode()},{unproven}".encode()
        signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    return last


def scram(talk: Conversation, name: str, password: bytes, mechanism: str = "SCRAM-SHA-256") -> None:
    """Log in by SCRAM as far as the broker lets the client."""
    talk.handshake(mechanism)
    answer = talk.authenticate(f"n,,n={name},r=0123456789abcdef")
    if answer != CLOSED and answer.error_code == 0:
        talk.authenticate(scram_client(name, password, mechanism)(answer.auth_bytes))


def bearer(subject: str, lasts_s: int = 3600) -> str:
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now_s - 60, "exp": now_s + lasts_s})
    token = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"n,,\x01auth=Bearer {token}.\x01\x01"


def make_users(ports: Ports) -> None:
    """Give alice a password for both SCRAM mechanisms, through the listener without SASL."""
    for number, name in ((1, "sha256"), (2, "sha512")):
        salted = hashlib.pbkdf2_hmac(name, b"secret", b"salt", 8192)
        upsertion = k51.Upsertion(name="alice", mechanism=number, iterations=8192, salt=b"salt", salted_password=salted)
        with Conversation(ports.plain) as talk:
            talk.ask(k51.Request(deletions=[], upsertions=[upsertion]))


def _plain(token: str) -> Callable[[Conversation], None]:
    def scene(talk: Conversation) -> None:
        talk.handshake("PLAIN")
        talk.authenticate(token)
        talk.ends()

    return scene


def _first(frame: bytes, size: int | None = None) -> Callable[[Conversation], None]:
    def scene(talk: Conversation) -> None:
        talk.said.append(CLOSED if talk.raw(frame, size) is None else "answered")

    return scene


def _instead_of_a_token(request: Any, version: int | None = None) -> Callable[[Conversation], None]:
    def scene(talk: Conversation) -> None:
        talk.handshake("PLAIN")
        talk.ask(request, version)
        talk.ends()

    return scene


def _unknown_mechanism(name: str, version: int) -> Callable[[Conversation], None]:
    def scene(talk: Conversation) -> None:
        talk.handshake(name, version)
        talk.ends()

    return scene


def _plain_by_version(version: int) -> Callable[[Conversation], None]:
    def scene(talk: Conversation) -> None:
        talk.ask(NAMED, min(version + 2, 4))
        talk.handshake("PLAIN")
        talk.authenticate("\0alice\0secret", version)
        talk.ask(k17.Request(mechanism="PLAIN"))
        talk.ask(k36.Request(auth_bytes=b"\0alice\0secret"))
        talk.ask(NAMED)
        talk.ask(k50.Request(users=[k50.User(name="alice")]))

    return scene


def _v0(token: str, mechanism: str = "PLAIN") -> Callable[[Conversation], None]:
    def scene(talk: Conversation) -> None:
        talk.handshake(mechanism, 0)
        if talk.bare(token) is not None:
            talk.ask(NAMED)

    return scene


def _v0_scram(talk: Conversation) -> None:
    talk.handshake("SCRAM-SHA-256", 0)
    first = talk.bare("n,,n=alice,r=0123456789abcdef")
    assert first is not None
    talk.bare(scram_client("alice", b"secret", "SCRAM-SHA-256")(first))
    talk.ask(NAMED)


def _versions_twice(talk: Conversation) -> None:
    talk.ask(NAMED)
    talk.ask(NAMED)


def _versions_unknown(talk: Conversation) -> None:
    talk.ask(NAMED, 4, encoded=99)
    talk.ask(NAMED, 4, encoded=99)
    talk.ask(k18.Request(client_software_name="-", client_software_version="?"))
    talk.ask(NAMED)
    talk.handshake("PLAIN")
    talk.authenticate("\0alice\0secret")


def _versions_after_handshake(talk: Conversation) -> None:
    talk.handshake("PLAIN")
    talk.ask(NAMED)
    talk.ends()


def _scram_right(mechanism: str) -> Callable[[Conversation], None]:
    def scene(talk: Conversation) -> None:
        scram(talk, "alice", b"secret", mechanism)
        talk.ask(NAMED)

    return scene


def _scram_wrong(name: str, password: bytes) -> Callable[[Conversation], None]:
    def scene(talk: Conversation) -> None:
        scram(talk, name, password)
        talk.ends()
        # An unknown user is refused at another message: only the last answer and the end count.
        del talk.said[1:-2]

    return scene


def _scram_malformed(*tokens: str) -> Callable[[Conversation], None]:
    def scene(talk: Conversation) -> None:
        talk.handshake("SCRAM-SHA-256")
        for token in tokens:
            talk.authenticate(token)
        talk.ends()

    return scene


def _scram_other_nonce(talk: Conversation) -> None:
    talk.handshake("SCRAM-SHA-256")
    first = talk.authenticate("n,,n=alice,r=0123456789abcdef").auth_bytes
    talk.authenticate(scram_client("alice", b"secret", "SCRAM-SHA-256")(first, with_nonce="0123456789abcdef"))
    talk.ends()


def _oauthbearer(talk: Conversation) -> None:
    talk.handshake("OAUTHBEARER")
    answer = talk.authenticate(bearer("alice"))
    talk.said[-1]["session_lifetime_ms"] = 3_590_000 < answer.session_lifetime_ms <= 3_600_000
    talk.ask(k17.Request(mechanism="PLAIN"))  # another mechanism than at first
    talk.authenticate("\0alice\0secret")


def _oauthbearer_wrong(talk: Conversation) -> None:
    talk.handshake("OAUTHBEARER")
    talk.authenticate("n,,\x01auth=Bearer a.b.\x01\x01")
    talk.authenticate("\x01")
    talk.ends()


def _oauthbearer_malformed(talk: Conversation) -> None:
    talk.handshake("OAUTHBEARER")
    talk.authenticate("n,,\x01auth=Bearer\x01\x01")
    talk.ends()


def _oauthbearer_bare(talk: Conversation) -> None:
    talk.handshake("OAUTHBEARER", 0)
    talk.bare("n,,\x01auth=Bearer a.b.\x01\x01")
    talk.bare("\x01")


def _again(*steps: Callable[[Conversation], object]) -> Callable[[Conversation], None]:
    """A client that has logged in as alice, on the listener whose sessions end."""

    def scene(talk: Conversation) -> None:
        talk.handshake("PLAIN")
        talk.authenticate("\0alice\0secret")
        for step in steps:
            step(talk)

    return scene


def _handshake(mechanism: str = "PLAIN", version: int = 1) -> Callable[[Conversation], object]:
    return lambda talk: talk.handshake(mechanism, version)


def _token(token: str, version: int = 2) -> Callable[[Conversation], object]:
    return lambda talk: talk.authenticate(token, version)


def _ask(request: Any) -> Callable[[Conversation], object]:
    return lambda talk: talk.ask(request)


def _end(talk: Conversation) -> None:
    talk.ends()


METADATA = k03.Request(topics=None, allow_auto_topic_creation=False)
RIGHT = "\0alice\0secret"

#: on the listener with SASL
SASL: dict[str, Callable[[Conversation], object]] = {
    **{f"plain, SaslAuthenticate v{version}": _plain_by_version(version) for version in range(3)},
    "plain, authorization id": lambda talk: (talk.handshake("PLAIN"), talk.authenticate("alice\0alice\0secret")),
    "plain, other authorization id": _plain("bob\0alice\0secret"),
    "plain, wrong password": _plain("\0alice\0wrong"),
    "plain, unknown user": _plain("\0nobody\0secret"),
    "plain, no user": _plain("\0\0secret"),
    "plain, no password": _plain("\0alice\0"),
    "plain, two tokens": _plain("\0alice"),
    "plain, empty": _plain(""),
    "plain, five tokens": _plain("\0\0\0\0"),
    "plain without headers": _v0(RIGHT),
    "plain without headers, wrong": _v0("\0alice\0wrong"),
    "plain without headers, request": _v0("\0\x12\0\0\0\0\0\0\xff\xff"),
    "scram without headers": _v0_scram,
    "oauthbearer without headers, wrong": _oauthbearer_bare,
    **{
        f"mechanism {name!r}, v{version}": _unknown_mechanism(name, version)
        for name in ("GSSAPI", "plain", "", "SCRAM-SHA-1", "x" * 300)
        for version in (0, 1)
    },
    "ApiVersions twice": _versions_twice,
    "ApiVersions of unknown version and names": _versions_unknown,
    "ApiVersions after SaslHandshake": _versions_after_handshake,
    "scram 256": _scram_right("SCRAM-SHA-256"),
    "scram 512": _scram_right("SCRAM-SHA-512"),
    "scram, wrong password": _scram_wrong("alice", b"wrong"),
    "scram, unknown user": _scram_wrong("nobody", b"secret"),
    "scram, user of PLAIN": _scram_wrong("bob", b"other"),
    "scram, malformed": _scram_malformed("n=alice"),
    "scram, channel binding": _scram_malformed("p=tls-unique,,n=alice,r=abc"),
    "scram, other authorization id": _scram_malformed("n,a=bob,n=alice,r=abc"),
    "scram, token of nobody": _scram_wrong("alice,tokenauth=true", b"x"),
    "scram, last message first": _scram_malformed("c=biws,r=abc,p=AAAA"),
    "scram, first message twice": _scram_malformed("n,,n=alice,r=abc", "n,,n=alice,r=abc"),
    "scram, the client's nonce alone": _scram_other_nonce,
    "oauthbearer": _oauthbearer,
    "oauthbearer, wrong": _oauthbearer_wrong,
    "oauthbearer, malformed": _oauthbearer_malformed,
    "first a size of -1": _first(b"", -1),
    "first a size above the limit": _first(b"x" * 100, 524_289),
    "first a short frame": _first(b"\0\x12"),
    "first an unknown API": _first(b"\x03\xe7\0\0\0\0\0\0\xff\xff"),
    "first a token of GSSAPI": _first(b"\x60\x81\x90\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"),
    "first HTTP": _first(b"GET / HTTP/1.1\r\n\r\n"),
    "first Metadata": _first(bytes(frame_of(METADATA))),
    "first SaslAuthenticate": _first(bytes(frame_of(k36.Request(auth_bytes=RIGHT.encode())))),
    "first SaslHandshake v2": _first(b"\0\x11\0\x02\0\0\0\0\xff\xff\0\x05PLAIN"),
    "first a torn SaslHandshake": _first(b"\0\x11\0\x01\0\0\0\0\xff\xff\0\x50PLAIN"),
    "instead of a token Metadata": _instead_of_a_token(METADATA, 12),
    "instead of a token SaslHandshake": _instead_of_a_token(k17.Request(mechanism="PLAIN")),
    "instead of a token CreateTopics": _instead_of_a_token(
        k19.Request(
            topics=[k19.Topic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])],
            timeout_ms=1,
            validate_only=False,
        ),
        7,
    ),
    "instead of a token Produce": _instead_of_a_token(
        k00.Request(transactional_id=None, acks=1, timeout_ms=1, topic_data=[]),
        9,
    ),
    "instead of a token DescribeUserScramCredentials": _instead_of_a_token(k50.Request(users=None)),
    "instead of a token an unknown API": lambda talk: (talk.handshake("PLAIN"), _first(b"\x03\xe7\0\0\0\0\0\0\xff\xff")(talk))[1],
}

#: on the listener whose sessions end
REAUTH: dict[str, Callable[[Conversation], object]] = {
    "again": _again(_handshake(), _token(RIGHT), _ask(NAMED)),
    "again, SaslAuthenticate v0": _again(_handshake(), _token(RIGHT, 0), _ask(NAMED)),
    "again without headers": _again(_handshake(version=0), lambda talk: talk.bare(RIGHT), _ask(NAMED)),
    "again with a wrong password": _again(_handshake(), _token("\0alice\0wrong"), _end),
    "again as another user": _again(_handshake(), _token("\0bob\0other"), _end),
    "again by another mechanism": _again(_handshake("SCRAM-SHA-256"), _token("n,,n=alice,r=abc")),
    "again by an unknown mechanism": _again(_handshake("GSSAPI"), _end),
    "again twice within a second": _again(_handshake(), _token(RIGHT), _handshake(), _ask(NAMED)),
    "again, with a request between": _again(_handshake(), _ask(METADATA), _end),
    "SaslAuthenticate without SaslHandshake": _again(_token(RIGHT), _ask(NAMED)),
}

#: on the listener without SASL
PLAIN: dict[str, Callable[[Conversation], object]] = {
    "SaslHandshake without SASL": lambda talk: talk.handshake("PLAIN"),
    "SaslAuthenticate without SASL": lambda talk: talk.authenticate(RIGHT),
    "SaslAuthenticate v0 without SASL": lambda talk: talk.authenticate(RIGHT, 0),
}


def answers(ports: Ports) -> dict[str, list[Any]]:
    """Play every scene. Returns what was answered, by the name of the scene."""
    found: dict[str, list[Any]] = {}
    for port, scenes in ((ports.sasl, SASL), (ports.reauth, REAUTH), (ports.plain, PLAIN)):
        for name, scene in scenes.items():
            with Conversation(port) as talk:
                scene(talk)
                found[name] = talk.said
    return found
