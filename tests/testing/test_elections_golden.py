"""Several brokers leave and come back as three Apache Kafkas do: who leads then, who is in sync, who may lead, whose configs are whose."""

from __future__ import annotations

import json

from minibroker.testing import BrokerThread
from tests.golden.capture_elections import GOLDEN, Elections, converse
from tests.support.kafka_cluster import RACKS


def test_brokers_leave_and_come_back_as_three_kafkas_do() -> None:
    with BrokerThread(brokers=3, racks=RACKS) as broker:
        said = converse(Elections([*broker.nodes.addresses.values()], broker.nodes.stop, broker.nodes.start))

    expected = json.loads(GOLDEN.read_text())["answers"]
    assert said.keys() == expected.keys()
    assert {what: (answer, expected[what]) for what, answer in said.items() if answer != expected[what]} == {}
