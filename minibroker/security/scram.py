"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the client proves that it knows a password without sending it.

    client-first   n,[a=NAME],n=NAME,r=NONCE[,extensions]
    server-first   r=NONCE SERVER-NONCE,s=SALT,i=ITERATIONS
    client-final   c=CHANNEL BINDING,r=NONCE SERVER-NONCE[,extensions],p=PROOF
    server-final   v=SIGNATURE

Rules are those of Apache Kafka 4.3.1 (ScramSaslServer, ScramMessages), except for these, which are stricter:
- The channel binding must be that of the first message, and a mandatory extension (m=) fails, as RFC 5802 demands.
- An unknown user gets a salt that looks like one of Kafka's, always the same, and fails at the second message, so that a client cannot
  find out which users exist. Apache Kafka fails at the first.

The nonce of the last message must end with the whole nonce of this exchange, the client's and the server's (CVE-2024-56128). It need not
equal it: librdkafka before 2.3 (kcat 1.7) sends the client's nonce twice, which Apache Kafka accepts as well.

The extension `tokenauth=true` logs in with a delegation token: the name is the token's id, the password its HMAC (KIP-48).
The server never derives keys from a password at a login; `derive` does it when a credential is created.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

from minibroker.security.sasl_session import OTHER_AUTHORIZATION_ID, SCRAM_SHA_256, SCRAM_SHA_512, SaslFailed

HASHES: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
NUMBERS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}  #: of the mechanisms in records and requests (KIP-554)
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
_SALT_BITS: Final = 130  #: ScramFormatter.secureRandomString
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"

