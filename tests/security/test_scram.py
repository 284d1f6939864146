"""The server side of SCRAM: vectors of the RFCs, and clients that do not keep to them. test_sasl_answers.py compares with Apache Kafka."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest

from minibroker.security.sasl_session import SCRAM_SHA_256, SCRAM_SHA_512, SaslFailed
from minibroker.security.scram import (
    HASHES,
    ScramCredential,
    ScramServer,
    ScramToken,
    UnknownUsers,
    derive,
    new_salt,
    of_salted_password,
)

NONCE = "fyko+d2lbbFgONRv9qkxdawL"


def no_tokens(_token_id: str) -> None:
    return None


def server(
    find: Callable[[str], ScramCredential | None],
    mechanism: str = SCRAM_SHA_256,
    find_token: Callable[[str], ScramToken | None] = no_tokens,
) -> ScramServer:
    return ScramServer(mechanism, find, find_token, UnknownUsers())


class Client:
    """A client that computes what RFC 5802 says."""

    def __init__(self, password: bytes, mechanism: str = SCRAM_SHA_256) -> None:
        self.password = password
        self.hash = HASHES[mechanism]

    def final(self, bare: str, server_first: bytes, *, channel: bytes = b"n,,", nonce: str | None = None, more: str = "") -> bytes:
        parts = dict(each.split("=", 1) for each in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(self.hash, self.password, base64.b64decode(parts["s"]), int(parts["i"]))
        client_key = hmac.digest(salted, b"Client Key", self.hash)
        unproven = f"c={base64.b64encode(channel).decode()},r={parts['r'] if nonce is None else nonce}{more}"
        signed = f"{bare},{server_first.decode()},{unproven}".encode()
        signature = hmac.digest(hashlib.new(self.hash, client_key).digest(), signed, self.hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self.expected = b"v=" + base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", self.hash), signed, self.hash))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()


def test_the_exchange_of_rfc_7677() -> None:
    credential = derive(SCRAM_SHA_256, b"pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    exchange = ScramServer(
        SCRAM_SHA_256, {"user": credential}.get, no_tokens, UnknownUsers(), new_nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    first = exchange.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert not exchange.is_complete
    last = exchange.evaluate(b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (exchange.is_complete, exchange.principal_name, exchange.is_token_authenticated) == (True, "user", False)


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize("name", ["alice", "a,b=c"])
def test_the_right_password_logs_in_and_a_wrong_one_does_not(mechanism: str, name: str) -> None:
    credential = derive(mechanism, b"secret", new_salt(), 4096)
    bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={NONCE}"
    for password, is_right in ((b"secret", True), (b"Secret", False), (b"", False)):
        exchange, client = server({name: credential}.get, mechanism), Client(password, mechanism)
        last = client.final(bare, exchange.evaluate(f"n,,{bare}".encode()))
        if is_right:
            assert exchange.evaluate(last) == client.expected
            assert (exchange.is_complete, exchange.principal_name) == (True, name)
        else:
            with pytest.raises(SaslFailed) as caught:
                exchange.evaluate(last)
            assert caught.value.client_message is None
            assert not exchange.is_complete


def test_a_salted_password_has_the_keys_of_its_password() -> None:
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 5000)
    assert of_salted_password(SCRAM_SHA_512, salted, b"salt", 5000) == derive(SCRAM_SHA_512, b"secret", b"salt", 5000)


def test_an_unknown_user_gets_a_salt_that_stays_and_fails_at_the_last_message() -> None:
    unknown = UnknownUsers()
    salts = []
    for _ in range(2):
        exchange = ScramServer(SCRAM_SHA_256, lambda _: None, no_tokens, unknown)
        first = exchange.evaluate(f"n,,n=nobody,r={NONCE}".encode())
        salts.append(first.split(b",s=")[1])
        with pytest.raises(SaslFailed):
            exchange.evaluate(Client(b"guess").final(f"n=nobody,r={NONCE}", first))
    assert salts[0] == salts[1]
    assert salts[0].endswith(b",i=4096")
    assert unknown.credential(SCRAM_SHA_256, "other").salt != unknown.credential(SCRAM_SHA_256, "nobody").salt
    assert len(unknown.credential(SCRAM_SHA_256, "other").salt) in range(20, 27)  # as `new_salt`


USER = derive(SCRAM_SHA_256, b"secret", b"salt", 4096)
BARE = f"n=alice,r={NONCE}"


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(lambda client, first: client.final(BARE, first, nonce=NONCE), id="the client's nonce alone"),
        pytest.param(lambda client, first: client.final(BARE, first, nonce=_nonce(first) + "x"), id="more after the nonce"),
        pytest.param(lambda client, first: client.final(BARE, first, nonce=_nonce(first)[len(NONCE) :]), id="the server's nonce alone"),
        pytest.param(lambda client, first: client.final(BARE, first, nonce=NONCE + "1" * 25), id="the nonce of another exchange"),
        pytest.param(lambda client, first: client.final(BARE, first, channel=b"y,,"), id="another channel binding"),
        pytest.param(lambda client, first: client.final(BARE, first, channel=b""), id="no channel binding"),
        pytest.param(lambda client, first: client.final(BARE, first)[:-4], id="a shorter proof"),
        pytest.param(lambda client, first: client.final(BARE, first).split(b",p=")[0] + b",p=", id="no proof"),
        pytest.param(lambda client, first: f"n,,{BARE}".encode(), id="the first message again"),
        pytest.param(lambda client, first: b"\xff\xfe", id="no ASCII"),
    ],
)
def test_a_last_message_that_does_not_fit_fails(last: Callable[[Client, bytes], bytes]) -> None:
    exchange = server({"alice": USER}.get)
    first = exchange.evaluate(f"n,,{BARE}".encode())
    message = last(Client(b"secret"), first)
    with pytest.raises(SaslFailed):
        exchange.evaluate(message)
    with pytest.raises(SaslFailed, match="after the end"):  # a failed exchange cannot be continued
        exchange.evaluate(Client(b"secret").final(BARE, first))
    assert not exchange.is_complete


def _nonce(server_first: bytes) -> str:
    return server_first.decode().split(",")[0].removeprefix("r=")


def test_a_recorded_last_message_is_no_use_in_another_exchange() -> None:
    one, other = server({"alice": USER}.get), server({"alice": USER}.get)
    last = Client(b"secret").final(BARE, one.evaluate(f"n,,{BARE}".encode()))
    other.evaluate(f"n,,{BARE}".encode())
    one.evaluate(last)
    for exchange in (one, other):
        with pytest.raises(SaslFailed):
            exchange.evaluate(last)


def test_the_nonce_of_old_librdkafka_is_accepted() -> None:
    """Versions before 2.3 repeat the client's nonce before the whole one; so does kcat 1.7.1, on Apache Kafka as well."""
    exchange, client = server({"alice": USER}.get), Client(b"secret")
    first = exchange.evaluate(f"n,,{BARE}".encode())
    assert exchange.evaluate(client.final(BARE, first, nonce=NONCE + _nonce(first))) == client.expected


