"""Real clients and several brokers: leaders move, nodes stop and start under them, and nothing is lost or there twice.

Each make has a topic, an idempotent producer and a member of a group that reads it all; what happens to the brokers happens to all of them.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from minibroker.testing import BrokerError, BrokerProcess, GivenCluster
from tests.clients.makes import IN_PROCESS
from tests.clients.transactional import Place
from tests.support import java
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_ports

COUNT = 600  #: records of each make
STEPS = 16  #: things that happen to the brokers meanwhile
PARTITIONS = 6
TIMEOUT_S = 120.0
RACKS = {1: "a", 2: "b", 3: "c"}


def value(number: int) -> bytes:
    return b"%d" % number


class Progress:
    """How far a make's producer and consumer are; written by their threads."""

    def __init__(self, make: str) -> None:
        self.make = make
        self.topic = f"of-{make}"
        self.sent = 0
        self.read: list[bytes] = []
        self.failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"{self.make}: {self.sent} sent, {len(self.read)} read, {self.failure!r}"

    @property
    def is_read(self) -> bool:
        return len(set(self.read)) >= COUNT


def kafka_python_writes(bootstrap: str, progress: Progress) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), enable_idempotence=True, retries=1000, retry_backoff_ms=20)
    for number in range(COUNT):
        future = producer.send(progress.topic, value(number), key=value(number))
        if number % 10 == 9:
            future.get(timeout=TIMEOUT_S)
        progress.sent = number + 1
    producer.flush(TIMEOUT_S)
    producer.close()


def kafka_python_reads(bootstrap: str, progress: Progress) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        progress.topic, bootstrap_servers=bootstrap.split(","), group_id=progress.topic, auto_offset_reset="earliest", retry_backoff_ms=20
    )
    deadline = time.monotonic() + TIMEOUT_S
    while not progress.is_read and time.monotonic() < deadline:
        progress.read += [record.value for records in consumer.poll(200).values() for record in records]
    consumer.close()


def aiokafka_writes(bootstrap: str, progress: Progress) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, retry_backoff_ms=20)
        await producer.start()
        try:
            for number in range(COUNT):
                future = await producer.send(progress.topic, value(number), key=value(number))
                if number % 10 == 9:
                    await asyncio.wait_for(future, TIMEOUT_S)
                progress.sent = number + 1
            await producer.flush()
        finally:
            await producer.stop()

    asyncio.run(run())


def aiokafka_reads(bootstrap: str, progress: Progress) -> None:
    from aiokafka import AIOKafkaConsumer

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            progress.topic, bootstrap_servers=bootstrap, group_id=progress.topic, auto_offset_reset="earliest", retry_backoff_ms=20
        )
        await consumer.start()
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while not progress.is_read and time.monotonic() < deadline:
                progress.read += [record.value for records in (await consumer.getmany(timeout_ms=200)).values() for record in records]
        finally:
            await consumer.stop()

    asyncio.run(run())


def confluent_writes(bootstrap: str, progress: Progress) -> None:
    from tests.support.confluent import Producer

    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "retry.backoff.ms": 20})
    for number in range(COUNT):
        producer.produce(progress.topic, value(number), value(number), on_delivery=delivered)
        if number % 10 == 9:
            producer.flush(TIMEOUT_S)
        progress.sent = number + 1
    assert producer.flush(TIMEOUT_S) == 0
    assert not failures


