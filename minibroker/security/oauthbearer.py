r"""OAUTHBEARER (RFC 7628, KIP-255): the client sends a token that an authorization server gave it.

    message = n,[a=AUTHORIZATION ID],\x01auth=Bearer TOKEN\x01[NAME=VALUE\x01]...\x01

The server answers an invalid token with a JSON text. The client acknowledges it with \x01, and only then the login fails. Rules and
messages are those of Apache Kafka 4.3.1 (OAuthBearerSaslServer, OAuthBearerClientInitialResponse), except that only the \x01 may follow
the JSON text.

A `Validator` decides whether a token is valid: `UnsecuredValidator` below, only for development, because any client can write such a
token; `signed_tokens.py` for signed ones.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from minibroker.security.sasl_session import SaslFailed

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = r"[\x21-\x7e \t\r\n]+"
_MESSAGE: Final = re.compile(rf"n,(?:a=(?P<authorization_id>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+={_VALUE}\x01)*)\x01")
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_ACKNOWLEDGED: Final = b"\x01"


class ValidToken(NamedTuple):
    """What a validator found in a token."""

    principal_name: str
    expires_ms: int  #: milliseconds since the epoch


class InvalidToken(Exception):  # noqa: N818  named for what happened
    """A token is not accepted. The text is for the log and contains nothing of the token."""

    def __init__(self, reason: str, scope: str | None = None) -> None:
        """`scope` is the required scope, if the token lacks it."""
        super().__init__(reason)
        self.scope = scope

    @property
    def answer(self) -> str:
        """The JSON text that the client gets."""
        if self.scope is None:
            return '{"status":"invalid_token"}'
        return f'{{"status":"insufficient_scope", "scope":"{self.scope}"}}'


Validator = Callable[[str], ValidToken]  #: raises InvalidToken


class OAuthBearerServer:
    """The server side of one exchange."""

    def __init__(self, validate: Validator) -> None:
        self._validate = validate
        self._failure: InvalidToken | None = None  #: the answer to an invalid token, which the client has to acknowledge
        self.is_complete = False
        self.principal_name = ""
        self.expires_ms: int | None = None
        self.is_token_authenticated = False

    @property
    def refusal(self) -> str:
        """Why the token was refused; empty if it was not."""
        return "" if self._failure is None else f"the token is not accepted: {self._failure}"

    def evaluate(self, token: bytes) -> bytes:
        """Check the token of the client. The answer to a valid one is empty, the answer to an invalid one a JSON text.

        Raises:
            SaslFailed: the message is malformed, or acknowledges that the token was invalid.
        """
        if self._failure is not None:
            answer = self._failure.answer if token == _ACKNOWLEDGED else None
            raise SaslFailed(self.refusal, answer)
        authorization_id, text = _parse(token)
        try:
            valid = self._validate(text)
        except InvalidToken as failure:
            self._failure = failure.with_traceback(None)  # its frames hold the token
            return failure.answer.encode()
        if authorization_id not in ("", valid.principal_name):
            raise SaslFailed(
                "the authorization id is not the principal of the token",
                f"Authentication failed: Client requested an authorization id ({authorization_id}) "
                f"that is different from the token's principal name ({valid.principal_name})",
            )
        self.principal_name = valid.principal_name
        self.expires_ms = valid.expires_ms
        self.is_complete = True
        return b""


def _parse(message: bytes) -> tuple[str, str]:
    """Return the authorization id and the token of a client's message, or raise SaslFailed."""
    match = _MESSAGE.fullmatch(message.decode(errors="replace"))
    if match is None:
        raise SaslFailed("the OAUTHBEARER message is malformed")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise SaslFailed("the OAUTHBEARER message has no bearer token")
    return match["authorization_id"] or "", auth["token"]


class UnsecuredValidator:
    """Accepts unsigned tokens (alg none) that have not expired. A client can claim any name."""

    def __init__(self, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        """Read the options of the login module (OAuthBearerUnsecuredValidatorCallbackHandler).

        Raises:
            ValueError: unsecuredValidatorAllowableClockSkewMs is not a number of at least 0.
        """
        self._now_ms = now_ms
        self._principal_claim = options.get("unsecuredValidatorPrincipalClaimName", "").strip() or "sub"
        self._scope_claim = options.get("unsecuredValidatorScopeClaimName", "").strip() or "scope"
        self._required_scope = options.get("unsecuredValidatorRequiredScope", "").split()
        skew = options.get("unsecuredValidatorAllowableClockSkewMs", "").strip() or "0"
        if not (skew.isascii() and skew.isdigit()):
            raise ValueError("unsecuredValidatorAllowableClockSkewMs must be a number of milliseconds, at least 0")
        self._skew_ms = int(skew)

    def __call__(self, token: str) -> ValidToken:
        """Check a token.

        Raises:
            InvalidToken: it is malformed, signed, expired, issued in the future, or lacks a claim.
        """
        parts = token.split(".")
        if len(parts) != 3:
            raise InvalidToken("it does not have three parts")
        header, claims = json_object(parts[0]), json_object(parts[1])
        if header.get("alg") != "none" or parts[2]:
            raise InvalidToken("it is signed, and only unsecured tokens are accepted")
        expires_s, issued_s = number_claim(claims, "exp"), number_claim(claims, "iat")
        principal = claims.get(self._principal_claim)
        if not isinstance(principal, str) or not principal.strip():
            raise InvalidToken("it names no principal")
        if expires_s is None:
            raise InvalidToken("it has no expiration time")
        now_ms = self._now_ms()
        if issued_s is not None and 1000 * issued_s > now_ms + self._skew_ms:
            raise InvalidToken("it was issued in the future")
        if now_ms - self._skew_ms >= 1000 * expires_s:
            raise InvalidToken("it has expired")
        if issued_s is not None and expires_s <= issued_s:
            raise InvalidToken("it expires before it was issued")
        self._check_scope(claims.get(self._scope_claim))
        return ValidToken(principal, round(expires_s * 1000))

    def _check_scope(self, claim: object) -> None:
        scopes = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
        names = {each.strip() for each in scopes if isinstance(each, str)}
        if not names.issuperset(self._required_scope):
            raise InvalidToken("it lacks the required scope", f"[{', '.join(self._required_scope)}]")


def json_object(part: str) -> dict[str, Any]:
    """Decode a part of a token, or raise InvalidToken."""
    try:
        found = json.loads(base64.b64decode(part.translate(_URL_SAFE) + "=" * (-len(part) % 4), validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise InvalidToken("a part of it is not JSON in base64") from None
    if not isinstance(found, dict):
        raise InvalidToken("a part of it is not a JSON object")
    return found


_URL_SAFE: Final = str.maketrans("-_", "+/")


def number_claim(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a time claim in seconds; None if it is missing. Raise InvalidToken if it is not a number."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _SECONDS_MAX:  # NaN compares as false
        raise InvalidToken(f"its claim {name} is not a time")
    return float(value)


_SECONDS_MAX: Final = 2**53
