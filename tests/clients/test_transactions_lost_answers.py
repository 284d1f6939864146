"""A network that loses answers, and one that brings a request late: each transaction still happens once, as it was ended."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from minibroker.errors import BY_CODE
from tests.clients.adapters import CLIENTS, Sent
from tests.clients.makes import IN_PROCESS, NAMES, Clients, each_of, unique
from tests.clients.transactional import READ_COMMITTED, READ_UNCOMMITTED, Place, Row
from tests.conftest import NO_RETENTION
from tests.golden import Golden, Provenance, stem_of
from tests.support.broker_process import BrokerProcess
from tests.support.capture_proxy import REQUEST, RESPONSE, Captured, CaptureProxy
from tests.support.ports import free_port

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 0, 22, 24, 25, 26, 28
LOST = {PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT}
#: franz-go takes a connection that breaks at its first request for one that wants SASL.
NOT_LOST = {"franz-go": {INIT_PRODUCER_ID}}
#: Once its connection broke, librdkafka 2.16 finds the group's coordinator and then asks it for nothing, of Apache Kafka either; franz-go
#: commits offsets in a transaction only as a member of a group.
WITHOUT_OFFSETS = {"confluent-kafka", "franz-go"}


class LossyProxy(CaptureProxy):
    """Loses the answers of transactions, with their connections: of each kind the first, the fourth and the seventh."""

    def __init__(self, port: int, target: tuple[str, int]) -> None:
        self.losing: set[int] = set()
        self.seen: Counter[int] = Counter()
        self.lost: Counter[int] = Counter()
        super().__init__(port, target)

    def loses(self, frame: Captured) -> bool:
        if frame.direction != RESPONSE or frame.api_key not in self.losing:
            return False
        self.seen[frame.api_key] += 1
        if self.seen[frame.api_key] % 3 == 1 and self.lost[frame.api_key] < 3:
            self.lost[frame.api_key] += 1
            return True
        return False

    def start_to_lose(self, api_keys: set[int]) -> None:
        self.seen.clear()
        self.lost.clear()
        self.losing = api_keys


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyProxy]:
    port, proxy_port = free_port(), free_port()
    proxy = LossyProxy(proxy_port, ("127.0.0.1", port))
    settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy_port}", "auto.create.topics.enable": "true"}
    words = (word for name, value in settings.items() for word in ("--set", f"{name}={value}"))
    with BrokerProcess(tmp_path_factory.mktemp("broker"), *NO_RETENTION, *words, port=port):
        yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def clients(proxy: LossyProxy) -> Iterator[Clients]:
    with Clients(f"127.0.0.1:{proxy.port}") as clients:
        yield clients


@each_of(NAMES)
def test_lost_answers(name: str, clients: Clients, proxy: LossyProxy) -> None:
    place, group = Place(unique(f"lossy-{name}"), 0), unique("group")
    CLIENTS["aiokafka"].write(clients.bootstrap, place.topic, [Sent(None, b"of no transaction")])
    IN_PROCESS["aiokafka"].open(clients.bootstrap, unique("first")).close()  # the coordinator is there
    expected = [b"of no transaction"]
    offset = None
    proxy.start_to_lose(LOST - NOT_LOST.get(name, set()))
    try:
        producer = clients[name].open(clients.bootstrap, unique("lossy"))
        for number in range(6):
            values = [b"%d %d" % (number, i) for i in range(3)]
            producer.begin()
            producer.send(place, *values)
            producer.flush()  # aiokafka gives up when the connection breaks on which it asks for the group's coordinator
            if name not in WITHOUT_OFFSETS:
                producer.send_offset(group, place, number)
            if number in {1, 4}:
                producer.abort()
            else:
                producer.commit()
                expected += values
                offset = number
    finally:
        proxy.losing = set()
    producer.close()
    assert proxy.lost[END_TXN] >= 1, "nothing was lost, so nothing was shown"
    assert proxy.lost[PRODUCE] >= 1
    assert sum(proxy.lost.values()) >= 4, proxy.lost
    found = IN_PROCESS["confluent-kafka"].read(clients.bootstrap, READ_COMMITTED, {place: 0})[place]
    assert [row.value for row in found] == expected
    assert len(IN_PROCESS["confluent-kafka"].read(clients.bootstrap, READ_UNCOMMITTED, {place: 0})[place]) == 19
    if name not in WITHOUT_OFFSETS:
        assert IN_PROCESS["kafka-python"].committed_offset(clients.bootstrap, group, place) == offset


@each_of(["java-4.3.1", "franz-go"])
@pytest.mark.parametrize("delayed", ["commit", "abort"])
def test_a_delayed_end_never_ends_a_later_transaction(name: str, delayed: str, clients: Clients, proxy: LossyProxy) -> None:
    """KIP-890: the network brings EndTxn of the first transaction once more, in the middle of the second one."""
    place, transactional_id = Place(unique(f"delayed-{name}"), 0), unique("delayed")
    CLIENTS["aiokafka"].write(clients.bootstrap, place.topic, [Sent(None, b"of no transaction")])
    producer = clients[name].open(clients.bootstrap, transactional_id)
    producer.begin()
    producer.send(place, b"first")
    producer.flush()
    proxy.frames.clear()
    (producer.commit if delayed == "commit" else producer.abort)()
    (late,) = [frame for frame in proxy.frames if (frame.api_key, frame.direction) == (END_TXN, REQUEST)]
    producer.begin()
    producer.send(place, b"second")
    producer.flush()
    error = answer(proxy, late).error_code
    assert BY_CODE[error].name in {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE"}
    assert b"second" not in [row.value for row in IN_PROCESS["aiokafka"].read(clients.bootstrap, READ_COMMITTED, {place: 0})[place]]
    producer.send(place, b"second too")
    (producer.abort if delayed == "commit" else producer.commit)()
    producer.close()
    expected = [Row(1, b"first")] if delayed == "commit" else [Row(3, b"second"), Row(4, b"second too")]
    assert IN_PROCESS["aiokafka"].read(clients.bootstrap, READ_COMMITTED, {place: 0})[place][1:] == expected


def answer(proxy: LossyProxy, frame: Captured):  # type: ignore[no-untyped-def]  # noqa: ANN201  the Response of any API
    """What the broker says to a frame that comes again on a connection of its own."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as connection, connection.makefile("rb") as reader:
        connection.sendall(frame.data)
        prefix = reader.read(4)
        data = prefix + reader.read(int.from_bytes(prefix, "big"))
    return Golden("", stem_of(frame.api_key), frame.api_key, frame.version, RESPONSE, data, Provenance("", "", "")).decode()
