"""A broker under test in each of its forms: life, data, reset, snapshots, and what goes wrong."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from minibroker.errors import InvalidConfig, TopicAlreadyExists, UnknownTopicOrPartition
from minibroker.testing import MEMORY, TEMPORARY, AsyncSurface, Broker, BrokerError, BrokerProcess, BrokerThread, Surface, broker_process
from tests.support.ports import free_port

Form = Callable[..., Surface]
FORMS = [pytest.param(BrokerThread, id="thread"), pytest.param(BrokerProcess, id="process")]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    found: Form = request.param
    return found


@pytest.fixture(scope="module", params=[(BrokerThread, MEMORY), (BrokerThread, TEMPORARY), (BrokerProcess, MEMORY)], ids=str)
def shared(request: pytest.FixtureRequest) -> Iterator[Surface]:
    form, data_dir = request.param
    with form(topics={"orders": 3}, data_dir=data_dir) as broker:
        yield broker


@pytest.fixture
def broker(shared: Surface) -> Surface:
    shared.reset()
    return shared


def texts(broker: Surface, topic: str) -> list[str]:
    return [record.text for record in broker.records(topic)]


def values(consumer: Any, count: int, timeout_s: float = 60) -> list[bytes]:
    """What confluent-kafka's consumer reads, until there are `count`."""
    found: list[bytes] = []
    end_s = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < end_s:
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            found.append(message.value())
    return found


def test_topics_and_records_over_the_wire(broker: Surface) -> None:
    assert broker.create_topic("prices", partitions=2, cleanup_policy="compact", retention_ms=1000) == "prices"
    assert broker.topics() == ["orders", "prices"]
    broker.produce("prices", "1.20", b"1.30", key="apples", headers={"currency": "EUR", "note": None}, timestamp_ms=1_700_000_000_000)
    broker.produce("prices", None, key="plums", partition=1)
    broker.produce("prices", '{"price": 2}', partition=0, key="pears")
    found = broker.records("prices")
    apple = next(record for record in found if record.text == "1.20")
    assert (apple.topic, apple.key, apple.timestamp_ms) == ("prices", b"apples", 1_700_000_000_000)
    assert apple.headers == (("currency", b"EUR"), ("note", None))
    assert [(record.partition, record.offset) for record in found] == sorted((record.partition, record.offset) for record in found)
    assert {record.key: record.value for record in broker.records("prices", partition=1)}[b"plums"] is None
    assert next(record for record in found if record.key == b"pears").json() == {"price": 2}
    broker.delete_topic("prices")
    assert broker.topics() == ["orders"]
    assert broker.records("orders") == []


def test_records_that_are_waited_for(broker: Surface) -> None:
    later = threading.Timer(0.05, lambda: broker.produce("new", "one", "two"))
    later.start()
    assert [record.text for record in broker.records("new", count=2)] == ["one", "two"]
    later.join()
    with pytest.raises(BrokerError, match=r"^records\('new', count=3\): 2 came within 0.1 s$"):
        broker.records("new", count=3, timeout_s=0.1)


def test_refusals_are_one_line(broker: Surface) -> None:
    with pytest.raises(TopicAlreadyExists, match=r"^topic orders: Topic 'orders' already exists.$"):
        broker.create_topic("orders")
    with pytest.raises(InvalidConfig, match=r"cleanup\.polic"):
        broker.create_topic("prices", cleanup_polic="compact")
    with pytest.raises(UnknownTopicOrPartition, match="topic prices"):
        broker.records("prices")
    with pytest.raises(BrokerError, match=r"^records: isolation must be one of read_.*, got 'none'$"):
        broker.records("orders", isolation="none")
    with pytest.raises(TypeError, match=r"^\{'price': 2\} is neither bytes nor str nor None: encode it, for example with json.dumps"):
        broker.produce("orders", {"price": 2})  # type: ignore[arg-type]
    with pytest.raises(UnknownTopicOrPartition, match=r"^topic orders has no partition 7 \(it has 3\)$"):
        broker.records("orders", partition=7)
    with pytest.raises(UnknownTopicOrPartition, match="prices"):
        broker.delete_topic("prices")
    with pytest.raises(BrokerError, match=r"^group 'readers' did not have 1 assigned members within 0.05 s: there is no such group"):
        broker.wait_assigned("readers", timeout_s=0.05)


