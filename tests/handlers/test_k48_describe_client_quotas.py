"""DescribeClientQuotas: golden frames of real clients; answers as Apache Kafka 4.3.1 gave them (raw frames, one KRaft node, 2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.schemas import k48_describe_client_quotas as schema
from tests.golden import golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.client_quotas import Entity, alter, describe, entry
from tests.support.golden_exchange import kafka_answer, kafka_like, serve

STEM = "k48_describe_client_quotas"
PRODUCE, CONSUME = "producer_byte_rate", "consumer_byte_rate"
EXACT, DEFAULT, ANY = 0, 1, 2

BOTH: Entity = (("client-id", "c"), ("user", None))
CLIENT: Entity = (("client-id", "c"),)
USER: Entity = (("user", "a"),)
ADDRESS: Entity = (("ip", "1.2.3.4"),)


def broker_with_quotas() -> BrokerInMemory:
    broker = BrokerInMemory()
    requests = [
        entry(BOTH, (CONSUME, 5)),
        entry(CLIENT, (CONSUME, 5), ("request_percentage", 10.5), (PRODUCE, 2)),
        entry(USER, (PRODUCE, 1)),
        entry(ADDRESS, ("connection_creation_rate", 7)),
    ]
    assert {code for _, code, _ in alter(broker, *requests)} == {0}
    return broker


@pytest.mark.parametrize(
    "label", ["v0_request_franz_go_1.22.2_groups", "v1_request_franz_go_1.22.2_groups", "v1_request_java_4.3.1_admin_tools_small"]
)
def test_golden_requests_get_kafka_bytes(label: str) -> None:
    broker = kafka_like()
    alter(broker, entry((("client-id", None), ("user", "golden")), (PRODUCE, 1024)))
    alter(broker, entry((("user", "golden"),), (PRODUCE, 9)), entry((("client-id", None),), (PRODUCE, 9)))
    assert serve(broker, golden(f"{STEM}_{label}")) == kafka_answer(golden(f"{STEM}_{label}"))


def test_all_quotas_match_kafka_bytes() -> None:
    """Java's answer to a filter without components: of two entities."""
    broker = kafka_like()
    for user, key, value in (("java", CONSUME, 2048), ("golden", PRODUCE, 1024)):
        alter(broker, entry((("user", user), ("client-id", None)), (key, value)))
    request, response = golden(f"{STEM}_v1_request_franz_go_1.22.2_groups_small"), golden(f"{STEM}_v1_response_java_4.3.1_admin_tools")
    assert serve(broker, request) == response.data[:4] + request.frame[4:8] + response.data[8:]


@pytest.mark.parametrize("version", [0, 1])
def test_unknown_entity_type(version: int) -> None:
    component = schema.Component(entity_type="nonsense", match_type=EXACT, match="a")
    answer = BrokerInMemory().ask(schema.Request(components=[component], strict=False), version)
    assert answer == golden(f"{STEM}_v{version}_response_franz_go_1.22.2_groups_small").decode()


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [BOTH, CLIENT, USER, ADDRESS]),
        ([], True, []),
        ([("user", EXACT, "a")], True, [USER]),
        ([("user", EXACT, "b")], False, []),
        ([("user", DEFAULT, None)], False, [BOTH]),
        ([("user", DEFAULT, None)], True, []),
        ([("user", ANY, None)], False, [BOTH, USER]),
        ([("user", ANY, None)], True, [USER]),
        ([("client-id", EXACT, "c")], False, [BOTH, CLIENT]),
        ([("client-id", ANY, None)], True, [CLIENT]),
        ([("client-id", EXACT, "c"), ("user", ANY, None)], True, [BOTH]),
        ([("client-id", EXACT, "c"), ("user", EXACT, "a")], False, []),
        ([("ip", ANY, None)], False, [ADDRESS]),
        ([("ip", DEFAULT, None)], False, []),
    ],
)
def test_filters(components: list[tuple[str, int, str | None]], strict: bool, found: list[Entity], version: int) -> None:
    answer = describe(broker_with_quotas(), *components, strict=strict, version=version)
    assert list(answer) == found
    if CLIENT in found:
        assert answer[CLIENT] == {CONSUME: 5, "request_percentage": 10.5, PRODUCE: 2}


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ([("", EXACT, "a")], "Invalid empty entity type."),
        ([("user", EXACT, "a"), ("user", ANY, None)], "Entity type user cannot appear more than once in the filter."),
        ([("user", EXACT, None)], "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", DEFAULT, "x")], "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([("user", ANY, "x")], "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ([("user", 3, "x")], "Unknown match type 3"),
        (
            [("ip", ANY, None), ("user", ANY, None)],
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.",
        ),
    ],
)
def test_invalid_filters(components: list[tuple[str, int, str | None]], message: str) -> None:
    requests = [schema.Component(entity_type=each, match_type=match_type, match=match) for each, match_type, match in components]
    answer = broker_with_quotas().ask(schema.Request(components=requests, strict=False))
    assert (answer.error_code, answer.error_message, answer.entries) == (42, message, None)
