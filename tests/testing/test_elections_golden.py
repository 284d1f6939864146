"""Several brokers leave and come back as three Apache Kafkas do: who leads then, who is in sync, who may lead, whose configs are whose."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from minibroker.testing import BrokerThread
from tests.golden.captures.elections import GOLDEN, Elections, converse, converse_without_eligible
from tests.support.kafka_cluster import RACKS


@pytest.mark.parametrize(("what", "talk"), [("answers", converse), ("without_eligible", converse_without_eligible)])
def test_leader_changes_match_three_kafka_brokers(what: str, talk: Callable[[Elections], dict[str, Any]]) -> None:
    with BrokerThread(brokers=3, racks=RACKS) as broker:
        result = talk(Elections([*broker.nodes.addresses.values()], broker.nodes.stop, broker.nodes.start))

    expected = json.loads(GOLDEN.read_text())[what]
    assert result.keys() == expected.keys()
    assert {what: (answer, expected[what]) for what, answer in result.items() if answer != expected[what]} == {}
