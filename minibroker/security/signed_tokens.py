"""Signed tokens (JWT, RFC 7519) and the keys that verify them (JWKS, RFC 7517).

Rules are those of Apache Kafka 4.3.1 (BrokerJwtValidator). The key decides which algorithms are used with it, not the token: `none`, and
HS256 with a public key as its secret, are therefore impossible. Symmetric keys in a JWKS are ignored.

Importing this module needs the extra `security` (PyJWT and cryptography).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from minibroker.security.oauthbearer import InvalidToken, ValidToken, json_object, number_claim

log = logging.getLogger(__name__)

DOCUMENT_MAX: Final = 1024 * 1024  #: bytes of a JWKS
_KEYS_MAX: Final = 100
_TRIED_MAX: Final = 10  #: keys that are tried for a token that does not name its key
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_CURVE: Final = {"P-256": "ES256", "secp256k1": "ES256K", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA", "Ed448": "EdDSA"}


class SigningKey(NamedTuple):
    """A public key, and the algorithms that it may be used with."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any  #: of cryptography


class TokenRules(NamedTuple):
    """The claims that a signed token must have, named after Kafka's properties `sasl.oauthbearer.*`."""

    expected_audience: Sequence[str] = ()  #: one of these; empty: the token must name none
    expected_issuer: str | None = None
    sub_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    clock_skew_seconds: int = 30


def read_jwks(document: bytes) -> list[SigningKey]:
    """Read a JWKS. Keys of unknown types, for encryption, and symmetric ones are ignored.

    Raises:
        ValueError: it is not a JWKS, or has no key that can check signatures; the message does not contain its content.
    """
    try:
        found = json.loads(document)
        entries = [dict(entry) for entry in found["keys"]][:_KEYS_MAX]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("it is not a JWKS: a JSON object with a list of keys") from None
    keys = []
    for entry in entries:
        algorithms = _algorithms_of(entry)
        if not algorithms:
            continue
        try:
            public = {name: value for name, value in entry.items() if name not in {"d", "p", "q", "dp", "dq", "qi", "oth"}}
            keys.append(SigningKey(entry.get("kid"), algorithms, PyJWK.from_dict(public, algorithm=algorithms[0]).key))
        except (PyJWTError, ValueError, TypeError):
            log.warning("ignoring a key of the JWKS that cannot be read: kid %.100r", entry.get("kid"))
    if not keys:
        raise ValueError("it has no public key for signatures")
    return keys


def _algorithms_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    if entry.get("use", "sig") != "sig":
        return ()
    by_curve = _BY_CURVE.get(str(entry.get("crv")))
    possible = _RSA if entry.get("kty") == "RSA" else (by_curve,) if by_curve and entry.get("kty") in {"EC", "OKP"} else ()
    named = entry.get("alg")
    return possible if named is None else tuple(each for each in possible if each == named)


class SignedValidator:
    """Accepts tokens that one of the present keys has signed."""

    def __init__(
        self, rules: TokenRules, keys: Callable[[], Sequence[SigningKey]], on_unknown_key: Callable[[], None], now_ms: Callable[[], int]
    ) -> None:
        """`on_unknown_key` is called for a token that names a key which `keys` lacks: there may be new ones."""
        self._rules = rules
        self._keys = keys
        self._on_unknown_key = on_unknown_key
        self._now_ms = now_ms

    def __call__(self, token: str) -> ValidToken:
        """Check a token.

        Raises:
            InvalidToken: its signature or one of its claims is invalid.
        """
        claims = self._verified(token)
        rules = self._rules
        now_s = self._now_ms() / 1000
        expires_s, issued_s, begins_s = (number_claim(claims, name) for name in ("exp", "iat", "nbf"))
        if expires_s is None or issued_s is None:
            raise InvalidToken(f"it has no claim {'exp' if expires_s is None else 'iat'}")
        if expires_s < 0 or issued_s < 0:
            raise InvalidToken("one of its times is negative")
        if now_s - rules.clock_skew_seconds >= expires_s:
            raise InvalidToken("it has expired")
        if begins_s is not None and now_s + rules.clock_skew_seconds < begins_s:
            raise InvalidToken("it is not valid yet")
        if rules.expected_issuer is not None and claims.get("iss") != rules.expected_issuer:
            raise InvalidToken("its issuer is not that of sasl.oauthbearer.expected.issuer")
        self._check_audience(claims.get("aud"))
        _check_scope(claims.get(rules.scope_claim_name))
        subject = claims.get(rules.sub_claim_name)
        if not isinstance(subject, str) or not subject.strip():
            raise InvalidToken(f"it has no claim {rules.sub_claim_name} with a name")
        return ValidToken(subject.strip(), int(expires_s * 1000))

    def _verified(self, token: str) -> dict[str, Any]:
        """Return the claims of a token with a valid signature."""
        header = json_object(token.partition(".")[0])
        algorithm = header.get("alg")
        for key in self._candidates(header.get("kid")):
            if algorithm not in key.algorithms:
                continue
            try:
                PyJWS().decode_complete(token, key.key, algorithms=[algorithm])
            except (PyJWTError, ValueError, TypeError, RecursionError):
                continue
            return json_object(token.split(".")[1])
        raise InvalidToken("no key of the JWKS verifies its signature")

    def _candidates(self, key_id: object) -> Sequence[SigningKey]:
        keys = self._keys()
        if key_id is None:
            return keys[:_TRIED_MAX]
        found = [key for key in keys if key.key_id == key_id]
        if not found:
            self._on_unknown_key()
        return found

    def _check_audience(self, claim: object) -> None:
        named = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
        expected = self._rules.expected_audience
        if not expected and claim is not None:
            raise InvalidToken("it names an audience, and sasl.oauthbearer.expected.audience is not set")
        if expected and not any(each in named for each in expected):
            raise InvalidToken("its audience is not that of sasl.oauthbearer.expected.audience")


def _check_scope(claim: object) -> None:
    scopes = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    names = [each.strip() if isinstance(each, str) else "" for each in scopes]
    if "" in names or len(set(names)) < len(names):
        raise InvalidToken("its scopes are empty, or one occurs twice")
