"""SIGKILL of the broker under a share group: what was acknowledged is not delivered again, all else is, and its members are known."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from minibroker.client.client import Client
from minibroker.client.errors import BrokerUnreachable
from minibroker.client.groups import DescribedGroup, describe_groups
from tests.clients.share_reader import ACCEPT, REJECT, RELEASE, ShareReader
from tests.support.broker_process import BrokerProcess
from tests.support.soak import seed

KILLS = 3
RECORDS = 5_000
AT_ONCE = 20
GROUP, TOPIC = "sharers", "queue"


@pytest.mark.timeout(600)
def test_nothing_acknowledged_comes_again(tmp_path: Path) -> None:
    moments = random.Random(seed())
    done, unanswered = set[int](), set[int]()
    with BrokerProcess(tmp_path) as broker:
        fill(broker.bootstrap)
        for _ in range(KILLS):
            killer = threading.Timer(moments.uniform(0.3, 1.0), broker.kill)
            reader = ShareReader(broker.bootstrap, GROUP, TOPIC, max_records=AT_ONCE)
            killer.start()
            with pytest.raises((BrokerUnreachable, OSError)):
                work_on(reader, done, unanswered, moments)
            killer.join()
            broker.restart()
            with Client(broker.bootstrap) as client:
                group = describe_groups(client, [GROUP])[GROUP]
            assert isinstance(group, DescribedGroup)
            assert reader.member_id in {member.member_id for member in group.members}
        with ShareReader(broker.bootstrap, GROUP, TOPIC, max_records=AT_ONCE) as reader:
            while given := reader.fetch_once():
                assert done.isdisjoint(given)
                reader.acknowledge(dict.fromkeys(given, ACCEPT))
                done |= given.keys()
        assert done | unanswered == set(range(RECORDS))
        assert broker.stop() == 0


def work_on(reader: ShareReader, done: set[int], unanswered: set[int], moments: random.Random) -> None:
    """Take some and say what became of them, for ever. A record is given back at most once."""
    while True:
        given = reader.fetch_once()
        assert done.isdisjoint(given)
        kinds = {offset: moments.choice([ACCEPT, REJECT, RELEASE if count == 1 else ACCEPT]) for offset, count in given.items()}
        ended = {offset for offset, kind in kinds.items() if kind != RELEASE}
        unanswered |= ended
        reader.acknowledge(kinds)
        unanswered -= ended
        done |= ended


def fill(bootstrap: str) -> None:
    from confluent_kafka.admin import NewTopic

    from tests.support.confluent import AdminClient, Producer

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number)
    producer.flush(60)
