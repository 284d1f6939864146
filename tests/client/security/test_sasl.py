"""The client's exchanges against the broker's mechanisms, which were compared with Apache Kafka's classes."""

from __future__ import annotations

import base64
import json

import pytest

from minibroker.client.security.sasl import ITERATIONS_MAX, UntrustedBrokerError, scram, unsecured_token
from minibroker.client.security.settings import SaslSettings
from minibroker.config.secret import Secret
from minibroker.security.sasl_session import SaslFailed
from minibroker.security.scram import ScramServer, UnknownUsers, derive

NAME = "a,b=c"


def server(mechanism: str, password: str = "secret") -> ScramServer:
    credential = derive(mechanism, password.encode(), b"salt", 4096)
    return ScramServer(mechanism, lambda name: credential if name == NAME else None, lambda _: None, UnknownUsers())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_logs_in_and_verifies_the_broker(mechanism: str) -> None:
    broker, client = server(mechanism), scram(mechanism, NAME, "secret")
    final = client.send(broker.evaluate(next(client)))
    with pytest.raises(StopIteration):
        client.send(broker.evaluate(final))
    assert (broker.is_complete, broker.principal_name) == (True, NAME)


def test_scram_rejects_a_wrong_password() -> None:
    broker, client = server("SCRAM-SHA-256"), scram("SCRAM-SHA-256", NAME, "guess")
    with pytest.raises(SaslFailed):
        broker.evaluate(client.send(broker.evaluate(next(client))))


def test_the_exchange_of_rfc_7677() -> None:
    client = scram("SCRAM-SHA-256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert next(client) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.send(b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final == b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    with pytest.raises(StopIteration):
        client.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    "answer, words",
    [
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (b"r=mine,s=c2FsdA==,i=4096", "nonce"),
        (b"r=mine1,s=c2FsdA==,i=4095", "iterations"),
        (f"r=mine1,s=c2FsdA==,i={ITERATIONS_MAX + 1}".encode(), "iterations"),
        (b"r=mine1,s=%,i=4096", "malformed"),
        (b"e=unknown-user", "ended SCRAM"),
        (b"\xff", "not ASCII"),
    ],
)
def test_scram_rejects_a_broker_that_breaks_the_rules(answer: bytes, words: str) -> None:
    client = scram("SCRAM-SHA-256", "user", "pencil", nonce="mine")
    next(client)
    with pytest.raises(UntrustedBrokerError, match=words):
        client.send(answer)


def test_scram_rejects_a_broker_without_the_password() -> None:
    client = scram("SCRAM-SHA-256", "user", "pencil", nonce="mine")
    next(client)
    client.send(b"r=mine1,s=c2FsdA==,i=4096")
    with pytest.raises(UntrustedBrokerError, match="does not know the password"):
        client.send(b"v=" + base64.b64encode(bytes(32)))


def test_an_unsecured_token_has_the_claims_of_the_login_module() -> None:
    options = {"unsecuredLoginListClaim_scope": "|a|b", "unsecuredLoginNumberClaim_n": "2", "unsecuredLoginLifetimeSeconds": "60"}
    token = unsecured_token(SaslSettings("OAUTHBEARER", "alice", Secret(""), options=options), 1000.0)
    header, claims, signature = token.split(".")
    assert signature == ""
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "==")) == {
        "sub": "alice",
        "iat": 1000.0,
        "exp": 1060.0,
        "scope": ["a", "b"],
        "n": 2.0,
    }
