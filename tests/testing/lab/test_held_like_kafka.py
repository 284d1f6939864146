"""A held high watermark looks to clients as one that a follower holds back: Apache Kafka answers so while a node of three stands still."""

from __future__ import annotations

import json

from minibroker.testing import BrokerThread
from minibroker.testing.lab.handles import Hold
from tests.golden.captures.held import ANSWERS, PARTITIONS, SETTINGS, TOPIC, ask, create


def test_the_same_answers() -> None:
    holds: list[Hold] = []
    with BrokerThread(brokers=3, config=SETTINGS) as broker:

        def hold() -> None:
            holds.extend(broker.hold_high_watermark(TOPIC, partition) for partition in PARTITIONS)

        def release() -> None:
            for each in holds:
                each.release()

        addresses = broker.bootstrap_servers.split(",")
        create(addresses[0])
        found = ask(addresses, hold, release)
    assert found == json.loads(ANSWERS.read_text())["answers"]