def test_reset_forgets_everything_but_the_topics_of_the_options(broker: Surface) -> None:
    from confluent_kafka import KafkaError, KafkaException, TopicPartition
    from confluent_kafka.admin import ConfigResource

    from tests.support.confluent import AdminClient, Consumer, Producer

    servers = {"bootstrap.servers": broker.bootstrap_servers}
    for number in range(50):
        broker.create_topic(f"topic-{number}")
    left_open = Producer(servers | {"transactional.id": "till"})
    left_open.init_transactions()
    left_open.begin_transaction()
    left_open.produce("orders", b"apples")
    left_open.flush()
    consumer = Consumer(servers | {"group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    admin = AdminClient(servers)
    name = ConfigResource(ConfigResource.Type.BROKER, "1")
    admin.alter_configs([ConfigResource(ConfigResource.Type.BROKER, "1", {"log.retention.ms": "12345"})])[name].result(30)
    assert broker.groups() == ["readers"]
    broker.reset()
    assert broker.topics() == ["orders"]
    assert broker.groups() == []
    assert broker.records("orders", isolation="read_uncommitted") == []
    assert consumer.committed([TopicPartition("orders", 0)])[0].offset < 0
    assert admin.describe_configs([name])[name].result(30)["log.retention.ms"].value != "12345"
    with pytest.raises(KafkaException) as caught:
        left_open.commit_transaction(30)
    assert caught.value.args[0].code() in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError._STATE, KafkaError._FATAL}
    consumer.close()


def test_clients_live_through_a_reset(broker: Surface) -> None:
    from tests.support.confluent import Consumer, Producer

    servers = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer(servers | {"enable.idempotence": True})
    consumer = Consumer(servers | {"group.id": "readers", "auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 200})
    consumer.subscribe(["orders"])
    for value in (b"before", b"behind"):
        producer.produce("orders", value, partition=0)
        assert producer.flush(30) == 0
        other = Producer(servers | {"enable.idempotence": True})
        other.produce("orders", b"of another", partition=0)  # with the same producer id it would be out of order
        assert other.flush(30) == 0
        assert texts(broker, "orders") == [value.decode(), "of another"]
        assert values(consumer, 2) == [value, b"of another"]
        broker.reset()
    assert len(broker.request_log.of("FindCoordinator")) == 0
    consumer.close()


def test_pending_requests_are_answered_before_a_reset(broker: Surface) -> None:
    """A Fetch is answered; a member that waits for others is disconnected, and comes again."""
    from kafka import KafkaConsumer

    found: list[Any] = []
    is_over = threading.Event()

    def read() -> None:
        with KafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="readers", heartbeat_interval_ms=200) as consumer:
            while not is_over.is_set():
                for records in consumer.poll(timeout_ms=500).values():
                    found.extend(record.value for record in records)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    broker.wait_assigned("readers", members=2)
    broker.reset()
    broker.wait_assigned("readers", members=2)
    end_s = time.monotonic() + 60
    while len(set(found)) < 2 and time.monotonic() < end_s:
        broker.produce("orders", "one", partition=0)
        broker.produce("orders", "two", partition=2)
    is_over.set()
    for thread in threads:
        thread.join()
    assert set(found) == {b"one", b"two"}


def test_snapshots_are_restored_as_often_as_one_likes(broker: Surface) -> None:
    from confluent_kafka import TopicPartition

    from tests.support.confluent import Consumer

    broker.create_topic("prices", cleanup_policy="compact")
    broker.produce("prices", "1.20", key="apples")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("prices", 0, 1)], asynchronous=False)
    kept = broker.snapshot()
    broker.produce("prices", "1.30", key="apples")
    later = broker.snapshot()
    for _ in range(2):
        broker.restore(kept)
        assert texts(broker, "prices") == ["1.20"]
        assert consumer.committed([TopicPartition("prices", 0)])[0].offset == 1
        broker.produce("prices", "9.99", key="apples")
        broker.create_topic("other")
        broker.reset()
    broker.restore(later)
    assert texts(broker, "prices") == ["1.20", "1.30"]
    assert broker.topics() == ["orders", "prices"]
    consumer.close()


