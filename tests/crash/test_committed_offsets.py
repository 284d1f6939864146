"""SIGKILL while offsets are committed: what was acknowledged is there after the restart, or what was sent behind it; nothing else."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from minibroker.client.client import Client
from minibroker.client.errors import ClientError
from minibroker.client.topics import create_topics
from minibroker.errors import CoordinatorLoadInProgress, KafkaError
from minibroker.schemas import k08_offset_commit as k08
from minibroker.schemas import k09_offset_fetch as k09
from minibroker.schemas import k10_find_coordinator as k10
from tests.support.becoming import becomes
from tests.support.broker_process import BrokerProcess
from tests.support.giving_up import GivingUp
from tests.support.soak import seed, times

KILLS = times(4, soak=8)
GROUPS = [f"group-{index}" for index in range(4)]
PARTITIONS = 3
LIMIT_MS = 5_000
TOPIC = "read"


def ask(client: Client, schema: Any, request: Any) -> Any:
    return client.to_any(client.deadline()).ask(schema, request, client.deadline())


def commit(client: Client, group: str, offset: int) -> bool:
    """Commit the same offset for every partition of the topic, in one request."""
    partitions = [k08.Partition(partition_index=index, committed_offset=offset, committed_metadata="") for index in range(PARTITIONS)]
    topics = [k08.Topic(name=TOPIC, topic_id=client.metadata([TOPIC]).topics[0].topic_id, partitions=partitions)]
    answer = ask(client, k08, k08.Request(group_id=group, member_id="", topics=topics))
    return all(each.error_code == 0 for topic in answer.topics for each in topic.partitions)


def committed(client: Client, group: str) -> set[int]:
    deadline = client.deadline()
    while True:
        (found,) = ask(client, k09, k09.Request(groups=[k09.Group(group_id=group, topics=None)])).groups
        if found.error_code != CoordinatorLoadInProgress.code:
            break
        deadline.pause(CoordinatorLoadInProgress())  # a log of so many commits is read in several turns
    assert found.error_code == 0
    return {each.committed_offset for topic in found.topics for each in topic.partitions}


class Committer:
    """Commits larger and larger offsets of one group, until an answer does not come."""

    def __init__(self, bootstrap: str, group: str, after: int) -> None:
        self.acknowledged = self.tried = after
        self._bootstrap, self._group = bootstrap, group
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with GivingUp(self._bootstrap, timeout_ms=LIMIT_MS) as client:
                while True:
                    self.tried += 1
                    assert commit(client, self._group, self.tried)
                    self.acknowledged = self.tried
        except (ClientError, KafkaError):
            return

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.mark.timeout(600)
def test_acknowledged_offsets_survive(tmp_path: Path) -> None:
    moments = random.Random(seed())
    last = dict.fromkeys(GROUPS, 0)
    with BrokerProcess(tmp_path) as broker:
        with Client(broker.bootstrap) as client:
            create_topics(client, [TOPIC], partition_count=PARTITIONS)
            assert ask(client, k10, k10.Request(coordinator_keys=GROUPS)).coordinators[0].error_code == 0
        for _ in range(KILLS):
            committers = {group: Committer(broker.bootstrap, group, last[group]) for group in GROUPS}
            assert becomes(lambda: all(each.acknowledged > last[group] + 1 for group, each in committers.items()))  # noqa: B023  called here alone
            time.sleep(moments.uniform(0.05, 0.3))  # the random moment itself
            broker.kill()
            for each in committers.values():
                each.join()
            broker.restart()
            with Client(broker.bootstrap) as client:
                for group, each in committers.items():
                    found = committed(client, group) or {0}
                    assert found in [{each.acknowledged}, {each.tried}], (group, found, each.acknowledged)
                    last[group] = max(found)
        assert min(last.values()) > KILLS
        assert broker.stop() == 0
