"""A Fetch that waits at a broker under test when a test changes what it may read: it ends at once, whatever time is left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from minibroker.client.connection import connect
from minibroker.client.transport import Deadline, parse_bootstrap
from minibroker.errors import BY_CODE
from minibroker.schemas import k01_fetch
from minibroker.testing import BrokerThread
from tests.support.becoming import becomes

TOPIC = "orders"
PATIENT_MS = 600_000  #: longer than any test


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(topics=[TOPIC]) as broker:
        yield broker


def fetch(broker: BrokerThread) -> list[str]:
    """A Fetch of version 10 that waits for long; the errors of its answer."""
    connection = connect(parse_bootstrap(broker.bootstrap_servers)[0], Deadline(60_000))
    partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = k01_fetch.Request(max_wait_ms=PATIENT_MS, min_bytes=1, topics=[k01_fetch.Topic(topic=TOPIC, partitions=[partition])])
    answer = connection.ask(k01_fetch, request, Deadline(60_000), most=10)
    connection.close()
    return [BY_CODE[each.error_code].name for topic in answer.responses for each in topic.partitions if each.error_code]


def while_one_waits(broker: BrokerThread, act: Callable[[], Any]) -> list[str]:
    """What a Fetch is answered that waits while `act` is done."""
    answers: list[list[str]] = []
    waiting = threading.Thread(target=lambda: answers.append(fetch(broker)))
    waiting.start()
    assert becomes(lambda: bool(broker.request_log.of("Fetch")))
    act()
    waiting.join(60)
    return answers[0]


def test_the_first_leader_that_is_taken_away(broker: BrokerThread) -> None:
    assert while_one_waits(broker, lambda: broker.leaders.take_away(TOPIC, 0)) == [], "nothing is known of leaders before; it asks again"
    assert fetch(broker) == ["NOT_LEADER_OR_FOLLOWER"]


def test_a_leader_that_is_taken_away(broker: BrokerThread) -> None:
    broker.leaders.bump_epoch(TOPIC, 0)
    assert while_one_waits(broker, lambda: broker.leaders.take_away(TOPIC, 0)) == ["NOT_LEADER_OR_FOLLOWER"]


def test_a_fault_begins(broker: BrokerThread) -> None:
    assert while_one_waits(broker, broker.faults.inject("Fetch", "TOPIC_AUTHORIZATION_FAILED", topic=TOPIC).always) == []
    broker.produce(TOPIC, "apples")
    assert fetch(broker) == ["TOPIC_AUTHORIZATION_FAILED"]
