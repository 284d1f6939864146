"""Advertised addresses: each way in which one can be wrong, and the advice."""

from __future__ import annotations

import pytest

from minibroker.client.doctor import NOTE, OK, PROBLEM
from minibroker.client.doctor.addresses import (
    AdvertisedListener,
    Outcome,
    ReachResult,
    check_advertised,
    check_other_listener,
    suggest_listener,
)
from minibroker.client.transport import Address
from minibroker.schemas.k03_metadata import Response

HOST = Address("localhost", 9092)
REMOTE = Address("kafka.example.com", 9092)
ENVIRONMENT = " (KAFKA_ADVERTISED_LISTENERS in a container's environment)"


def at(host: str, port: int, outcome: Outcome = Outcome.SERVES, cluster: str = "mine") -> ReachResult:
    metadata = Response(cluster_id=cluster, brokers=[], topics=[]) if outcome is Outcome.SERVES else None
    return ReachResult(Address(host, port), outcome, metadata=metadata, message="why")


def advice(reached: ReachResult, bootstrap: Address) -> str:
    return check_advertised(1, bootstrap, reached, "mine", [AdvertisedListener("A", reached.address)]).advice


@pytest.mark.parametrize(
    ("bootstrap", "reached", "severity", "message"),
    [
        (HOST, at("localhost", 9092), OK, "advertises localhost:9092, and answers there"),
        (REMOTE, at("10.0.0.7", 9092), OK, "advertises 10.0.0.7:9092, and answers there"),
        (REMOTE, at("localhost", 9092), NOTE, "which works only on this machine: clients on other machines would connect to themselves"),
        (HOST, at("0.0.0.0", 9092), PROBLEM, "where a server can listen, but to which no client can connect"),
        (REMOTE, at("localhost", 9092, cluster="x"), PROBLEM, "which is this machine, where another cluster answers: x, not mine"),
        (
            REMOTE,
            at("b.example.com", 9092, cluster="x"),
            PROBLEM,
            "advertises b.example.com:9092 where another cluster answers: x, not mine",
        ),
        (HOST, at("broker", 9092, Outcome.UNKNOWN_NAME), PROBLEM, "and the name 'broker' is unknown here"),
        (
            REMOTE,
            at("localhost", 9092, Outcome.REFUSED),
            PROBLEM,
            "the machine of the client itself, not the broker's, and nothing listens",
        ),
        (Address("localhost", 32768), at("127.0.0.1", 9092, Outcome.REFUSED), PROBLEM, "from here the broker is at port 32768"),
        (REMOTE, at("10.0.0.7", 9092, Outcome.REFUSED), PROBLEM, "advertises 10.0.0.7:9092, where nothing listens"),
        (HOST, at("172.17.0.2", 9092, Outcome.SILENT), PROBLEM, "an address of a network that cannot be reached from here"),
        (HOST, at("8.8.8.8", 9092, Outcome.SILENT), PROBLEM, "where nothing answers"),
        (HOST, at("broker", 9093, Outcome.NOT_KAFKA), PROBLEM, "where something answers that is not a Kafka listener without TLS and SASL"),
        (HOST, at("broker", 9093, Outcome.FAILS), PROBLEM, "where a broker fails: why"),
    ],
)
def test_finding_for_each_outcome(bootstrap: Address, reached: ReachResult, severity: str, message: str) -> None:
    found = check_advertised(1, bootstrap, reached, "mine", [])
    assert (found.subject, found.severity) == ("broker 1", severity)
    assert found.text.startswith("advertises ")
    assert message in found.text
    assert bool(found.advice) == (severity != OK)


def test_advice_for_each_address() -> None:
    assert advice(at("localhost", 9092, Outcome.REFUSED), REMOTE) == f"Set advertised.listeners=A://kafka.example.com:9092{ENVIRONMENT}"
    mapped = advice(at("localhost", 9092, Outcome.REFUSED), Address("localhost", 32768))
    assert mapped == (
        f"If a container's port is mapped to another one, advertise the outer port. Set advertised.listeners=A://localhost:32768{ENVIRONMENT}"
    )


