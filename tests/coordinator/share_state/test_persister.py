"""The share coordinator: states of share partitions over restarts, snapshots, pruning, and the end of topics."""

from __future__ import annotations

from pathlib import Path
from random import Random
from uuid import UUID, uuid4

import pytest

from minibroker.cluster.topic import SHARE_GROUP_STATE_TOPIC
from minibroker.coordinator.share_state.persister import Persister
from minibroker.coordinator.share_state.records import NO_OFFSET, InitialState, StateBatch, StateKey, StateSummary, StateUpdate
from minibroker.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest, NotCoordinator, UnknownTopicOrPartition
from minibroker.records.any_format import decode_records, split_batches
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.losing_files import LosingFiles, Loss

PROPERTIES = {"share.coordinator.state.topic.num.partitions": "1", "share.coordinator.snapshot.update.records.per.snapshot": "3"}
GROUP = "workers"


def broker_with(topics: dict[str, int]) -> BrokerInMemory:
    return BrokerInMemory(topics=topics, config=PROPERTIES)


def persister_of(broker: BrokerInMemory) -> Persister:
    return broker.services.coordinators.share_persister


def topic_id(broker: BrokerInMemory, topic: str = "orders") -> UUID:
    return broker.cluster.topics[topic].topic_id


def begin(broker: BrokerInMemory, *, start_offset: int = 0, state_epoch: int = 1) -> StateKey:
    """A share partition that is initialized."""
    key = StateKey(GROUP, topic_id(broker), 0)
    assert persister_of(broker).initialize(GROUP, [InitialState(key.topic_id, 0, state_epoch, start_offset)]) == [None]
    return key


def acknowledge(broker: BrokerInMemory, key: StateKey, first_offset: int, last_offset: int, *, state_epoch: int = 1) -> None:
    batch = StateBatch(first_offset, last_offset, 2, 1)
    persister_of(broker).write(key, StateUpdate(state_epoch, 0, first_offset, last_offset - first_offset + 1, [batch]))


def state_log(broker: BrokerInMemory) -> list[tuple[int, int, bool]]:
    """Offset, type and whether there is a value, of each record of the topic."""
    log = broker.cluster.partition(SHARE_GROUP_STATE_TOPIC, 0).log
    data = log.read(log.log_start_offset, 1 << 20, isolation=None)
    return [
        (record.offset, record.key[1], record.value is not None)
        for batch in split_batches(data)
        for record in decode_records(batch)
        if record.key is not None
    ]


def test_missing_topic_means_not_coordinator() -> None:
    broker = broker_with({"orders": 1})
    with pytest.raises(NotCoordinator):
        persister_of(broker).read_summary(GROUP, [(topic_id(broker), 0)])


def test_state_survives_a_crash() -> None:
    broker = broker_with({"orders": 1})
    key = begin(broker, start_offset=NO_OFFSET)
    assert persister_of(broker).read_summary(GROUP, [(key.topic_id, 0)]) == [StateSummary(state_epoch=1)]
    acknowledge(broker, key, 4, 9)
    known = persister_of(broker).read(key, 0)

    again = broker.restart(clean=False)

    assert persister_of(again).read(key, -1) == known
    assert known.batches == (StateBatch(4, 9, 2, 1),)
    assert persister_of(again).read_summary(GROUP, [(key.topic_id, 0)]) == [StateSummary(1, 0, 4, 6)]


def test_each_partition_has_its_own_error() -> None:
    broker = broker_with({"orders": 1})
    initial = [InitialState(topic_id(broker), index, 1, 0) for index in (0, 1, -1)]
    errors = persister_of(broker).initialize(GROUP, [*initial, InitialState(uuid4(), 0, 1, 0)])

    assert [type(each) for each in errors] == [type(None), UnknownTopicOrPartition, InvalidRequest, UnknownTopicOrPartition]


