"""Transactions over many partitions, and over several segments of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients.makes import IN_PROCESS, Clients, each_of, unique
from tests.clients.transactional import READ_COMMITTED, READ_UNCOMMITTED, Place, Row

PARTITIONS = 250
BIG_VALUE = b"x" * 1000


@pytest.fixture(scope="module")
def clients(bootstrap: str) -> Iterator[Clients]:
    with Clients(bootstrap) as clients:
        yield clients


@each_of(["confluent-kafka", "aiokafka", "java-4.3.1"])
def test_many_partitions_end_together(name: str, clients: Clients, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=PARTITIONS)
    places = [Place(topic, i) for i in range(PARTITIONS)]
    producer = clients[name].open(clients.bootstrap, unique("wide"))
    for number, is_committed in enumerate((True, False, True)):
        producer.begin()
        for place in places:
            producer.send(place, b"%d" % number)
        if is_committed:
            producer.commit()
        else:
            producer.flush()
            producer.abort()
    producer.close()
    found = IN_PROCESS["confluent-kafka"].read(clients.bootstrap, READ_COMMITTED, dict.fromkeys(places, 2))
    assert found == {place: [Row(0, b"0"), Row(4, b"2")] for place in places}


@each_of(["confluent-kafka", "java-4.3.1"])
def test_a_transaction_over_several_segments(name: str, clients: Clients, new_topic: Callable[..., str]) -> None:
    """Committed and aborted ones of 2 MB that overlap, in segments of 1 MB: an aborted one reaches over segments that others end in."""
    place = Place(new_topic(**{"segment.bytes": "1048576", "retention.ms": "-1"}), 0)
    first = clients[name].open(clients.bootstrap, unique("long"))
    second = clients[name].open(clients.bootstrap, unique("long"))
    first.begin()
    second.begin()
    for part in range(10):
        first.send(place, *(b"committed %d %d " % (part, i) + BIG_VALUE for i in range(200)))
        second.send(place, *(b"aborted %d %d " % (part, i) + BIG_VALUE for i in range(200)))
        first.flush()
        second.flush()
        if part == 4:
            first.commit()
            first.begin()
    second.abort()
    first.commit()
    first.close()
    second.close()
    for reader in ("confluent-kafka", "aiokafka", "java-4.3.1"):
        rows = clients[reader].read(clients.bootstrap, READ_COMMITTED, {place: 2000})[place]
        assert [row.value[:-1000] for row in rows] == [b"committed %d %d " % (part, i) for part in range(10) for i in range(200)]
    everything = IN_PROCESS["aiokafka"].read(clients.bootstrap, READ_UNCOMMITTED, {place: 4000})[place]
    assert len(everything) == 4000
    assert everything[-1].offset == 4000, "one marker stands among them, two behind them"
