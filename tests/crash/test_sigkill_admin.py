"""SIGKILL while topics come and go: what was answered holds after the restart, and nothing half made is left behind."""

from __future__ import annotations

import contextlib
import random
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from minibroker.client.client import Client
from minibroker.client.errors import ClientError
from minibroker.client.topics import create_topics, delete_topics, describe_configs
from minibroker.errors import KafkaError
from tests.clients.adapters import CLIENTS, Sent
from tests.support.becoming import becomes
from tests.support.broker_process import BrokerProcess
from tests.support.giving_up import GivingUp
from tests.support.soak import seed, times

KILLS = times(8, soak=20)
LIMIT_MS = 5_000
NAMES = [f"topic-{i}" for i in range(8)]


class Topic(NamedTuple):
    """What the broker answered of a topic that it created."""

    topic_id: str
    partition_count: int
    retention_ms: str


class Administrator:
    """Creates and deletes topics as fast as answers come, until one does not come.

    `known` is what the answers add up to: a Topic, None for a deleted one; no entry where an answer was lost. `refused` are those that none
    of its requests deserves: it knows all topics at first, and asks nothing twice.
    """

    def __init__(self, bootstrap: str, known: Mapping[str, Topic | None], seed: int) -> None:
        self.known = dict(known)
        self.answers = 0
        self.refused: list[KafkaError] = []
        self._address = bootstrap
        self._chance = random.Random(seed)
        self._thread = threading.Thread(target=self._administer)
        self._thread.start()

    def join(self) -> None:
        """Wait until it has lost its broker."""
        self._thread.join()

    def _administer(self) -> None:
        with contextlib.suppress(ClientError), GivingUp(self._address, timeout_ms=LIMIT_MS) as client:
            while True:
                name = self._chance.choice(NAMES)
                believed = self.known.pop(name, None)  # unknown until there is an answer
                self.known |= self._delete(client, name) if believed else self._create(client, name)
                self.answers += 1

    def _create(self, client: Client, name: str) -> dict[str, Topic | None]:
        count, retention_ms = self._chance.randint(1, 3), str(self._chance.randint(10**9, 10**12))
        made = create_topics(client, [name], partition_count=count, configs={"retention.ms": retention_ms})[name]
        if isinstance(made, KafkaError):
            self.refused.append(made)
            return {}
        return {name: Topic(str(made.topic_id), count, retention_ms)}

    def _delete(self, client: Client, name: str) -> dict[str, Topic | None]:
        error = delete_topics(client, [name])[name]
        if error is not None:
            self.refused.append(error)
            return {}
        return {name: None}


def listed(bootstrap: str) -> dict[str, Topic]:
    """Every topic that the broker knows now."""
    with Client(bootstrap, timeout_ms=60_000) as client:
        topics = client.metadata(None).topics
        configs = describe_configs(client, [topic.name or "" for topic in topics])
        retention = {name: next(c.value or "" for c in found if c.name == "retention.ms") for name, found in configs.items()}
        return {topic.name or "": Topic(str(topic.topic_id), len(topic.partitions), retention[topic.name or ""]) for topic in topics}


def folders(data_dir: Path) -> set[str]:
    """Partition folders that are not on their way out."""
    names = {path.name for path in data_dir.iterdir() if path.is_dir() and path.name != "__cluster_metadata-0"}
    return {name for name in names if not re.search(r"\.[0-9a-f]{32}-delete$", name)}


@pytest.mark.timeout(600)
def test_answers_about_topics_hold(tmp_path: Path) -> None:
    moments = random.Random(seed())
    known: dict[str, Topic | None] = {}
    answers = 0
    with BrokerProcess(tmp_path) as broker:
        for _ in range(KILLS):
            administrator = Administrator(broker.bootstrap, known, moments.randrange(10**6))
            assert becomes(lambda: administrator.answers > 0)  # noqa: B023  called here alone
            time.sleep(moments.uniform(0.02, 0.25))  # the random moment itself
            broker.kill()
            administrator.join()
            assert administrator.refused == []
            answers += administrator.answers
            broker.restart()
            found = listed(broker.bootstrap)
            for name, topic in administrator.known.items():
                assert found.get(name) == topic, name
            assert folders(broker.data_dir) == {f"{name}-{i}" for name, topic in found.items() for i in range(topic.partition_count)}
            for name in sorted(found)[:1]:  # a name used before holds nothing of what it held
                with Client(broker.bootstrap, timeout_ms=60_000) as client:
                    delete_topics(client, [name])
                    create_topics(client, [name], partition_count=1)
                assert CLIENTS["confluent-kafka"].write(broker.bootstrap, name, [Sent(None, b"x")]) == [0]
            known = dict(listed(broker.bootstrap))
        assert answers >= KILLS
        assert broker.stop() == 0
