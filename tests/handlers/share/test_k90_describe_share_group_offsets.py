"""DescribeShareGroupOffsets: start offsets and lag, over restarts and deleted topics."""

from __future__ import annotations

from tests.golden.share_scenario import A, alter, beat, offsets
from tests.support.broker_in_memory import records
from tests.support.share_groups import known, share_broker, told


def test_offsets_and_lag_survive_a_restart() -> None:
    broker = share_broker()
    broker.append("t", 0, records(10))
    broker.ask(alter("s", {"t": {0: 4}}))
    assert known(broker) == {("t", 0): (4, 6)}
    broker = broker.restart(clean=False)
    assert known(broker) == {("t", 0): (4, 6)}
    assert told(broker.ask(beat(A, 0, "t"))) == (0, 2, [0, 1, 2, 3])
    assert known(broker)["t", 0] == (4, 6)
    answer = broker.ask(offsets("s", {"t": [0]}), 0).groups[0].topics[0].partitions[0]
    assert (answer.start_offset, answer.lag) == (4, -1)


def test_deleted_topic_is_forgotten() -> None:
    broker = share_broker()
    broker.ask(alter("s", {"t": {0: 4}, "u": {0: 1}}))
    broker.cluster.delete_topic("t")
    assert known(broker) == {("u", 0): (1, -1)}
    broker.cluster.create_topic("t", partition_count=1)
    assert known(broker) == {("u", 0): (1, -1)}
    group = broker.services.coordinators.groups.share.describe("s")
    broker.clock.advance(0)
    assert group.image.state_partitions.topic_ids == {broker.cluster.topic("u").topic_id}
    broker.ask(alter("s", {"t": {0: 4}}))
    broker.cluster.delete_topic("t")  # and the broker dies in the same turn
    assert len(group.image.state_partitions.topic_ids) == 2
    broker = broker.restart(clean=False)
    group = broker.services.coordinators.groups.share.describe("s")
    assert group.image.state_partitions.topic_ids == {broker.cluster.topic("u").topic_id}
