"""Several brokers answer as three Apache Kafkas do: at the right one, at the wrong one, and when one is gone."""

from __future__ import annotations

import json

from minibroker.testing import BrokerThread
from tests.golden.captures.several_brokers import GOLDEN, Cluster, converse
from tests.support.kafka_cluster import RACKS


def test_conversation_matches_three_kafka_brokers() -> None:
    with BrokerThread(brokers=3, racks=RACKS) as broker:
        result = converse(Cluster([*broker.nodes.addresses.values()], broker.nodes.stop))

    assert result == json.loads(GOLDEN.read_text())["answers"]