def test_it_starts_again_on_the_same_port_with_the_same_data(form: Form) -> None:
    broker = form(topics=["orders"], data_dir=TEMPORARY, port=free_port())
    with broker:
        address = broker.bootstrap_servers
        broker.produce("orders", "one")
        broker.stop()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=5)
        with pytest.raises(BrokerError, match="not running"):
            _ = broker.bootstrap_servers
        broker.start()
        assert broker.bootstrap_servers == address
        assert texts(broker, "orders") == ["one"]
        if isinstance(broker, BrokerProcess):
            broker.kill()
            broker.start()
            assert texts(broker, "orders") == ["one"]
        folder = broker.data_dir
        assert folder is not None
        assert (folder / "orders-0").is_dir()
    assert not folder.exists()


def test_data_stay_in_a_given_folder(tmp_path: Path) -> None:
    for expected in ([], ["one"]):
        with BrokerThread(topics=["orders"], data_dir=tmp_path / "data") as broker:
            assert broker.data_dir == tmp_path / "data"
            assert texts(broker, "orders") == expected
            broker.produce("orders", "one")
    with BrokerThread(data_dir=tmp_path / "data") as broker:
        broker.reset()
        assert broker.topics() == []
        assert not (tmp_path / "data" / "orders-0").exists()


def test_reset_empties_a_given_folder_and_snapshots_exclude_old_topics(tmp_path: Path) -> None:
    with BrokerThread(data_dir=tmp_path / "data") as broker:
        for _ in range(10):
            for number in range(5):
                broker.create_topic(f"orders{number}", partitions=3)
            broker.produce("orders0", "one")
            broker.reset()
            snapshot = broker.snapshot()
            assert isinstance(snapshot.copy, list)
            assert not [each.name for each in snapshot.copy[0].folder.iterdir() if "orders" in each.name]
            assert broker.topics() == []
        end_s = time.monotonic() + 60
        while [each for each in (tmp_path / "data").iterdir() if "orders" in each.name]:
            assert time.monotonic() < end_s
            time.sleep(0.01)


def own_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("minibroker")}


def test_in_memory_broker_leaves_no_files_or_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    threads = own_threads()
    with BrokerThread(topics=["orders"], config={"message.max.bytes": 5_000_000}) as broker:
        broker.produce("orders", "one" * 1_000_000)  # goes out in pieces
        assert len(broker.records("orders")[0].text) == 3_000_000
        assert broker.data_dir is None
        broker.stop()
        broker.start()
        assert len(texts(broker, "orders")) == 1
    assert list(tmp_path.iterdir()) == []
    assert own_threads() <= threads


