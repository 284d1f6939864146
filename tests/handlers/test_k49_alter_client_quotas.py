"""AlterClientQuotas: golden frames of real clients; answers as Apache Kafka 4.3.1 gave them (raw frames, one KRaft node, 2026-11-21)."""

from __future__ import annotations

import math

import pytest

from minibroker.schemas import k49_alter_client_quotas as schema
from minibroker.schemas.internal.setting_records import ClientQuotaRecord, QuotaEntity
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.client_quotas import Entity, alter, describe, entry
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve

STEM = "k49_alter_client_quotas"
REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == STEM and frame.direction == "request")
PRODUCE, CONSUME, CONNECT = "producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"
USER: Entity = (("user", "a"),)
ADDRESS: Entity = (("ip", "1.2.3.4"),)


@pytest.mark.parametrize("name", [name for name in REQUESTS if "java" in name])
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    assert serve(kafka_like(), golden(name)) == kafka_answer(golden(name))


@pytest.mark.parametrize("name", [name for name in REQUESTS if "franz" in name])
def test_entities_in_another_order(name: str) -> None:
    def told(answer: schema.Response) -> list[tuple[int, str | None, str]]:
        return sorted((each.error_code, each.error_message or "", str(each.entity)) for each in answer.entries)

    request = golden(name)
    broker = kafka_like()
    assert told(broker.ask(request.decode(), request.version)) == told(answer_of(request))
    assert describe(broker) == {(("client-id", None), ("user", "golden")): {PRODUCE: 1024}}


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_changed_and_removed(version: int) -> None:
    broker = BrokerInMemory()
    both: Entity = (("client-id", None), ("user", "a"))
    assert alter(broker, entry(both[::-1], (PRODUCE, 1), (CONSUME, 2)), entry(ADDRESS, (CONNECT, 3)), version=version) == [
        (both, 0, None),
        (ADDRESS, 0, None),
    ]
    assert alter(broker, entry(both, (PRODUCE, 5), (CONSUME, None), ("nonsense", None)), entry((("ip", None),), (CONNECT, 1))) == [
        (both, 0, None),
        ((("ip", None),), 0, None),
    ]
    for _ in range(2):
        assert describe(broker) == {both: {PRODUCE: 5}, ADDRESS: {CONNECT: 3}, (("ip", None),): {CONNECT: 1}}
        broker = broker.restart(clean=False)
    alter(broker, entry(both, (PRODUCE, None)), entry(ADDRESS, (CONNECT, None)), entry((("ip", None),), (CONNECT, None)))
    assert describe(broker) == describe(broker.restart()) == {}


def test_records_match_kafka() -> None:
    broker = BrokerInMemory()
    alter(broker, entry((("user", "a"), ("client-id", None)), (PRODUCE, 1.0)))
    (record,) = broker.cluster.image.kept.quotas.values()
    parts = [QuotaEntity(entity_type="client-id", entity_name=None), QuotaEntity(entity_type="user", entity_name="a")]
    assert record == ClientQuotaRecord(entity=parts, key=PRODUCE, value=1.0, remove=False)


@pytest.mark.parametrize("validate_only", [True, False])
def test_unchanged_quotas_write_nothing(validate_only: bool) -> None:
    broker = BrokerInMemory()
    alter(broker, entry(USER, (PRODUCE, 1)))
    end = broker.cluster.metadata.last_offset
    requests = [entry(USER, (PRODUCE, 1), (CONSUME, None))] + ([entry(ADDRESS, (CONNECT, 9))] if validate_only else [entry(ADDRESS)])
    assert alter(broker, *requests, validate_only=validate_only) == [(USER, 0, None), (ADDRESS, 0, None)]
    assert broker.cluster.metadata.last_offset == end