def test_other_listeners_stay_as_they_are() -> None:
    listeners = [AdvertisedListener("OUTSIDE", Address("localhost", 9092)), AdvertisedListener("INSIDE", Address("broker", 19092))]
    found = check_advertised(1, REMOTE, at("localhost", 9092, Outcome.REFUSED), "mine", listeners)
    assert found.advice == f"Set advertised.listeners=OUTSIDE://kafka.example.com:9092,INSIDE://broker:19092{ENVIRONMENT}"
    unknown = check_advertised(1, REMOTE, at("elsewhere", 9092, Outcome.REFUSED), "mine", listeners)
    assert unknown.advice.startswith(
        "Set advertised.listeners=OUTSIDE://localhost:9092,INSIDE://broker:19092,PLAINTEXT://kafka.example.com:9092"
    )


@pytest.mark.parametrize(
    ("reached", "severity", "message", "advice"),
    [
        (at("localhost", 9093), OK, "advertises localhost:9093, and answers there", ""),
        (
            at("localhost", 9093, Outcome.REFUSED),
            PROBLEM,
            "advertises localhost:9093, where nothing listens",
            "Is it up? Set advertised.listeners of broker 2 to",
        ),
        (
            at("b.example.com", 9092, Outcome.UNKNOWN_NAME),
            PROBLEM,
            "is unknown here",
            "Set advertised.listeners of broker 2 to an address that is only its own",
        ),
        (
            at("broker", 19092, Outcome.UNKNOWN_NAME),
            PROBLEM,
            "is unknown here",
            "advertised.listeners=INSIDE://broker:19092,OUTSIDE://HOST:9092,",
        ),
    ],
)
def test_address_of_another_broker_is_not_advised(reached: ReachResult, severity: str, message: str, advice: str) -> None:
    """The client has no bootstrap address of this broker."""
    found = check_advertised(2, None, reached, "mine", [AdvertisedListener("A", reached.address)])
    assert found.severity == severity
    assert found.text.endswith(message)
    assert advice in found.advice
    assert "localhost" not in found.advice


def test_a_name_of_containers_needs_a_second_listener() -> None:
    text = advice(at("broker", 9092, Outcome.UNKNOWN_NAME), HOST)
    assert "listeners=INSIDE://:9092,OUTSIDE://:29092, advertised.listeners=INSIDE://broker:9092,OUTSIDE://localhost:29092," in text
    assert "OUTSIDE://:9092," in advice(at("broker", 19092, Outcome.UNKNOWN_NAME), HOST)
    assert advice(at("b.example.com", 9092, Outcome.UNKNOWN_NAME), HOST).startswith("Set advertised.listeners=A://localhost:9092")


def test_a_listener_that_works_is_the_simplest_way() -> None:
    problem = check_advertised(1, HOST, at("broker", 19092, Outcome.UNKNOWN_NAME), "mine", [])
    found = suggest_listener(problem, AdvertisedListener("OUTSIDE", HOST))
    assert found.advice == "Connect to localhost:9092 instead: listener OUTSIDE advertises it, and it answers here"


@pytest.mark.parametrize("outcome", list(Outcome))
def test_listeners_for_others_are_no_problem(outcome: Outcome) -> None:
    found = check_other_listener(1, AdvertisedListener("INSIDE", Address("broker", 19092)), at("broker", 19092, outcome), "mine")
    assert found.severity == (OK if outcome is Outcome.SERVES else NOTE)
    assert found.text.startswith("listener INSIDE is advertised as broker:19092")
    assert check_other_listener(1, AdvertisedListener("INSIDE", HOST), at("localhost", 9092, cluster="x"), "mine").severity == NOTE
