"""DescribeUserScramCredentials: golden frames of real clients; answers as Apache Kafka 4.3.1 gave them (raw frames, one KRaft node,
2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.schemas import k50_describe_user_scram_credentials as schema
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answer, kafka_like, serve
from tests.support.scram_credentials import SHA_256, SHA_512, alter, describe, upsertion

STEM = "k50_describe_user_scram_credentials"
REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == STEM and frame.direction == "request")


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    broker = kafka_like()
    known = {"franz": ["librdkafka", "golden"], "java": ["java"], "kafka_python": ["librdkafka"], "librdkafka": ["librdkafka"]}
    for user in next(users for client, users in known.items() if f"_request_{client}" in name):
        alter(broker, [upsertion(user)])
    assert serve(broker, golden(name)) == kafka_answer(golden(name))


@pytest.mark.parametrize("users", [None, []])
def test_all_users_with_all_their_mechanisms(users: list[schema.User] | None) -> None:
    broker = BrokerInMemory()
    assert broker.ask(schema.Request(users=users)) == schema.Response(error_code=0, error_message="", results=[])
    for each in (upsertion("b", SHA_512, 16384), upsertion("a", SHA_512, 5000), upsertion("a", SHA_256)):
        alter(broker, [each])
    answer = broker.ask(schema.Request(users=users))
    assert [each.user for each in answer.results] == ["b", "a"]
    assert describe(broker) == {"b": [(SHA_512, 16384)], "a": [(SHA_256, 4096), (SHA_512, 5000)]}


def test_duplicate_user_is_refused_once() -> None:
    broker = BrokerInMemory()
    alter(broker, [upsertion("a"), upsertion("b")])
    answer = broker.ask(schema.Request(users=[schema.User(name=name) for name in ("a", "x", "a", "", "b")]))
    absent = "Attempt to describe a user credential that does not exist: "
    assert [(each.user, each.error_code, each.error_message, len(each.credential_infos)) for each in answer.results] == [
        ("a", 92, "Cannot describe SCRAM credentials for the same user twice in a single request: a", 0),
        ("x", 91, f"{absent}x", 0),
        ("", 91, absent, 0),
        ("b", 0, "", 1),
    ]