@pytest.mark.parametrize("place", ["temporary", "folder"])
def test_temporary_folders_are_removed(form: Form, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with form(topics=["orders"], data_dir=TEMPORARY if place == "temporary" else tmp_path / "data", port=free_port()) as broker:
        broker.produce("orders", "one")
        kept = broker.snapshot()
        broker.reset()
        broker.restore(kept)
        assert texts(broker, "orders") == ["one"]
        if isinstance(broker, BrokerProcess):
            broker.kill()  # it could not remove its snapshot
            broker.start()
            assert texts(broker, "orders") == ["one"]
    assert list(temporary.iterdir()) == []


def test_unrelated_files_in_its_folder_are_kept(tmp_path: Path) -> None:
    theirs = {"notes.txt": "mine", "pictures/cat.png": "cat"}
    for name, text in theirs.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with BrokerThread(data_dir=tmp_path) as broker:
        broker.create_topic("orders")
        kept = broker.snapshot()
        broker.reset()
        broker.restore(kept)
        assert broker.topics() == ["orders"]
    assert {name: (tmp_path / name).read_text() for name in theirs} == theirs


def test_failed_start_is_a_one_line_error(form: Form) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    with (
        taken,
        pytest.raises(BrokerError, match=r"^the broker does not start: listeners: cannot listen on .*in use$"),
    ):
        form(port=taken.getsockname()[1]).start()
    idle = form()
    for ask in (idle.reset, idle.snapshot, idle.topics):
        with pytest.raises(BrokerError, match="not running"):
            ask()
    idle.stop()


def test_invalid_options_are_one_line_errors(tmp_path: Path) -> None:
    form = BrokerThread
    with form(data_dir=tmp_path), pytest.raises(BrokerError, match="another broker uses this log directory"):
        form(data_dir=tmp_path).start()
    with pytest.raises(BrokerError, match=r"^the broker does not start: Invalid value many for configuration num.partitions"):
        form(config={"num.partitions": "many"}).start()
    with pytest.warns(UserWarning, match=r"^config: unknown property num.partitons is ignored: did you mean num.partitions\?$") as result:
        form(config={"num.partitons": 3})
    assert [Path(each.filename).name for each in result] == ["test_brokers.py"]
    broken = form(topics=["no name"], data_dir=tmp_path)
    for _ in range(2):  # nothing of it is left
        with pytest.raises(BrokerError, match=r"^topics: 'no name' cannot be created: "):
            broken.start()
    with pytest.raises(BrokerError, match="not running"):
        _ = broken.bootstrap_servers
    with pytest.raises(BrokerError, match=r"use topics=\['orders'\]"):
        form(topics="orders")
    with pytest.raises(BrokerError, match="data_dir"):
        form(config={"log.dirs": "/tmp/x"})  # noqa: S108  nobody writes there


def test_a_snapshot_is_of_one_broker() -> None:
    forms: list[Callable[[], Surface]] = [
        BrokerThread,
        BrokerThread,
        lambda: BrokerThread(data_dir=TEMPORARY),
        BrokerProcess,
        BrokerProcess,
    ]
    with ExitStack() as running:
        brokers = [running.enter_context(form()) for form in forms]
        for number, broker in enumerate(brokers):
            broker.create_topic(f"of-{number}")
        kept = [broker.snapshot() for broker in brokers]
        for number, broker in enumerate(brokers):
            for other in kept[:number] + kept[number + 1 :]:
                with pytest.raises(BrokerError, match=r"^restore: this snapshot is of another broker.*: take one of this broker$"):
                    broker.restore(other)
            broker.create_topic("more")  # it goes on, with what it had
            assert broker.topics() == ["more", f"of-{number}"]
            broker.restore(kept[number])
            assert broker.topics() == [f"of-{number}"]
        (*_, process) = brokers
        assert isinstance(process, BrokerProcess)
        process.kill()
        process.start()
        process.snapshot()
        with pytest.raises(BrokerError, match=r"^restore: this snapshot is of another broker, or of a process that is gone"):
            process.restore(kept[-1])


def test_config_and_port_are_taken(form: Form) -> None:
    port = free_port()
    with form(port=port, config={"num.partitions": 4, "auto.create.topics.enable": True}) as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{port}"
        broker.produce("new", "one", partition=3)
        assert [record.partition for record in broker.records("new")] == [3]


def test_abandoned_answer_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    with BrokerProcess() as broker:
        with monkeypatch.context() as patch:
            patch.setattr(select, "poll", interrupted)
            with pytest.raises(KeyboardInterrupt):
                broker._execute("leaders.describe", {"topic": "nowhere", "partition": 0})
        assert broker._execute("snapshots", {}) == []
        broker.reset()


def test_process_output_can_be_read_while_it_runs(tmp_path: Path) -> None:
    with BrokerProcess(data_dir=tmp_path) as broker:
        (tmp_path / "stray-0").mkdir()
        for count in range(1, 4):
            broker.restore(broker.snapshot())
            assert broker.output.count("belongs to no topic") == count


def test_hanging_process_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with BrokerProcess() as broker:
        monkeypatch.setattr(broker_process, "TIMEOUT_S", 0.05)
        os.kill(broker.pid, signal.SIGSTOP)
        with pytest.raises(BrokerError, match=r"^reset: the broker's process did not answer within 0.05 s$"):
            broker.reset()
        broker.kill()


def test_broker_restarts_after_an_external_kill(tmp_path: Path) -> None:
    with BrokerProcess(topics=["orders"], data_dir=tmp_path, port=free_port()) as broker:
        broker.produce("orders", "one")
        before, scratch = broker._running(), broker._scratch
        assert scratch is not None
        os.kill(broker.pid, signal.SIGKILL)
        before.wait(60)
        assert not broker.is_running
        broker.start()
        assert texts(broker, "orders") == ["one"]
        assert before.stdin is not None
        assert before.stdout is not None
        assert (before.stdin.closed, before.stdout.closed) == (True, True)
        assert not Path(scratch.name).exists()
        assert broker._scratch is not None
        assert Path(broker._scratch.name).exists()


def test_dead_process_is_reported() -> None:
    with BrokerProcess() as broker:
        broker._running().kill()
        with pytest.raises(BrokerError, match=r"^reset: the broker's process is gone"):
            broker.reset()


async def test_in_the_loop_of_the_test() -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async with Broker(topics={"orders": 2}) as broker:
        servers = broker.bootstrap_servers
        async with (
            AIOKafkaProducer(bootstrap_servers=servers) as producer,
            AIOKafkaConsumer("orders", bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest") as consumer,
        ):
            assigned = await broker.wait_assigned("readers")
            assert [*assigned.values()] == [[("orders", 0), ("orders", 1)]]
            await producer.send_and_wait("orders", b"one", partition=1)
            assert (await consumer.getone()).value == b"one"
        assert [record.text for record in await broker.records("orders", count=1)] == ["one"]
        assert await broker.groups() == ["readers"]
        kept = await broker.snapshot()
        await broker.reset()
        assert await broker.topics() == ["orders"]
        assert await broker.records("orders") == []
        await broker.create_topic("prices", partitions=2)
        await broker.produce("prices", "1.20", key="apples")
        await broker.delete_topic("prices")
        await broker.restore(kept)
        assert len(await broker.records("orders")) == 1
        assert broker.data_dir is None
        assert len(broker.request_log.of(client_id="minibroker-testing")) == 0
        await broker.stop()
        with pytest.raises(BrokerError, match="async with"):
            _ = broker.bootstrap_servers
        await broker.start()
        assert broker.bootstrap_servers == servers
    assert len(asyncio.all_tasks()) == 1


async def test_a_thread_beside_a_loop() -> None:
    """Also there it may be started and stopped: nothing of it needs the loop of the test."""
    from aiokafka import AIOKafkaProducer

    with BrokerThread(topics=["orders"], data_dir=TEMPORARY) as broker:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"one")
        aside = AsyncSurface(broker)
        kept = await aside.snapshot()
        assert len(await aside.records("orders", count=1)) == 1
        assert len(aside.request_log.of("Produce")) == 1
        assert aside.data_dir == broker.data_dir
        await aside.reset()
        assert await aside.records("orders") == []
        await aside.restore(kept)
        assert [record.text for record in await aside.records("orders")] == ["one"]
        await aside.advance(days=8)


def test_broker_process_does_not_import_the_broker_into_the_test() -> None:
    program = "import sys, minibroker.testing.broker_process; print([name for name in sys.modules if name.startswith('minibroker.server')])"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip() == "[]"


def test_nothing_is_imported_before_it_is_used() -> None:
    import subprocess

    code = "import sys, minibroker.testing as t, minibroker.testing.plugin; print([n for n in sys.modules if n.startswith('minibroker')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert eval(ran.stdout) == ["minibroker", "minibroker.testing", "minibroker.testing.plugin"]  # noqa: S307  our own
    import minibroker.testing

    with pytest.raises(AttributeError, match="Brokers"):
        _ = minibroker.testing.Brokers
    for name in minibroker.testing.__all__:
        assert getattr(minibroker.testing, name).__module__.startswith("minibroker.testing") or name in {"MEMORY", "TEMPORARY"}
