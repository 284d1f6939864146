"""Transactions of six makes of clients: each tells the same story, and each reads all of them under both isolation levels."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.clients.adapters import CLIENTS, Sent
from tests.clients.makes import IN_PROCESS, NAMES, Clients, each_of, unique
from tests.clients.story import COMMITTED, EVERYTHING, tell
from tests.clients.transactional import READ_COMMITTED, READ_UNCOMMITTED, Fenced, Place, Row

WITHOUT_OFFSETS = {"franz-go"}  #: it commits offsets in a transaction only as a member of a group

each_client = each_of(NAMES)


@pytest.fixture(scope="module")
def clients(bootstrap: str) -> Iterator[Clients]:
    with Clients(bootstrap) as clients:
        yield clients


def values(rows: list[Row]) -> list[bytes]:
    return [row.value for row in rows]


@pytest.fixture(scope="module")
def stories(bootstrap: str, clients: Clients) -> dict[str, str]:
    """A topic with the story of each client that there is."""
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    told: dict[str, str] = {}
    for name in NAMES:
        try:
            client = clients[name]
        except pytest.skip.Exception:
            continue
        topic = unique(f"story-of-{name}")
        admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "-1"})])[topic].result(timeout=60)
        tell(client, bootstrap, topic)
        told[name] = topic
    return told


@each_client
@pytest.mark.parametrize(("isolation", "expected"), [(READ_COMMITTED, COMMITTED), (READ_UNCOMMITTED, EVERYTHING)])
def test_each_reads_the_stories_of_all(
    name: str, isolation: str, expected: list[list[Row]], stories: dict[str, str], clients: Clients
) -> None:
    places = {Place(topic, i): expected[i] for topic in stories.values() for i in (0, 1)}
    found = clients[name].read(clients.bootstrap, isolation, {place: len(rows) for place, rows in places.items()})
    assert found == places


@each_client
def test_interleaved_transactions_on_one_partition(name: str, clients: Clients, topic: str) -> None:
    client, other, reader, place = clients[name], IN_PROCESS["aiokafka"], IN_PROCESS["confluent-kafka"], Place(topic, 0)
    bootstrap = clients.bootstrap

    def committed() -> list[bytes]:
        return values(reader.read(bootstrap, READ_COMMITTED, {place: 0})[place])

    long = client.open(bootstrap, unique("long"))
    short = other.open(bootstrap, unique("short"))
    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"before")])
    long.begin()
    long.send(place, b"long 0")
    long.flush()
    short.begin()
    short.send(place, b"short 0")
    short.commit()
    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"between")])
    short.begin()
    short.send(place, b"aborted")
    short.flush()
    long.send(place, b"long 1")
    long.flush()
    assert committed() == [b"before"], "behind the first open transaction nobody reads"
    short.abort()
    assert committed() == [b"before"]
    assert values(client.read(bootstrap, READ_UNCOMMITTED, {place: 6})[place]) == [
        b"before",
        b"long 0",
        b"short 0",
        b"between",
        b"aborted",
        b"long 1",
    ]
    long.commit()
    assert committed() == [b"before", b"long 0", b"short 0", b"between", b"long 1"]
    assert values(client.read(bootstrap, READ_COMMITTED, {place: 5})[place]) == committed()
    long.begin()
    long.send(place, b"long 2")
    long.flush()
    assert committed()[-1] == b"long 1"
    long.abort()
    short.begin()
    short.send(place, b"short 1")
    short.commit()
    assert committed() == [b"before", b"long 0", b"short 0", b"between", b"long 1", b"short 1"]
    long.close()
    short.close()


SUCCESSORS = dict(zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True))


@each_client
def test_a_zombie_is_fenced_by_another_make(name: str, clients: Clients, topic: str) -> None:
    place, transactional_id = Place(topic, 0), unique("fenced")
    zombie = clients[name].open(clients.bootstrap, transactional_id)
    zombie.begin()
    zombie.send(place, b"of a zombie")
    zombie.flush()
    successor = clients[SUCCESSORS[name]].open(clients.bootstrap, transactional_id)
    successor.begin()
    successor.send(place, b"of its successor")
    successor.commit()
    with pytest.raises(Fenced):
        zombie.commit()
    zombie.close()
    successor.begin()
    successor.send(place, b"again")
    successor.commit()
    successor.close()
    found = IN_PROCESS["aiokafka"].read(clients.bootstrap, READ_COMMITTED, {place: 2})
    assert found[place] == [Row(2, b"of its successor"), Row(4, b"again")]


@each_client
def test_a_zombie_that_writes_is_fenced(name: str, clients: Clients, topic: str) -> None:
    place, transactional_id = Place(topic, 0), unique("fenced")
    zombie = clients[name].open(clients.bootstrap, transactional_id)
    zombie.begin()
    zombie.send(place, b"committed")
    zombie.commit()
    successor = clients[name].open(clients.bootstrap, transactional_id)
    zombie.begin()
    with pytest.raises(Fenced):  # noqa: PT012  which of the two calls hears of it is the client's choice
        zombie.send(place, b"of a zombie")
        zombie.flush()
    zombie.close()
    successor.begin()
    successor.send(place, b"of its successor")
    successor.commit()
    successor.close()
    everything = IN_PROCESS["aiokafka"].read(clients.bootstrap, READ_UNCOMMITTED, {place: 2})
    assert everything[place] == [Row(0, b"committed"), Row(2, b"of its successor")]


@each_of(name for name in NAMES if name not in WITHOUT_OFFSETS)
def test_offsets_are_committed_with_the_transaction_or_not_at_all(name: str, clients: Clients, topic: str) -> None:
    client, group, place = clients[name], unique("group"), Place(topic, 0)

    def committed() -> list[int | None]:
        readers = [client, *IN_PROCESS.values()]
        return [each.committed_offset(clients.bootstrap, group, place) for each in readers]

    producer = client.open(clients.bootstrap, unique("offsets"))
    assert set(committed()) == {None}
    producer.begin()
    producer.send(place, b"with an offset")
    producer.send_offset(group, place, 10)
    producer.commit()
    assert set(committed()) == {10}
    producer.begin()
    producer.send_offset(group, place, 11)
    producer.abort()
    assert set(committed()) == {10}
    producer.begin()
    producer.send_offset(group, place, 12)  # no records at all
    producer.send_offset(group, place, 13)
    assert IN_PROCESS["aiokafka"].committed_offset(clients.bootstrap, group, place) == 10  # of before stable offsets could be asked for
    producer.commit()
    assert set(committed()) == {13}
    producer.close()


@each_of(["confluent-kafka", "java-4.3.1"])
def test_a_reader_of_stable_offsets_waits_for_the_transaction(name: str, clients: Clients, topic: str) -> None:
    client, group, place = clients[name], unique("group"), Place(topic, 0)
    producer = IN_PROCESS["aiokafka"].open(clients.bootstrap, unique("offsets"))
    producer.begin()
    producer.send_offset(group, place, 10)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.committed_offset, clients.bootstrap, group, place)
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        producer.commit()
        assert waiting.result(60) == 10
    producer.close()