_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>(?P<mandatory>m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(rf"(?P<unproven>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})")


class ScramCredential(NamedTuple):
    """The keys that the server derives from a password. A client cannot log in with them."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Hide the keys: they allow guessing passwords."""
        return "ScramCredential([hidden])"


class ScramToken(NamedTuple):
    """A delegation token: its credential, its owner, and when it expires."""

    credential: ScramCredential
    owner: str  #: the name of the principal, without `User:`
    expires_ms: int


FindCredential = Callable[[str], ScramCredential | None]  #: by name
FindToken = Callable[[str], ScramToken | None]  #: by token id; None as well if it has expired


def derive(mechanism: str, password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Derive the keys of a password."""
    return of_salted_password(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def salted_password(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Hash a password, which is what admin clients send instead of it. 4096 iterations take about 2 ms."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def of_salted_password(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Derive the keys of a salted password."""
    name = HASHES[mechanism]
    stored_key = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramCredential(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", name))


def new_salt() -> bytes:
    """Return a random salt of the form that Kafka's tools use: about 25 digits and lower-case letters."""
    return _letters(secrets.randbits(_SALT_BITS)).encode()


class UnknownUsers:
    """Credentials for names without one. A name has the same salt in every exchange of this process, and no proof is valid."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def credential(self, mechanism: str, name: str) -> ScramCredential:
        """Return a credential that looks like one of a user."""
        size = hashlib.new(HASHES[mechanism]).digest_size
        salt = int.from_bytes(hmac.digest(self._key, f"{mechanism} {name}".encode(), "sha256")) >> (256 - _SALT_BITS)
        return ScramCredential(_letters(salt).encode(), ITERATIONS_MIN, secrets.token_bytes(size), secrets.token_bytes(size))


class ScramServer:
    """The server side of one exchange."""

    def __init__(
        self, mechanism: str, find: FindCredential, find_token: FindToken, unknown: UnknownUsers, new_nonce: Callable[[], str] | None = None
    ) -> None:
        """`new_nonce` is only for tests; nonces must be unpredictable."""
        self._mechanism = mechanism
        self._find = find
        self._find_token = find_token
        self._unknown = unknown
        self._new_nonce = new_nonce or (lambda: _letters(secrets.randbits(_SALT_BITS)))
        self._first: _FirstMessages | None = None  #: the messages before the last one
        self._is_over = False
        self.is_complete = False
        self.principal_name = ""
        self.expires_ms: int | None = None
        self.is_token_authenticated = False
        self.refusal = ""

    def evaluate(self, token: bytes) -> bytes:
        """Answer the first message with salt and iterations, the second with a signature.

        Raises:
            SaslFailed: a message is malformed or repeated, or the proof is wrong.
        """
        if self._is_over:
            raise SaslFailed("a SCRAM message after the end of the exchange")
        try:
            message = token.decode("ascii")
        except UnicodeDecodeError:
            self._is_over = True
            raise SaslFailed("a SCRAM message is not ASCII") from None
        first, self._first = self._first, None
        self._is_over = True  # until the first message has turned out to be valid
        if first is None:
            self._first = self._begin(message)
            self._is_over = False
            return self._first.server_first.encode()
        return self._finish(first, message)

    def _begin(self, message: str) -> _FirstMessages:
        match = _CLIENT_FIRST.fullmatch(message)
        if match is None or match["mandatory"]:
            raise SaslFailed("the first SCRAM message is malformed")
        name = match["name"].replace("=2C", ",").replace("=3D", "=")
        extensions = dict(each.split("=", 1) for each in match["extensions"].split(",")[1:])
        found: ScramCredential | None
        owner, expires_ms = name, None
        is_token = extensions.get("tokenauth", "").lower() == "true"
        if is_token:
            token = self._find_token(name)
            found, owner, expires_ms = (None, "", None) if token is None else token
        else:
            found = self._find(name)
        if match["authorization_id"] is not None and match["authorization_id"] != match["name"]:
            raise SaslFailed(OTHER_AUTHORIZATION_ID, OTHER_AUTHORIZATION_ID)
        if found is not None and found.iterations < ITERATIONS_MIN:
            raise SaslFailed(f"{found.iterations} iterations are less than the minimum {ITERATIONS_MIN} for {self._mechanism}")
        credential = self._unknown.credential(self._mechanism, name) if found is None else found
        nonce = match["nonce"] + self._new_nonce()
        salt = base64.b64encode(credential.salt).decode()
        server_first = f"r={nonce},s={salt},i={credential.iterations}"
        return _FirstMessages(
            match["header"],
            match["bare"],
            server_first,
            nonce,
            credential,
            owner,
            expires_ms,
            is_known=found is not None,
            is_token=is_token,
        )

    def _finish(self, first: _FirstMessages, message: str) -> bytes:
        match = _CLIENT_FINAL.fullmatch(message)
        if match is None:
            raise SaslFailed("the last SCRAM message is malformed")
        if not match["nonce"].endswith(first.nonce):
            raise SaslFailed("the nonce of the last SCRAM message is not that of this exchange")
        if base64.b64decode(match["channel"]) != first.header.encode():
            raise SaslFailed("the channel binding of the last SCRAM message is not that of the first one")
        hash_name, credential = HASHES[self._mechanism], first.credential
        signed = f"{first.bare},{first.server_first},{match['unproven']}".encode()
        signature = hmac.digest(credential.stored_key, signed, hash_name)
        proof = base64.b64decode(match["proof"])
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        is_proven = hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), credential.stored_key)
        if not is_proven or not first.is_known or len(proof) != len(signature):
            raise SaslFailed("the user does not exist or has another password")
        self.principal_name = first.owner
        self.expires_ms = first.expires_ms
        self.is_token_authenticated = first.is_token
        self.is_complete = True
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, hash_name))


class _FirstMessages(NamedTuple):
    """The first messages of an exchange, to which the last one refers."""

    header: str
    bare: str
    server_first: str
    nonce: str
    credential: ScramCredential
    owner: str
    expires_ms: int | None
    is_known: bool
    is_token: bool


def _letters(number: int) -> str:
    """Write a number with digits and lower-case letters, as Java's BigInteger.toString(36)."""
    found = ""
    while number:
        number, digit = divmod(number, 36)
        found = _DIGITS[digit] + found
    return found or "0"
