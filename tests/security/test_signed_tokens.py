"""Signed tokens: which keys verify what, which claims are required, and forgeries."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest

jwt = pytest.importorskip("jwt")
pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization  # noqa: E402  optional
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: E402  optional

from minibroker.security.oauthbearer import InvalidToken  # noqa: E402  after the check for the extra
from minibroker.security.signed_tokens import SignedValidator, TokenRules, read_jwks  # noqa: E402  likewise

NOW_S = 1_700_000_000
RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
CLAIMS = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 600}


def jwk(private: Any, algorithm: str, **more: str) -> dict[str, Any]:
    found = json.loads(jwt.get_algorithm_by_name(algorithm).to_jwk(private.public_key()))
    found.pop("key_ops", None)
    return {**found, **more}


JWKS = {"keys": [jwk(RSA, "RS256", kid="rsa"), jwk(EC, "ES256", kid="ec", use="sig"), jwk(ED, "EdDSA", kid="ed")]}


class Keys:
    """The keys of a JWKS, and how often new ones were wanted."""

    def __init__(self, jwks: dict[str, Any] = JWKS) -> None:
        self.keys = read_jwks(json.dumps(jwks).encode())
        self.misses = 0

    def missed(self) -> None:
        self.misses += 1

    def validator(self, **rules: Any) -> SignedValidator:
        return SignedValidator(TokenRules(**rules), lambda: self.keys, self.missed, lambda: NOW_S * 1000)


def signed(claims: dict[str, Any] | None = None, key: Any = RSA, algorithm: str = "RS256", **header: Any) -> str:
    text: str = jwt.encode(CLAIMS if claims is None else claims, key, algorithm, headers={"kid": "rsa", **header})
    return text


@pytest.mark.parametrize(
    "token",
    [
        signed(),
        signed(algorithm="PS256"),
        signed(algorithm="RS512"),
        signed(key=EC, algorithm="ES256", kid="ec"),
        signed(key=ED, algorithm="EdDSA", kid="ed"),
        jwt.encode(CLAIMS, EC, "ES256"),
    ],
)
def test_a_token_that_a_key_has_signed_is_valid(token: str) -> None:
    assert Keys().validator()(token) == ("alice", (NOW_S + 600) * 1000)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def hs256_with(secret: bytes) -> str:
    text = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(CLAIMS)}"
    return f"{text}.{base64.urlsafe_b64encode(hmac.digest(secret, text.encode(), 'sha256')).decode().rstrip('=')}"


PEM = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(f"{part({'alg': 'none', 'kid': 'rsa'})}.{part(CLAIMS)}.", id="alg none"),
        pytest.param(f"{part({'alg': 'None', 'kid': 'rsa'})}.{part(CLAIMS)}.", id="alg None"),
        pytest.param(hs256_with(PEM), id="HS256 with the public key"),
        pytest.param(hs256_with(json.dumps(JWKS["keys"][0]).encode()), id="HS256 with the JWK"),
        pytest.param(signed(key=OTHER_RSA), id="another key"),
        pytest.param(signed(key=EC, algorithm="ES256"), id="a key that is not the named one"),
        pytest.param(signed(key=OTHER_RSA, jwk=jwk(OTHER_RSA, "RS256")), id="a key within the token"),
        pytest.param(signed(key=OTHER_RSA, jku="http://127.0.0.1:1/", x5u="http://127.0.0.1:1/"), id="a URL within the token"),
        pytest.param(signed(crit=["b64"], b64=False), id="a critical header"),
        pytest.param(signed()[:-4] + "AAAA", id="another signature"),
        pytest.param(signed().rpartition(".")[0] + ".", id="no signature"),
        pytest.param(".".join([signed().split(".")[0], part({**CLAIMS, "sub": "admin"}), signed().split(".")[2]]), id="other claims"),
        pytest.param("a.b.c", id="no JSON"),
        pytest.param("", id="empty"),
        pytest.param("." * 1000, id="many parts"),
        pytest.param(base64.urlsafe_b64encode(b"[" * 100_000).decode() + ".a.b", id="deep JSON"),
        pytest.param(f"{part({'alg': ['RS256'], 'kid': {'a': 1}})}.{part(CLAIMS)}.AA", id="header of other types"),
    ],
)
def test_forgeries_are_invalid(token: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        Keys().validator()(token)
    assert str(caught.value) in {"no key of the JWKS verifies its signature", "a part of it is not JSON in base64"}


@pytest.mark.parametrize(
    ("claims", "rules", "reason"),
    [
        ({"exp": None}, {}, "it has no claim exp"),
        ({"iat": None}, {}, "it has no claim iat"),
        ({"sub": None}, {}, "it has no claim sub with a name"),
        ({"sub": " "}, {}, "it has no claim sub with a name"),
        ({"sub": 5}, {}, "it has no claim sub with a name"),
        ({}, {"sub_claim_name": "name"}, "it has no claim name with a name"),
        ({"exp": NOW_S - 30}, {}, "it has expired"),
        ({"exp": NOW_S - 1}, {"clock_skew_seconds": 0}, "it has expired"),
        ({"exp": True}, {}, "its claim exp is not a time"),
        ({"exp": 1e300}, {}, "its claim exp is not a time"),
        ({"exp": 10**400}, {}, "its claim exp is not a time"),
        ({"exp": float("nan")}, {}, "its claim exp is not a time"),
        ({"exp": "soon"}, {}, "its claim exp is not a time"),
        ({"nbf": NOW_S + 31}, {}, "it is not valid yet"),
        ({}, {"expected_issuer": "https://a"}, "its issuer is not that of"),
        ({"iss": "https://b"}, {"expected_issuer": "https://a"}, "its issuer is not that of"),
        ({"aud": "other"}, {"expected_audience": ("kafka",)}, "its audience is not that of"),
        ({}, {"expected_audience": ("kafka",)}, "its audience is not that of"),
        ({"aud": "kafka"}, {}, "it names an audience"),
        ({"scope": ["a", "a"]}, {}, "its scopes are empty"),
        ({"scope": ["a", ""]}, {}, "its scopes are empty"),
    ],
)
def test_claims_that_are_missing_or_wrong(claims: dict[str, Any], rules: dict[str, Any], reason: str) -> None:
    merged = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    with pytest.raises(InvalidToken, match=reason):
        Keys().validator(**rules)(signed_raw(merged))


def signed_raw(claims: dict[str, Any]) -> str:
    """A token with claims that PyJWT refuses to write."""
    text: str = jwt.PyJWS().encode(json.dumps(claims).encode(), RSA, "RS256", headers={"kid": "rsa"})
    return text


@pytest.mark.parametrize(
    ("claims", "rules", "name"),
    [
        ({"exp": NOW_S - 29}, {}, "alice"),
        ({"nbf": NOW_S + 29}, {}, "alice"),
        ({"aud": ["x", "kafka"]}, {"expected_audience": ("a", "kafka")}, "alice"),
        ({"iss": "https://a"}, {"expected_issuer": "https://a"}, "alice"),
        ({"name": " bob "}, {"sub_claim_name": "name"}, "bob"),
        ({"scope": "read write"}, {}, "alice"),
    ],
)
def test_claims_that_are_valid(claims: dict[str, Any], rules: dict[str, Any], name: str) -> None:
    assert Keys().validator(**rules)(signed_raw({**CLAIMS, **claims})).principal_name == name


def test_a_key_is_used_with_its_own_algorithm_alone() -> None:
    validate = Keys({"keys": [jwk(RSA, "RS256", kid="rsa", alg="RS384")]}).validator()
    assert validate(signed(algorithm="RS384")).principal_name == "alice"
    with pytest.raises(InvalidToken):
        validate(signed())


def test_only_an_unknown_key_id_asks_for_new_keys() -> None:
    keys = Keys()
    for token in (signed(kid="new"), signed(key=OTHER_RSA)):
        with pytest.raises(InvalidToken):
            keys.validator()(token)
    assert keys.misses == 1


SYMMETRIC = {"kty": "oct", "kid": "rsa", "k": base64.urlsafe_b64encode(b"x" * 32).decode()}


@pytest.mark.parametrize(
    "document",
    [
        b"", b"[]", b"{}", b'{"keys": 5}', b'{"keys": [5]}', b'{"keys": []}', b"\xff", b"[" * 100_000,
        json.dumps({"keys": [SYMMETRIC]}).encode(), json.dumps({"keys": [jwk(RSA, "RS256", use="enc")]}).encode(),
        json.dumps({"keys": [{"kty": "RSA", "n": "AA", "e": "AQAB"}]}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_jwks(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"JWKS|public key"):
        read_jwks(document)


def test_symmetric_keys_beside_others_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    keys: Callable[[], Any] = lambda: read_jwks(json.dumps({"keys": [SYMMETRIC, *JWKS["keys"]]}).encode())  # noqa: E731  shorter
    assert [key.key_id for key in keys()] == ["rsa", "ec", "ed"]
    assert hashlib.sha256(b"x" * 32).hexdigest() not in caplog.text