def test_old_epochs_are_fenced() -> None:
    broker = broker_with({"orders": 1})
    persister = persister_of(broker)
    key = begin(broker, state_epoch=5)
    persister.read(key, 3)

    assert [type(each) for each in persister.initialize(GROUP, [InitialState(key.topic_id, 0, 4, 0)])] == [FencedStateEpoch]
    with pytest.raises(FencedStateEpoch):
        persister.write(key, StateUpdate(4, 3, 0, 0, []))
    with pytest.raises(FencedLeaderEpoch):
        persister.write(key, StateUpdate(5, 2, 0, 0, []))
    with pytest.raises(FencedLeaderEpoch):
        persister.read(key, 2)


def test_uninitialized_state_cannot_be_read_or_written() -> None:
    broker = broker_with({"orders": 2})
    begin(broker)
    key = StateKey(GROUP, topic_id(broker), 1)
    with pytest.raises(InvalidRequest):
        persister_of(broker).read(key, 0)
    with pytest.raises(InvalidRequest):
        persister_of(broker).write(key, StateUpdate(1, 0, 0, 0, []))


def test_snapshot_follows_a_number_of_updates() -> None:
    broker = broker_with({"orders": 1})
    key = begin(broker)
    for offset in range(5):
        acknowledge(broker, key, offset, offset)

    assert [type_id for _, type_id, _ in state_log(broker)] == [0, 1, 1, 1, 0, 1]
    assert persister_of(broker).read(key, 0).snapshot_epoch == 1


def test_superseded_updates_are_pruned() -> None:
    broker = broker_with({"orders": 1})
    key = begin(broker)
    for offset in range(5):
        acknowledge(broker, key, offset, offset)
    known = persister_of(broker).read(key, 0)

    broker.clock.advance(300_000)

    assert [type_id for _, type_id, _ in state_log(broker)] == [0, 1, 0]  # the last one by the other timer: it was cold
    assert persister_of(broker.restart()).read(key, 0).batches == known.batches


def test_cold_states_do_not_block_pruning() -> None:
    broker = broker_with({"orders": 1})
    begin(broker)
    broker.clock.advance(300_000)
    assert [offset for offset, _, _ in state_log(broker)] == [0, 1]
    broker.clock.advance(300_000)
    assert [offset for offset, _, _ in state_log(broker)] == [1]  # and it was not said a third time


def test_deleted_state_is_unknown() -> None:
    broker = broker_with({"orders": 1})
    key = begin(broker)
    heard: list[StateKey] = []
    persister_of(broker).on_changed.append(heard.append)

    assert persister_of(broker).delete(GROUP, [(key.topic_id, 0), (key.topic_id, 0)]) == [None, None]

    assert heard == [key]
    again = broker.restart()
    assert persister_of(again).read_summary(GROUP, [(key.topic_id, 0)]) == [StateSummary()]
    assert state_log(again)[-1] == (1, 0, False)


def test_states_are_deleted_with_their_topic() -> None:
    broker = broker_with({"orders": 1, "others": 1})
    begin(broker)
    broker.cluster.delete_topic("orders")
    assert state_log(broker)[-1] == (1, 0, False)


def test_states_of_a_deleted_topic_are_removed_on_load() -> None:
    broker = broker_with({"orders": 1, "others": 1})
    begin(broker)
    again = broker.restart()
    again.cluster.delete_topic("orders")
    assert len(state_log(again)) == 1

    persister_of(again).read_summary(GROUP, [(topic_id(again, "others"), 0)])

    assert state_log(again)[-1] == (1, 0, False)


def test_pruning_is_safe_after_a_power_loss(tmp_path: Path) -> None:
    disk = LosingFiles(tmp_path / "data")
    broker = BrokerInMemory(topics={"orders": 1}, config=PROPERTIES, folder=tmp_path / "data", files=disk)
    key = begin(broker)
    log = broker.cluster.partition(SHARE_GROUP_STATE_TOPIC, 0).log
    log.flusher.flush()
    for offset in range(5):
        acknowledge(broker, key, offset, offset)
    broker.clock.advance(300_000)
    assert log.log_start_offset > 0
    broker.clock.advance(120_000)  # what begins where is checkpointed
    disk.lose_power(tmp_path / "later", Random(1), Loss.STRICT)
    again = BrokerInMemory(config=PROPERTIES, folder=tmp_path / "later")
    assert persister_of(again).read(key, -1).start_offset == 4
