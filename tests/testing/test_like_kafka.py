"""`like_kafka` of the test kit, over sockets: brokers of every form, the plugin, and what a client meets on one connection."""

from __future__ import annotations

import pytest

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.transport import Deadline
from minibroker.errors import UnknownTopicOrPartition
from minibroker.schemas import k01_fetch as k01
from minibroker.schemas import k02_list_offsets as k02
from minibroker.schemas import k03_metadata as k03
from minibroker.testing import Broker, BrokerProcess, BrokerThread, Surface
from tests.testing.test_docs import INI

pytest_plugins = "pytester"

LONG_MS = 60_000


def begin_fetch_and_look(connection: Connection, deadline: Deadline) -> None:
    """A Fetch that waits for a record, and a request after it."""
    partition = k01.Partition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    fetch = k01.Request(replica_id=-1, max_wait_ms=LONG_MS, min_bytes=1, topics=[k01.Topic(topic="orders", partitions=[partition])])
    connection.send(k01, fetch, deadline, most=12)
    last = k02.Partition(partition_index=0, timestamp=-1)
    connection.send(k02, k02.Request(replica_id=-1, topics=[k02.Topic(name="orders", partitions=[last])]), deadline, most=5)


@pytest.mark.parametrize(("like_kafka", "records", "end"), [(True, 1, 1), (False, 0, 0)])
def test_a_request_waits_for_the_fetch_before_it(like_kafka: bool, records: int, end: int) -> None:
    with BrokerThread(topics=["orders"], like_kafka=like_kafka) as broker, Client(broker.bootstrap_servers) as client:
        deadline = Deadline(LONG_MS)
        connection = client.to_any(deadline)
        begin_fetch_and_look(connection, deadline)
        fetched, listed = (None, None) if like_kafka else (connection.receive(deadline), connection.receive(deadline))
        broker.produce("orders", "one")
        if like_kafka:
            fetched, listed = connection.receive(deadline), connection.receive(deadline)
        assert fetched is not None
        assert listed is not None
        assert (len(bytes(fetched.responses[0].partitions[0].records or b"")) > 0) is bool(records)
        assert listed.topics[0].partitions[0].offset == end


def first_answer(broker: Surface) -> int:
    """The error of a topic that Metadata is to create."""
    with Client(broker.bootstrap_servers) as client:
        (topic,) = client.metadata(["new"], create=True).topics
    return topic.error_code


@pytest.mark.parametrize("form", [BrokerThread, BrokerProcess])
def test_forms_of_the_broker_take_it(form: type[BrokerThread | BrokerProcess]) -> None:
    with form(like_kafka=True) as broker:
        assert first_answer(broker) == UnknownTopicOrPartition.code
        broker.create_topic("orders", partitions=2)  # it is known when this returns
        broker.produce("orders", "apples")
        assert [record.text for record in broker.records("orders", count=1)] == ["apples"]
        broker.reset()
        assert first_answer(broker) == UnknownTopicOrPartition.code


def test_the_asynchronous_form_takes_it() -> None:
    assert Broker(like_kafka=True)._hosted._options.config == {"minibroker.like.kafka": "true"}


ASKING = """
    from minibroker.client.client import Client
    from minibroker.schemas import k03_metadata

    def test_it(minibroker):
        with Client(minibroker.bootstrap_servers) as client:
            (topic,) = client.metadata(["new"], create=True).topics
        assert topic.error_code == 3
"""


@pytest.mark.parametrize("way", ["option", "ini", "minibroker_options"])
def test_the_plugin_takes_it(pytester: pytest.Pytester, way: str) -> None:
    pytester.makeini("\n".join([INI, "minibroker_like_kafka = true"] if way == "ini" else [INI]))
    pytester.makepyfile(ASKING)
    if way == "minibroker_options":
        pytester.makeconftest(
            "import pytest\n@pytest.fixture(scope='session')\ndef minibroker_options():\n    return {'like_kafka': True}\n"
        )
    pytester.runpytest_subprocess(*(["--minibroker-like-kafka"] if way == "option" else [])).assert_outcomes(passed=1)


def test_without_it_the_plugins_broker_has_the_topic_at_once(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(ASKING)
    pytester.runpytest_subprocess().assert_outcomes(failed=1)


def test_topics_of_the_options_are_known_at_the_start() -> None:
    with BrokerThread(topics=["orders"], like_kafka=True) as broker, Client(broker.bootstrap_servers) as client:
        answer = client.to_any(Deadline(LONG_MS)).ask(k03, k03.Request(topics=None), Deadline(LONG_MS))
    assert [topic.name for topic in answer.topics] == ["orders"]