def confluent_reads(bootstrap: str, progress: Progress) -> None:
    from tests.support.confluent import Consumer

    settings = {"bootstrap.servers": bootstrap, "group.id": progress.topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([progress.topic])
    deadline = time.monotonic() + TIMEOUT_S
    while not progress.is_read and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            progress.read.append(message.value())
    consumer.close()


def java_tool(tool: str, *arguments: str) -> subprocess.Popen[bytes]:
    jars = java.kafka_jars()
    command = ["java", "-Xmx256m", *java.SHORT_LIVED, *java.class_data(jars), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", f"{jars}/*", tool, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def java_writes(bootstrap: str, progress: Progress) -> None:
    arguments = ["--bootstrap-server", bootstrap, "--topic", progress.topic, "--command-property", "retries=1000"]
    arguments += ["--command-property", "enable.idempotence=true", "--command-property", "acks=all", "--max-block-ms", "30000"]
    arguments += ["--reader-property", "parse.key=true", "--command-property", "retry.backoff.ms=20", "--batch-size", "200"]
    process = java_tool(java.CONSOLE_PRODUCER, *arguments)
    assert process.stdin is not None

    def follows(number: int) -> bool:
        return len(progress.read) > number - 100

    for number in range(COUNT):
        process.stdin.write(b"%d\t%d\n" % (number, number))
        if number % 10 == 9:
            process.stdin.flush()
            _until(partial(follows, number), lambda: f"{progress}: its consumer does not follow")
        progress.sent = number + 1
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


def java_reads(bootstrap: str, progress: Progress) -> None:
    arguments = ["--bootstrap-server", bootstrap, "--topic", progress.topic, "--group", progress.topic, "--from-beginning"]
    process = java_tool(java.CONSOLE_CONSUMER, *arguments, "--max-messages", str(COUNT), "--timeout-ms", str(int(TIMEOUT_S * 1000)))
    assert process.stdout is not None
    for line in process.stdout:
        progress.read.append(line.strip())
    process.communicate(timeout=TIMEOUT_S)


MAKES: dict[str, tuple[Callable[[str, Progress], None], Callable[[str, Progress], None]]] = {
    "kafka-python": (kafka_python_writes, kafka_python_reads),
    "aiokafka": (aiokafka_writes, aiokafka_reads),
    "confluent-kafka": (confluent_writes, confluent_reads),
    "java": (java_writes, java_reads),
}


def _until(condition: Callable[[], bool], otherwise: Callable[[], str], timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.02)


def _thread(work: Callable[[str, Progress], None], bootstrap: str, progress: Progress) -> threading.Thread:
    def run() -> None:
        try:
            work(bootstrap, progress)
        except BaseException as error:  # noqa: BLE001  it is told by the test
            progress.failure = error

    thread = threading.Thread(target=run, name=f"{work.__name__}", daemon=True)
    thread.start()
    return thread


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    topics = {f"of-{make}": PARTITIONS for make in MAKES}
    with BrokerProcess(brokers=3, racks=[*RACKS.values()], topics=topics, port=free_ports(3)) as broker:
        yield broker


def something_happens(broker: BrokerProcess, chance: random.Random, topics: list[str]) -> str:
    """To every topic the same: one broker is gone at most."""
    alive = broker.nodes.alive
    what = chance.choice(["move", "move", "bump", "elect", "node", "node"])
    if what == "node":
        if len(alive) < 3:
            (gone,) = {1, 2, 3} - {*alive}
            broker.nodes.start(gone)
            return f"start {gone}"
        gone = chance.choice(alive)
        broker.nodes.stop(gone)
        return f"stop {gone}"
    for topic in topics:
        index = chance.randrange(PARTITIONS)
        if what == "move":
            broker.leaders.move(topic, index, to=chance.choice(alive))
        elif what == "bump":
            broker.leaders.bump_epoch(topic, index)
        else:
            with suppress(BrokerError):  # it leads already
                broker.leaders.elect(topic, index)
    return what


def test_no_record_is_lost_or_duplicated(broker: BrokerProcess) -> None:
    seed = int(os.environ.get("MINIBROKER_TEST_SEED", "7"))
    chance = random.Random(seed)
    clients = [Progress(make) for make in MAKES]
    bootstrap = broker.bootstrap_servers
    threads = [_thread(work, bootstrap, each) for each in clients for work in MAKES[each.make]]
    happened: list[str] = []

    def are_there(count: int) -> bool:
        return all(each.sent >= count or each.failure for each in clients)

    for step in range(1, STEPS + 1):
        _until(partial(are_there, step * COUNT // (STEPS + 1)), lambda: f"{seed=} {happened} {clients}")
        happened.append(something_happens(broker, chance, [each.topic for each in clients]))
    for node in RACKS:
        broker.nodes.start(node)
    for thread in threads:
        thread.join(TIMEOUT_S)

    for each in clients:
        assert each.failure is None, (seed, happened, each.make)
        expected = Counter(value(number) for number in range(COUNT))
        records = broker.records(each.topic)
        assert Counter(record.value for record in records) == expected, (seed, happened, each.make)
        assert Counter(each.read) == expected, (seed, happened, each.make)
        for index in range(PARTITIONS):
            numbers = [int(record.value or b"") for record in records if record.partition == index]
            assert numbers == sorted(numbers), (seed, happened, each.make)
    assert {"NOT_LEADER_OR_FOLLOWER"} & {error for request in broker.request_log for error in request.errors}, happened


def test_kafka_tools_see_a_cluster(broker: BrokerProcess, tmp_path: Path) -> None:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient

    bootstrap = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("shown", 3, 2)])["shown"].result(TIMEOUT_S)
    described = java.run_tool(java.TOPIC_COMMAND, "--bootstrap-server", bootstrap, "--describe", "--topic", "shown")
    shown = [broker.leaders.describe("shown", index) for index in range(3)]
    assert "ReplicationFactor: 2" in described
    for index, partition in enumerate(shown):
        replicas = ",".join(map(str, partition["replicas"]))
        line = f"Partition: {index}\tLeader: {partition['leader']}\tReplicas: {replicas}\tIsr: {replicas}"
        assert line in described

    leader, follower = shown[0]["replicas"]
    broker.leaders.move("shown", 0, to=follower)
    elected = java.run_tool(
        "org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", bootstrap, "--election-type", "preferred",
        "--topic", "shown", "--partition", "0",
    )  # fmt: skip
    assert "Successfully completed leader election (PREFERRED) for partitions shown-0" in elected
    assert broker.leaders.describe("shown", 0)["leader"] == leader

    wanted = tmp_path / "plan.json"
    wanted.write_text('{"version": 1, "partitions": [{"topic": "shown", "partition": 1, "replicas": [3, 1, 2]}]}')
    plan = ["--bootstrap-server", bootstrap, "--reassignment-json-file", str(wanted)]
    moved = java.run_tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *plan, "--execute")
    assert "Successfully started partition reassignment for shown-1" in moved
    assert broker.leaders.describe("shown", 1)["replicas"] == [3, 1, 2]


def test_a_consumer_reads_from_the_replica_in_its_rack(broker: BrokerProcess) -> None:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    topic = broker.create_topic("racks")
    broker.produce(topic, *(f"v{number}" for number in range(10)))
    leader = broker.leaders.describe(topic, 0)["leader"]
    near = next(node for node in RACKS if node != leader)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "client.rack": RACKS[near], "client.id": "near"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = 0
    deadline = time.monotonic() + TIMEOUT_S
    while read < 10 and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        read += message is not None and message.error() is None
    consumer.close()

    assert read == 10
    asked = [request.node for request in broker.request_log if request.client_id == "near" and request.api == "Fetch"]
    assert asked[0] == leader
    assert near in asked


@pytest.mark.timeout(600)
def test_data_of_several_brokers_is_opened_by_one_broker_and_by_kafka(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with BrokerProcess(brokers=3, data_dir=data_dir, topics={"orders": 2}) as several:
        for step in range(4):
            several.produce("orders", *(f"{step}-{number}" for number in range(10)), partition=step % 2)
            several.leaders.move("orders", step % 2, to=1 + step % 3)
        several.nodes.stop(1)
        several.produce("orders", "last", partition=0)
        expected = sorted((record.partition, record.offset, record.value) for record in several.records("orders"))
    assert len(expected) == 41

    with BrokerProcess(data_dir=data_dir) as alone:
        assert sorted((record.partition, record.offset, record.value) for record in alone.records("orders")) == expected
        assert alone.leaders.describe("orders", 0)["replicas"] == [1]
    with KafkaProcess(tmp_path, data_dir, static_voters=True) as kafka, GivenCluster(kafka.bootstrap) as given:
        assert sorted((record.partition, record.offset, record.value) for record in given.records("orders")) == expected
        given.produce("orders", "Kafka's", partition=0)
        assert len(given.records("orders")) == 42
        kafka.stop()


TRANSACTIONS = 12
COORDINATORS = 5  #: partitions of __transaction_state


@pytest.mark.parametrize("make", IN_PROCESS)
def test_transactions_go_on_when_coordinators_and_leaders_move(broker: BrokerProcess, make: str) -> None:
    """Each transaction writes to both partitions while something moves, and every third is aborted.

    kafka-python 3.0 goes on asking for its coordinator where it was when that broker refuses connections, until its records expire: for it
    coordinators move, and brokers stay up.
    """
    topic = broker.create_topic(f"transactions-of-{make}", partitions=2)
    places = [Place(topic, 0), Place(topic, 1)]
    client = IN_PROCESS[make]
    producer = client.open(broker.bootstrap_servers, f"id-of-{make}")
    committed = []
    for number in range(TRANSACTIONS):
        node = number // 4 + 1
        if number % 4 == 0 and make == "kafka-python":
            for index in range(COORDINATORS):
                broker.leaders.move("__transaction_state", index, to=node)
        elif number % 4 == 0:
            broker.nodes.stop(node)
        producer.begin()
        for place in places:
            producer.send(place, value(number))
        if number % 4 == 1:
            broker.leaders.move(topic, number % 2, to=broker.nodes.alive[number % 2])
        if number % 4 == 3:
            broker.nodes.start(node)
        if number % 3 == 2:
            producer.abort()
        else:
            producer.commit()
            committed.append(value(number))
    producer.close()

    for place in places:
        assert [record.value for record in broker.records(topic, partition=place.partition)] == committed
