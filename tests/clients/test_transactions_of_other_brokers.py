"""Transactions at brokers that are set up otherwise: of older transaction versions, and one that syncs before it answers.

Java 4.3.1 goes by the transaction.version that the broker finalized: below 2 it adds its partitions itself, and epochs stay.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.makes import Clients, unique
from tests.clients.story import COMMITTED, EVERYTHING, tell
from tests.clients.transactional import READ_COMMITTED, READ_UNCOMMITTED, Place
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.java]

SYNCED = ("--set", "log.flush.interval.messages=1")


@pytest.mark.parametrize("setup", ["transaction.version=0", "transaction.version=1", "synced"])
def test_stories_before_and_after_a_sigkill(setup: str, tmp_path: Path) -> None:
    if setup != "synced":
        format_command = [sys.executable, "-m", "minibroker", "storage", "format", str(tmp_path / "data"), "--feature", setup]
        subprocess.run(format_command, check=True, capture_output=True)
    settings = ("--set", "num.partitions=2", *(SYNCED if setup == "synced" else ()))
    with BrokerProcess(tmp_path, *settings) as broker, Clients(broker.bootstrap) as clients:
        topics = {name: unique("story") for name in ("confluent-kafka", "java-4.3.1")}
        for name, topic in topics.items():
            tell(clients[name], broker.bootstrap, topic)
        check(clients, list(topics.values()))
        broker.kill()
        broker.restart()
        check(clients, list(topics.values()))
        assert broker.stop() == 0, broker.output


def check(clients: Clients, topics: list[str]) -> None:
    for isolation, expected in ((READ_COMMITTED, COMMITTED), (READ_UNCOMMITTED, EVERYTHING)):
        places = {Place(topic, i): expected[i] for topic in topics for i in (0, 1)}
        found = clients["confluent-kafka"].read(clients.bootstrap, isolation, {place: len(rows) for place, rows in places.items()})
        assert found == places