REFUSED = [
    ((), [(PRODUCE, 1.0)], "Invalid empty client quota entity"),
    ((("user", ""),), [(PRODUCE, 1.0)], "Empty user not supported"),
    ((("nonsense", "a"),), [(PRODUCE, 1.0)], "Unhandled client quota entity type: nonsense"),
    ((("ip", "no.such.host.invalid"),), [(CONNECT, 1.0)], "no.such.host.invalid is not a valid IP or resolvable host."),
    (
        (("user", "a"), ("ip", "1.2.3.4")),
        [(CONNECT, 1.0)],
        "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
    ),
    (ADDRESS, [(CONNECT, 1.5)], f"{CONNECT} cannot be a fractional value."),
    (ADDRESS, [(CONNECT, 2.0**31)], f"Proposed value for {CONNECT} is too large for an INT."),
    (ADDRESS, [(PRODUCE, 1.0)], f"Invalid configuration key {PRODUCE}"),
    ((("ip", None),), [(CONNECT, -1.0)], f"Quota {CONNECT} must be greater than 0"),
    (USER, [(PRODUCE, 0.0)], f"Quota {PRODUCE} must be greater than 0"),
    (USER, [(PRODUCE, -1.0)], f"Quota {PRODUCE} must be greater than 0"),
    (USER, [(PRODUCE, 1e30)], f"Proposed value for {PRODUCE} is too large for a LONG."),
    (USER, [(PRODUCE, math.inf)], f"Proposed value for {PRODUCE} is too large for a LONG."),
    (USER, [(CONNECT, 1.0)], f"Invalid configuration key {CONNECT}"),
    (USER, [("SCRAM-SHA-256", 1.0)], "Invalid configuration key SCRAM-SHA-256"),
    (USER, [(PRODUCE, None), (CONSUME, 1.5)], f"{CONSUME} cannot be a fractional value."),
    (USER, [(PRODUCE, 1.0), (PRODUCE, 2.0)], "Ignoring duplicate entity ClientQuotaEntity(entries={user=a})"),
]


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize(("entity", "values", "message"), REFUSED)
def test_refused(entity: Entity, values: list[tuple[str, float | None]], message: str, validate_only: bool) -> None:
    broker = BrokerInMemory()
    alter(broker, entry(USER, (PRODUCE, 7)))
    other: Entity = (("user", "other"),)
    answer = alter(broker, entry(entity, *values), entry(other, (PRODUCE, 1)), validate_only=validate_only)
    assert answer == [(entity, 42, message), (other, 0, None)]
    assert describe(broker) == {USER: {PRODUCE: 7}} | ({} if validate_only else {other: {PRODUCE: 1}})


@pytest.mark.parametrize(
    ("key", "value"), [("request_percentage", 1.5), ("controller_mutation_rate", 0.1), (PRODUCE, 2.0000000001), (CONSUME, 2.0**62)]
)
def test_valid_values(key: str, value: float) -> None:
    broker = BrokerInMemory()
    assert alter(broker, entry(USER, (key, value))) == [(USER, 0, None)]
    assert describe(broker) == {USER: {key: value}}


@pytest.mark.parametrize("address", ["1.2.3.4", "::1", "2001:db8::7"])
def test_addresses(address: str) -> None:
    assert alter(BrokerInMemory(), entry((("ip", address),), (CONNECT, 1)))[0][1] == 0


def test_duplicate_entity() -> None:
    broker = BrokerInMemory()
    both: Entity = (("client-id", "c"), ("user", None))
    message = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=c, user=null})"
    assert alter(broker, entry(both, (PRODUCE, 1)), entry(both, (PRODUCE, 2))) == [(both, 42, message)]
    assert describe(broker) == {both: {PRODUCE: 1}}


def test_last_name_of_an_entity_type_wins() -> None:
    broker = BrokerInMemory()
    assert alter(broker, entry((("user", "a"), ("user", "b")), (PRODUCE, 1))) == [((("user", "b"),), 0, None)]


def test_request_larger_than_a_metadata_batch_is_refused() -> None:
    broker = BrokerInMemory()
    requests = [entry((("user", str(number)),), (PRODUCE, 1)) for number in range(10_001)]
    assert {code for _, code, _ in alter(broker, *requests)} == {44}
    assert describe(broker) == {}
