"""AlterUserScramCredentials: golden frames of real clients; answers as Apache Kafka 4.3.1 gave them (raw frames, one KRaft node,
2026-11-21)."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from minibroker.schemas import k51_alter_user_scram_credentials as schema
from minibroker.schemas.internal.security_records import UserScramCredentialRecord
from minibroker.schemas.internal.setting_records import FeatureLevelRecord
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve
from tests.support.scram_credentials import SHA_256, SHA_512, alter, describe, upsertion

STEM = "k51_alter_user_scram_credentials"
REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == STEM and frame.direction == "request")
TWICE = (92, "A user credential cannot be altered twice in the same request")
ABSENT = (91, "Attempt to delete a user credential that does not exist")
FEW, MANY, NO_NAME = (93, "Too few iterations"), (93, "Too many iterations"), (93, "Username must not be empty")
NO_MECHANISM = (33, "Unknown SCRAM mechanism")
DONE = (0, None)


def kept(broker: BrokerInMemory, user: str, mechanism: int) -> UserScramCredentialRecord:
    return broker.cluster.image.kept.scram_credentials[user, mechanism]


@pytest.mark.parametrize("left_over", [b"", b"\0"], ids=["whole", "as_librdkafka_leaves_a_byte"])
@pytest.mark.parametrize("name", [name for name in REQUESTS if "java" in name])
def test_golden_requests_get_kafka_bytes(name: str, left_over: bytes) -> None:
    request = golden(name)
    broker = kafka_like()
    alter(broker, [upsertion(each.name, each.mechanism) for each in request.decode().deletions])
    assert serve(broker, request._replace(data=request.data + left_over)) == kafka_answer(request)
    assert list(describe(broker)) == [each.name for each in request.decode().upsertions]


def test_users_in_another_order() -> None:
    (name,) = [name for name in REQUESTS if "franz" in name]
    answer = kafka_like().ask(golden(name).decode())
    assert sorted(map(str, answer.results)) == sorted(map(str, answer_of(golden(name)).results))
    assert (answer.results[0].user, answer.results[0].error_code) == ("golden", 0)


def test_keys_match_rfc_7677() -> None:
    """The example of section 3: what is kept proves the client to the server and the server to the client."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted_password = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    broker = BrokerInMemory()
    assert alter(broker, [upsertion("user", salt=salt, salted_password=salted_password)]) == {"user": DONE}
    record = kept(broker, "user", SHA_256)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}".encode()
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(record.stored_key, exchange, "sha256")
    client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == record.stored_key
    assert base64.b64encode(hmac.digest(record.server_key, exchange, "sha256")) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (record.salt, record.iterations) == (salt, 4096)


def test_credentials_are_kept_until_deleted() -> None:
    broker = BrokerInMemory()
    assert alter(broker, [upsertion("a"), upsertion("b", SHA_512, 16384, salted_password=bytes(64))]) == {"a": DONE, "b": DONE}
    assert len(kept(broker, "b", SHA_512).stored_key) == len(kept(broker, "b", SHA_512).server_key) == 64
    assert alter(broker, [upsertion("a", SHA_512)]) == {"a": DONE}
    assert alter(broker, [upsertion("a", SHA_256, 5000, salt=b"pepper")], [("b", SHA_512)]) == {"b": DONE, "a": DONE}
    for _ in range(2):
        assert describe(broker) == {"a": [(SHA_256, 5000), (SHA_512, 4096)]}
        assert kept(broker, "a", SHA_256).salt == b"pepper"
        broker = broker.restart(clean=False)
    assert alter(broker, (), [("a", SHA_256)]) == {"a": DONE}
    assert alter(broker, (), [("a", SHA_512)]) == {"a": DONE}
    assert describe(broker) == describe(broker.restart()) == {}


def test_refused_user_does_not_affect_others() -> None:
    broker = BrokerInMemory()
    requests = [upsertion("a"), upsertion("c", SHA_256, 16385), upsertion("d", SHA_512, 4095), upsertion(""), upsertion("f", 9, 1)]
    refused = {"c": MANY, "d": FEW, "": NO_NAME, "f": NO_MECHANISM}
    assert alter(broker, requests, [("e", SHA_256)]) == {"a": DONE, "e": ABSENT} | refused
    assert describe(broker) == {"a": [(SHA_256, 4096)]}
    assert alter(broker, (), [("", 0), ("a", SHA_512), ("f", 0)]) == {"": NO_NAME, "a": ABSENT, "f": NO_MECHANISM}
    assert alter(broker) == {}


def test_user_listed_twice() -> None:
    broker = BrokerInMemory()
    alter(broker, [upsertion("a"), upsertion("b", SHA_512)])
    end = broker.cluster.metadata.last_offset
    assert alter(broker, [upsertion("a"), upsertion("a", SHA_512)]) == {"a": TWICE}
    assert alter(broker, [upsertion("a"), upsertion("a", SHA_512), upsertion("a")]) == {"a": TWICE}
    assert alter(broker, [upsertion("a")], [("a", SHA_256)]) == {"a": TWICE}
    assert alter(broker, (), [("b", SHA_512), ("b", SHA_512)]) == {"b": TWICE}
    assert alter(broker, [upsertion("b", SHA_512)], [("b", SHA_256)]) == {"b": ABSENT}
    assert alter(broker, [upsertion("a", SHA_256, 5), upsertion("a", SHA_512)]) == {"a": FEW}
    assert broker.cluster.metadata.last_offset == end


def test_metadata_version_without_scram() -> None:
    broker = BrokerInMemory()
    broker.cluster.image.apply(FeatureLevelRecord(name="metadata.version", feature_level=10))
    message = "The current metadata.version does not support SCRAM"
    assert alter(broker, [upsertion("a")], [("b", SHA_256)]) == {"b": (35, message), "a": (35, message)}


def test_password_is_not_stored() -> None:
    secret = b"secret-of-the-user" * 2
    broker = BrokerInMemory()
    alter(broker, [upsertion("a", salted_password=secret)])
    assert secret not in b"".join(file.read_bytes() for file in broker.folder.rglob("*.log"))


def test_refused_request_lists_every_user() -> None:
    broker = BrokerInMemory()
    requests = [upsertion(str(number)) for number in range(10_001)]
    answer = broker.ask(schema.Request(deletions=[], upsertions=requests))
    assert {each.error_code for each in answer.results} == {44}
    assert len(answer.results) == 10_001
    assert describe(broker) == {}
