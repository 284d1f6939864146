"""Log in by SASL: the client sides of the mechanisms (SaslClientAuthenticator of Apache Kafka 4.3.1).

A mechanism is a generator: it yields tokens for the broker, and receives the broker's answers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Generator
from typing import Final

from minibroker.client.connection import Connection
from minibroker.client.errors import BrokerUnreachable, SecurityFailed, SecurityPart
from minibroker.client.security.settings import UNSECURED_LIFETIME_S, SaslSettings
from minibroker.client.transport import Deadline
from minibroker.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from minibroker.schemas import k17_sasl_handshake, k36_sasl_authenticate
from minibroker.security.sasl_session import OAUTHBEARER, PLAIN
from minibroker.security.scram import HASHES

Exchange = Generator[bytes, bytes, None]

ITERATIONS_MAX: Final = 1_000_000  #: of SCRAM; a broker could otherwise keep a client busy for hours
_SERVER_FIRST: Final = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([a-zA-Z0-9/+=]+),i=([0-9]{1,9})(?:,.*)?")
_SERVER_FINAL: Final = re.compile(r"v=([a-zA-Z0-9/+=]+)(?:,.*)?")


class UntrustedBrokerError(Exception):
    """The broker did not follow the mechanism, or does not know the password itself. The text contains no secret."""


def authenticate(connection: Connection, settings: SaslSettings, deadline: Deadline) -> int:
    """Log in, and return the milliseconds until the client must log in again (0: never).

    Raises:
        SecurityFailed: the listener has no SASL, does not offer the mechanism, or rejects the client.
    """
    address, mechanism = connection.address, settings.mechanism
    most = k17_sasl_handshake.VERSIONS[1]
    try:
        handshake: k17_sasl_handshake.Response = connection.ask(
            k17_sasl_handshake, k17_sasl_handshake.Request(mechanism=mechanism), deadline, most=most
        )
    except BrokerUnreachable as error:
        raise BrokerUnreachable(f"{error} when the client requested {mechanism}") from error
    if handshake.error_code == UnsupportedSaslMechanism.code:
        offered = ", ".join(handshake.mechanisms) or "no mechanism"
        connection.close()
        raise SecurityFailed(
            SecurityPart.MECHANISM, f"{address} does not offer the SASL mechanism {mechanism}, but {offered}: set sasl.mechanism"
        )
    if handshake.error_code == IllegalSaslState.code:
        connection.close()
        raise SecurityFailed(
            SecurityPart.PROTOCOL, f"{address} is a listener without SASL: set security.protocol to PLAINTEXT or SSL, or use another port"
        )
    if handshake.error_code:
        connection.close()
        raise SecurityFailed(SecurityPart.PROTOCOL, f"{address} answers SaslHandshake with error code {handshake.error_code}")
    try:
        return _exchange(connection, settings, exchange_of(settings), deadline)
    except BaseException:
        connection.close()
        raise


def _exchange(connection: Connection, settings: SaslSettings, exchange: Exchange, deadline: Deadline) -> int:
    lifetime_ms = 0
    token = next(exchange)
    while True:
        response: k36_sasl_authenticate.Response = connection.ask(
            k36_sasl_authenticate, k36_sasl_authenticate.Request(auth_bytes=token), deadline
        )
        if response.error_code == SaslAuthenticationFailed.code:
            raise SecurityFailed(SecurityPart.PASSWORD, _rejection(connection, settings, response.error_message))
        if response.error_code:
            message = response.error_message or f"error code {response.error_code}"
            login = f"user {settings.user}" if settings.user else "this token"
            raise SecurityFailed(SecurityPart.PASSWORD, f"{connection.address} does not authenticate {login}: {message}")
        lifetime_ms = response.session_lifetime_ms
        try:
            token = exchange.send(bytes(response.auth_bytes))
        except StopIteration:
            return lifetime_ms
        except UntrustedBrokerError as error:
            raise SecurityFailed(SecurityPart.PASSWORD, f"{connection.address} cannot be trusted: {error}") from None


def _rejection(connection: Connection, settings: SaslSettings, message: str | None) -> str:
    if settings.mechanism == OAUTHBEARER:
        login = "the token: is it expired, or does it have another issuer or audience?"
    elif settings.is_delegation_token:
        login = f"the delegation token {settings.user}: is it expired or removed?"
    else:
        login = f"user {settings.user}: the user is unknown with {settings.mechanism}, or the password is wrong"
    return f"{connection.address} rejects {login} ({message or 'without a reason'})"


def exchange_of(settings: SaslSettings) -> Exchange:
    """Return the exchange of a mechanism."""
    if settings.mechanism == PLAIN:
        return plain(settings.user, settings.password.reveal())
    if settings.mechanism == OAUTHBEARER:
        return oauthbearer(settings, time.time)
    return scram(settings.mechanism, settings.user, settings.password.reveal(), is_token=settings.is_delegation_token)


def plain(user: str, password: str) -> Exchange:
    """RFC 4616, without an authorization id, like Java's client."""
    yield b"\0".join((b"", user.encode(), password.encode()))