def test_extensions_of_the_last_message_are_signed() -> None:
    exchange, client = server({"alice": USER}.get), Client(b"secret")
    last = client.final(BARE, exchange.evaluate(f"n,,{BARE}".encode()), more=",x=1")
    assert exchange.evaluate(last) == client.expected


def test_mandatory_extensions_and_few_iterations_fail() -> None:
    weak = derive(SCRAM_SHA_256, b"secret", b"salt", 4095)
    with pytest.raises(SaslFailed, match="malformed"):
        server({"alice": USER}.get).evaluate(f"n,,m=x,{BARE}".encode())
    with pytest.raises(SaslFailed, match="4095 iterations are less than the minimum 4096"):
        server({"alice": weak}.get).evaluate(f"n,,{BARE}".encode())


def test_a_token_logs_in_as_its_owner_and_only_with_the_extension() -> None:
    token = ScramToken(derive(SCRAM_SHA_256, b"hmac", b"salt", 4096), "owner", 1234)
    find_token = {"token-id": token}.get
    bare = f"n=token-id,r={NONCE},tokenauth=true"
    exchange, client = server({"alice": USER}.get, find_token=find_token), Client(b"hmac")
    assert exchange.evaluate(client.final(bare, exchange.evaluate(f"n,,{bare}".encode()))) == client.expected
    assert (exchange.principal_name, exchange.expires_ms, exchange.is_token_authenticated) == ("owner", 1234, True)
    for wrong, password in ((f"n=token-id,r={NONCE}", b"hmac"), (f"n=alice,r={NONCE},tokenauth=true", b"secret")):
        exchange = server({"alice": USER}.get, find_token=find_token)
        first = exchange.evaluate(f"n,,{wrong}".encode())
        with pytest.raises(SaslFailed):
            exchange.evaluate(Client(password).final(wrong, first))


def test_a_credential_shows_no_key() -> None:
    assert repr(USER) == "ScramCredential([hidden])"
