"""What each make of transactional client does in tests, on a topic of two partitions, and what readers must find then."""

from __future__ import annotations

from tests.clients.adapters import CLIENTS, Sent
from tests.clients.makes import unique
from tests.clients.transactional import Place, Row, TransactionalClient

#: By partition.
COMMITTED = [
    [Row(0, b"c0"), Row(1, b"c1"), Row(8, b"c4"), Row(9, b"c5"), Row(11, b"plain")],
    [Row(0, b"c2"), Row(1, b"c3")],
]
#: Offsets 2, 5, 7 and 10 of partition 0, and 2 and 4 of partition 1, are markers.
EVERYTHING = [
    [*COMMITTED[0][:2], Row(3, b"a0"), Row(4, b"a1"), Row(6, b"a3"), *COMMITTED[0][2:]],
    [*COMMITTED[1], Row(3, b"a2")],
]


def tell(client: TransactionalClient, bootstrap: str, topic: str) -> None:
    """Commit over two partitions, abort over two, abort on one, commit nothing, commit on one; then a record of no transaction."""
    first, second = Place(topic, 0), Place(topic, 1)
    producer = client.open(bootstrap, unique("story"))
    producer.begin()
    producer.send(first, b"c0", b"c1")
    producer.send(second, b"c2", b"c3")
    producer.commit()
    producer.begin()
    producer.send(first, b"a0", b"a1")
    producer.send(second, b"a2")
    producer.flush()
    producer.abort()
    producer.begin()
    producer.send(first, b"a3")
    producer.flush()
    producer.abort()
    producer.begin()
    producer.commit()
    producer.begin()
    producer.send(first, b"c4")
    producer.flush()
    producer.send(first, b"c5")
    producer.commit()
    producer.close()
    CLIENTS["aiokafka"].write(bootstrap, topic, [Sent(None, b"plain")])