def scram(mechanism: str, user: str, password: str, *, is_token: bool = False, nonce: str | None = None) -> Exchange:
    """RFC 5802. Raises UntrustedBrokerError if the broker cannot prove that it knows the password."""
    algorithm = HASHES[mechanism]
    nonce = nonce or secrets.token_urlsafe(24)
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}{',tokenauth=true' if is_token else ''}"
    server_first = _text((yield f"n,,{first}".encode()))
    match = _SERVER_FIRST.fullmatch(server_first)
    if match is None:
        raise UntrustedBrokerError("its first SCRAM message is malformed")
    whole_nonce, salt, iterations = match[1], _base64(match[2]), int(match[3])
    if not whole_nonce.startswith(nonce) or whole_nonce == nonce:
        raise UntrustedBrokerError("it changed the nonce of this client")
    if not 4096 <= iterations <= ITERATIONS_MAX:
        raise UntrustedBrokerError(f"it requires {iterations} iterations of SCRAM, not 4096 to {ITERATIONS_MAX}")
    final = f"c=biws,r={whole_nonce}"
    signed = f"{first},{server_first},{final}".encode()
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    answer = _SERVER_FINAL.fullmatch(_text((yield f"{final},p={base64.b64encode(proof).decode()}".encode())))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    if answer is None or not hmac.compare_digest(_base64(answer[1]), expected):
        raise UntrustedBrokerError("it does not know the password of the user itself (wrong SCRAM signature)")


def oauthbearer(settings: SaslSettings, now_s: Callable[[], float]) -> Exchange:
    """RFC 7628: send a token. After an error, send an acknowledgement; then the broker reports that authentication failed."""
    token = settings.password.reveal() or unsecured_token(settings, now_s())
    extensions = "".join(
        f"{name.removeprefix('unsecuredLoginExtension_')}={value}\1"
        for name, value in settings.options.items()
        if name.startswith("unsecuredLoginExtension_")
    )
    if (yield f"n,,\1auth=Bearer {token}\1{extensions}\1".encode()):
        yield b"\1"


def unsecured_token(settings: SaslSettings, now_s: float) -> str:
    """Return a token without a signature, for brokers in development (OAuthBearerUnsecuredLoginCallbackHandler)."""
    options = settings.options
    lifetime_s = float(options.get("unsecuredLoginLifetimeSeconds") or options.get("lifeSeconds") or UNSECURED_LIFETIME_S)
    scope_claim = options.get("unsecuredLoginScopeClaimName") or options.get("scopeClaimName") or "scope"
    principal_claim = options.get("unsecuredLoginPrincipalClaimName") or options.get("principalClaimName") or "sub"
    claims: dict[str, object] = {principal_claim: settings.user, "iat": now_s, "exp": now_s + lifetime_s}
    for name, value in options.items():
        kind, _, claim = name.partition("_")
        if kind == "unsecuredLoginStringClaim":
            claims[claim] = value
        elif kind == "unsecuredLoginNumberClaim":
            claims[claim] = float(value)
        elif kind == "unsecuredLoginListClaim" and value:
            claims[claim] = value[1:].split(value[0])  # the first character separates
    if options.get("scope"):
        claims[scope_claim] = options["scope"].split(",")
    parts = (json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def _text(message: bytes) -> str:
    try:
        text = message.decode("ascii")
    except UnicodeDecodeError:
        raise UntrustedBrokerError("a SCRAM message is not ASCII") from None
    if text.startswith("e="):
        raise UntrustedBrokerError("it ended SCRAM with an error")
    return text


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise UntrustedBrokerError("a SCRAM message is malformed") from None
