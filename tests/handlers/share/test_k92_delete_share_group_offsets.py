"""DeleteShareGroupOffsets, and the end of a group: nothing is left of them, also after a restart."""

from __future__ import annotations

from minibroker.coordinator.share_state.records import StateSummary
from tests.golden.share_scenario import A, alter, beat, delete, forget, listed, offsets
from tests.support.broker_in_memory import records
from tests.support.share_groups import known, share_broker, told


def test_deleted_group_leaves_no_state() -> None:
    broker = share_broker()
    broker.append("t", 0, records(10))
    broker.ask(alter("s", {"t": {0: 4}}))
    assert [(each.group_id, each.error_code) for each in broker.ask(delete("s")).results] == [("s", 0)]
    for _ in range(2):
        assert broker.ask(listed()).groups == []
        assert broker.ask(offsets("s", {"t": [0]})).groups[0].topics[0].partitions[0].start_offset == -1
        broker = broker.restart(clean=False)


def test_group_can_be_deleted_after_its_state_topic() -> None:
    broker = share_broker()
    broker.ask(alter("s", {"t": {0: 4}}))
    broker.cluster.delete_topic("__share_group_state")
    assert [each.error_code for each in broker.ask(delete("s")).results] == [0]
    assert broker.ask(listed()).groups == []


def test_deleted_states_are_recreated_after_a_restart() -> None:
    broker = share_broker()
    broker.ask(alter("s", {"t": {0: 4}}))
    broker.cluster.delete_topic("__share_group_state")
    broker = broker.restart(clean=False)
    assert told(broker.ask(beat(A, 0, "t"))) == (0, 2, [0, 1, 2, 3])
    states = broker.services.coordinators.share_persister
    found = states.read_summary("s", [(broker.cluster.topic("t").topic_id, index) for index in range(4)])
    assert [each.state_epoch for each in found if isinstance(each, StateSummary)] == [2, 2, 2, 2]


def test_unused_share_group_does_not_expire() -> None:
    broker = share_broker(config={"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"})
    broker.ask(alter("s", {"t": {0: 4}}))
    broker.clock.advance(600_000)
    assert known(broker) == {("t", 0): (4, -4)}


def test_topic_with_deleted_offsets_starts_from_scratch() -> None:
    broker = share_broker()
    broker.append("t", 0, records(10))
    broker.ask(alter("s", {"t": {0: 4}, "u": {0: 1}}))
    assert [(each.topic_name, each.error_code) for each in broker.ask(forget("s", "t", "t")).responses] == [("t", 0)]
    for _ in range(2):
        assert known(broker) == {("u", 0): (1, -1)}
        broker = broker.restart(clean=False)
    assert told(broker.ask(beat(A, 0, "t"))) == (0, 2, [0, 1, 2, 3])
    assert known(broker)["t", 0] == (-1, -1)
