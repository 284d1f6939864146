"""Scenes of share partitions (tests/golden/share_scenes.py): minibroker says what Apache Kafka 4.3.1 said."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from minibroker.cluster.topic import SHARE_GROUP_STATE_TOPIC
from minibroker.records.any_format import decode_records, split_batches
from minibroker.schemas.internal.share_state_records import ShareSnapshotValue
from minibroker.storage.record_frame import SHARE_GROUP_STATE
from minibroker.wire.schema import Buffer, replace
from tests.golden.captures.share_scenes import GOLDEN, LOGS
from tests.golden.share_scenes import SCENES, SETTINGS, Scene, locks, play
from tests.support.broker_in_memory import BrokerInMemory, Pending

(_SEGMENT,) = json.loads(LOGS.read_text())["segments"].values()
KAFKA_KEPT = bytes.fromhex(_SEGMENT["segment"])
KAFKA_SAID = json.loads(GOLDEN.read_text())["scenes"]


class Answered(NamedTuple):
    """A request that was sent; one that waits is answered when its time is over."""

    broker: BrokerInMemory
    pending: Pending
    max_wait_ms: int

    def answer(self) -> Any:
        self.broker.clock.advance(0)
        if not self.pending.is_done:
            self.broker.clock.advance(self.max_wait_ms)
        return self.pending.answer()


class InMemory:
    """A broker in memory, as an Exchange."""

    topic_ids: Mapping[str, UUID]

    def __init__(self) -> None:
        self.broker = BrokerInMemory(config=SETTINGS)

    def send(self, sender: str, schema: Any, request: Any, version: int) -> Answered:
        return Answered(self.broker, self.broker.begin(request, version), getattr(request, "max_wait_ms", 0))

    def let_pass(self, milliseconds: int) -> None:
        self.broker.clock.advance(milliseconds)


class Kept(NamedTuple):
    """A record of `__share_group_state` of one scene: topics numbered as they come, and no times."""

    topic: int
    partition: int
    value: Any


def kept(data: Buffer, group_id: str) -> list[Kept]:
    """What a scene left in the log."""
    topics: dict[UUID, int] = {}
    found = []
    for batch in split_batches(data):
        for each in decode_records(batch):
            record = SHARE_GROUP_STATE.decode(each.key, each.value)
            assert record is not None
            if record.key.group_id == group_id:
                value = record.value
                if isinstance(value, ShareSnapshotValue):
                    value = replace(value, create_timestamp=0, write_timestamp=0)
                found.append(Kept(topics.setdefault(record.key.topic_id, len(topics)), record.key.partition, value))
    return found


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_answers_match_kafka(scene: Callable[[Scene], None]) -> None:
    exchange = InMemory()
    assert play(scene, exchange) == KAFKA_SAID[scene.__name__]
    log = exchange.broker.cluster.partition(SHARE_GROUP_STATE_TOPIC, 0).log
    found = kept(log.read(0, 1 << 20, isolation=None), scene.__name__)
    assert found
    if scene is not locks:  # Kafka has a record for each lock that is over; and there they were over while other scenes were played
        kafkas = kept(KAFKA_KEPT, scene.__name__)
        for where in {each[:2] for each in found}:  # what one request says of several partitions has the order of a hash map there
            ours = [each.value for each in found if each[:2] == where]
            assert ours == [each.value for each in kafkas if each[:2] == where][: len(ours)]
