"""ListTransactions: golden frames of real clients; filters as Apache Kafka 4.3.1 applied them (measured 2026-11-21)."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.coordinator.transaction.records import TransactionMetadata, TransactionState
from minibroker.schemas import k66_list_transactions as schema
from minibroker.wire.codec import decode
from minibroker.wire.header import decode_response_header
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_like, serve
from tests.support.transactional_ids import begin, broker_that_knows, init_producer

FRAMES = {name: frame for name, frame in all_golden().items() if frame.stem == "k66_list_transactions"}
REQUESTS = sorted(name for name, frame in FRAMES.items() if frame.direction == "request")
NOW_MS = 1_700_000_000_000


def ask(broker: BrokerInMemory, *, version: int = 2, **filters: Any) -> schema.Response:
    answer: schema.Response = broker.ask(schema.Request(**{"state_filters": [], "producer_id_filters": []} | filters), version)
    return answer


def listed(broker: BrokerInMemory, **filters: Any) -> set[str]:
    answer = ask(broker, **filters)
    assert answer.error_code == 0
    return {each.transactional_id for each in answer.transaction_states}


def with_ids() -> BrokerInMemory:
    """One id in each state that lasts: quick, empty, open for a minute, open for an hour, committed."""
    broker = BrokerInMemory(topics={"a": 1})
    states = [
        TransactionMetadata("empty", 10, 0, 60_000, TransactionState.EMPTY, NOW_MS),
        TransactionMetadata("minute", 11, 0, 900_000, TransactionState.ONGOING, NOW_MS, NOW_MS - 60_000, frozenset({("a", 0)})),
        TransactionMetadata("hour", 12, 0, 9_000_000, TransactionState.ONGOING, NOW_MS, NOW_MS - 3_600_000, frozenset({("a", 0)})),
        TransactionMetadata("committed", 13, 0, 60_000, TransactionState.COMPLETE_COMMIT, NOW_MS, NOW_MS - 5_000),
    ]
    return broker_that_knows(broker, states)


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_match_kafka(name: str) -> None:
    """The ids that Kafka had then and that the filter passes, in any order."""
    request = golden(name)
    requested = request.decode()
    every = max((frame.decode().transaction_states for frame in FRAMES.values() if frame.direction == "response"), key=len)
    names = {state.kafka_name: state for state in TransactionState}
    begun_ms = kafka_like().clock.now_ms() - 1_000
    states = [
        TransactionMetadata(each.transactional_id, each.producer_id, 0, 60_000, names[each.transaction_state], 0, begun_ms)
        for each in every
    ]
    frame = serve(broker_that_knows(kafka_like(), states), request)[4:]
    _, position = decode_response_header(frame, 1)
    answer = decode(schema.Response, frame[position:], request.version, flexible=True)

    expected = [
        (each.transactional_id, each.producer_id, each.transaction_state)
        for each in every
        if (not requested.state_filters or each.transaction_state in requested.state_filters)
        and (not requested.producer_id_filters or each.producer_id in requested.producer_id_filters)
        and (not requested.transactional_id_pattern or each.transactional_id.startswith("golden-2"))
    ]
    results = [(each.transactional_id, each.producer_id, each.transaction_state) for each in answer.transaction_states]
    assert sorted(results) == sorted(expected)
    assert answer.unknown_state_filters == [each for each in requested.state_filters if each == "Nonsense"]


@pytest.mark.parametrize("version", range(3))
def test_all_transactions(version: int) -> None:
    assert ask(BrokerInMemory(), version=version) == schema.Response(error_code=0, unknown_state_filters=[], transaction_states=[])
    assert listed(with_ids(), version=version) == {"empty", "minute", "hour", "committed"}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"state_filters": ["Ongoing"]}, {"minute", "hour"}),
        ({"state_filters": ["Ongoing", "Empty"]}, {"minute", "hour", "empty"}),
        ({"producer_id_filters": [13, 10, 99]}, {"committed", "empty"}),
        ({"state_filters": ["Ongoing"], "producer_id_filters": [12, 13]}, {"hour"}),
        ({"duration_filter": 0}, {"minute", "hour", "committed", "empty"}),
        ({"duration_filter": 59_999}, {"minute", "hour", "empty"}),
        ({"duration_filter": 60_000}, {"hour", "empty"}),
        ({"duration_filter": 3_600_000}, {"empty"}),
        ({"duration_filter": 10**15}, set()),
        ({"duration_filter": -5}, {"minute", "hour", "committed", "empty"}),
        ({"transactional_id_pattern": None}, {"minute", "hour", "committed", "empty"}),
        ({"transactional_id_pattern": ""}, {"minute", "hour", "committed", "empty"}),
        ({"transactional_id_pattern": ".*m.*t.*"}, {"minute", "committed", "empty"}),
        ({"transactional_id_pattern": "minut"}, set()),
    ],
)
def test_filters(filters: dict[str, Any], expected: set[str]) -> None:
    assert listed(with_ids(), **filters) == expected


def test_unknown_states() -> None:
    broker = with_ids()
    answer = ask(broker, state_filters=["Nonsense", "Nonsense", "", "Empty", "ongoing", "Dead", "PrepareEpochFence"])
    assert sorted(answer.unknown_state_filters) == ["", "Nonsense", "ongoing"]
    assert [each.transactional_id for each in answer.transaction_states] == ["empty"]
    assert ask(broker, state_filters=["Nonsense"]).transaction_states == []


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "a**", "(((){1000}){1000}){1000}", "a{" + "9" * 5000 + "}", r"\pL" * 10_000])
def test_an_invalid_pattern(pattern: str) -> None:
    answer = ask(with_ids(), transactional_id_pattern=pattern)
    assert (answer.error_code, answer.transaction_states) == (128, [])


def test_pattern_too_expensive_for_an_id() -> None:
    states = [TransactionMetadata("a" * 30_000, 10, 0, 60_000, TransactionState.EMPTY, NOW_MS)]
    broker = broker_that_knows(BrokerInMemory(topics={"a": 1}), states)
    answer = ask(broker, transactional_id_pattern=r"(\b?a?){800}")
    assert (answer.error_code, answer.transaction_states) == (128, [])
    assert listed(broker, transactional_id_pattern="a*") == {"a" * 30_000}


def test_many_ids_are_listed_in_slices() -> None:
    states = [TransactionMetadata(f"id-{number}", number, 0, 60_000, TransactionState.EMPTY, NOW_MS) for number in range(5)]
    broker = broker_that_knows(BrokerInMemory(topics={"a": 1}), states)
    times = iter(range(100))
    broker.services.slices.now_s = lambda: float(next(times))  # each look at the clock finds that a slice is over
    waiting = broker.begin(schema.Request(state_filters=[], producer_id_filters=[]), 2)
    assert not waiting.is_done
    broker.clock.advance(0)
    assert len(waiting.answer().transaction_states) == 5


def test_listed_fields_of_an_id() -> None:
    broker = BrokerInMemory(topics={"a": 1})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0))
    (result,) = ask(broker).transaction_states
    assert result == schema.TransactionState(transactional_id="payments", producer_id=ids.producer_id, transaction_state="Ongoing")
