"""A held high watermark looks to clients as one that followers hold back: Apache Kafka answers so while a node of two stands still."""

from __future__ import annotations

import json

from minibroker.testing import BrokerThread
from minibroker.testing.lab.handles import Hold
from tests.golden.capture_held import ANSWERS, TOPIC, ask


def test_the_same_answers() -> None:
    holds: list[Hold] = []
    with BrokerThread(topics=[TOPIC]) as broker:

        def hold() -> None:
            holds.append(broker.hold_high_watermark(TOPIC, 0))

        def release() -> None:
            holds.pop().release()

        found = ask(broker.bootstrap_servers, hold, release)
    assert found == json.loads(ANSWERS.read_text())["answers"]
