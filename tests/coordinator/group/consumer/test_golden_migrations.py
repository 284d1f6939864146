"""Scenes of online migration (tests/golden/migration_scenes.py): minibroker says what Apache Kafka 4.3.1 said."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from tests.golden.captures.migrations import GOLDEN
from tests.golden.group_records import batches_of
from tests.golden.migration_members import Scene, names_of
from tests.golden.migration_scenes import PARTITION_COUNTS, POLICIES, RECORDED, SCENES, SETTINGS, play, policy
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.committed_offsets import TOPIC, groups_of

GOLDEN_SCENES = json.loads(GOLDEN.read_text())
KAFKA_SAID, KAFKA_WROTE = GOLDEN_SCENES["scenes"], GOLDEN_SCENES["records"]


class Answered(NamedTuple):
    """A request that was sent; what is due now comes before its answer."""

    broker: BrokerInMemory
    pending: Pending

    def answer(self) -> Any:
        self.broker.clock.advance(0)
        return self.pending.answer()


class InMemory:
    """A broker in memory, as an Exchange."""

    topic_ids: Mapping[str, UUID]

    def __init__(self, migration_policy: str = "bidirectional") -> None:
        self.broker = BrokerInMemory(topics=PARTITION_COUNTS, config=SETTINGS | {"group.consumer.migration.policy": migration_policy})
        groups_of(self.broker)
        self.topic_ids = {name: topic.topic_id for name, topic in self.broker.cluster.topics.items()}

    def send(self, sender: str, schema: Any, request: Any, version: int) -> Answered:
        return Answered(self.broker, self.broker.begin(request, version, client_id="scene"))

    def let_pass(self, milliseconds: int) -> None:
        self.broker.clock.advance(milliseconds)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_answers_match_kafka(scene: Callable[[Scene], None]) -> None:
    assert play(scene, InMemory()) == KAFKA_SAID[scene.__name__]


@pytest.mark.parametrize("scene", RECORDED, ids=lambda scene: scene.__name__)
def test_records_match_kafka(scene: Callable[[Scene], None]) -> None:
    exchange = InMemory()
    playing = Scene(scene.__name__, exchange)
    scene(playing)
    log = exchange.broker.cluster.partition(TOPIC, 0).log
    ours, theirs = batches_of(log.read(0, 1 << 20, isolation=None), scene.__name__, names_of([playing])), KAFKA_WROTE[scene.__name__]
    assert ours == theirs[: len(ours)]
    assert len(theirs) - len(ours) <= 1  # a session that was over before the log was read


@pytest.mark.parametrize("migration_policy", [*POLICIES, "DISABLED", "Upgrade"])
def test_migration_policy(migration_policy: str) -> None:
    """In capitals or not."""
    assert play(policy, InMemory(migration_policy)) == KAFKA_SAID[f"policy {migration_policy.lower()}"]
