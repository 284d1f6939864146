"""Groups with minibroker.like.kafka: what an Apache Kafka 4.3.1 answered to the same heartbeats, whose times are its own."""

from __future__ import annotations

from typing import Any

from minibroker.config.broker_properties import LIKE_KAFKA
from minibroker.coordinator.group.share.group import INITIALIZATION_MS
from minibroker.coordinator.group.streams.service import CREATION_MS
from minibroker.schemas import k88_streams_group_heartbeat as k88
from tests.golden.share_scenario import A
from tests.golden.share_scenario import beat as share_beat
from tests.golden.streams_scenes import COUNTING
from tests.support.consumer_members import beat, broker_with_consumers, join, told
from tests.support.share_groups import share_broker
from tests.support.share_groups import told as share_told

SWITCHED = {LIKE_KAFKA: "true"}
MISSING_INTERNAL_TOPICS = 3


def test_second_member_waits_for_the_assignment_interval() -> None:
    broker = broker_with_consumers(config=SWITCHED)
    first = join(broker, "a")
    assert (told(broker, first), first.heartbeat_interval_ms) == ((2, {"t": [0, 1, 2, 3]}), 5_000)
    assert told(broker, join(broker, "b")) == (2, {})
    broker.clock.advance(999)
    assert told(broker, beat(broker, "a", 2)) == (2, None)
    broker.clock.advance(1)
    assert told(broker, beat(broker, "a", 2)) == (2, {"t": [0, 1]})
    assert told(broker, beat(broker, "b", 2)) == (3, None)


def test_regex_is_resolved_after_its_first_request() -> None:
    broker = broker_with_consumers(config=SWITCHED)
    fields = {"subscribed_topic_names": [], "subscribed_topic_regex": "t.*"}
    assert told(broker, join(broker, "a", **fields)) == (1, {})
    broker.clock.advance(0)
    assert told(broker, beat(broker, "a", 1)) == (2, {"t": [0, 1, 2, 3]})
    assert told(broker, join(broker, "b", **fields)) == (2, {})  # it is known, and the assignment is younger than its interval


def test_known_regex_is_resolved_every_ten_seconds() -> None:
    broker = broker_with_consumers(config=SWITCHED)
    join(broker, "a", subscribed_topic_names=[], subscribed_topic_regex="t.*")
    broker.clock.advance(0)
    assert told(broker, beat(broker, "a", 1)) == (2, {"t": [0, 1, 2, 3]})
    broker.cluster.create_topic("t2", partition_count=1)
    broker.clock.advance(9_999)
    assert told(broker, beat(broker, "a", 2)) == (2, None)
    broker.clock.advance(1)
    told_now = [told(broker, beat(broker, "a", 2))]
    broker.clock.advance(0)
    told_now.append(told(broker, beat(broker, "a", 2)))
    assert told_now == [(2, None), (3, {"t": [0, 1, 2, 3], "t2": [0]})]


def test_new_group_does_not_reuse_the_regex_result_of_another() -> None:
    broker = broker_with_consumers(config=SWITCHED)
    fields = {"subscribed_topic_names": [], "subscribed_topic_regex": "t.*"}
    join(broker, "a", group="earlier", **fields)
    broker.clock.advance(0)
    assert told(broker, beat(broker, "a", 1, group="earlier")) == (2, {"t": [0, 1, 2, 3]})
    broker.cluster.delete_topic("t")
    broker.cluster.create_topic("t2", partition_count=1)
    assert told(broker, join(broker, "b", **fields)) == (1, {})
    broker.clock.advance(0)
    assert told(broker, beat(broker, "b", 1)) == (2, {"t2": [0]})


def test_first_share_group_member_gets_partitions_later() -> None:
    broker = share_broker(config=SWITCHED)
    broker.clock.advance(CREATION_MS)  # __consumer_offsets is there
    assert share_told(broker.ask(share_beat(A, 0, "t"))) == (0, 2, [])
    assert share_told(broker.ask(share_beat(A, 2))) == (0, 2, None)
    broker.clock.advance(INITIALIZATION_MS)
    assert share_told(broker.ask(share_beat(A, 2))) == (0, 3, [0, 1, 2, 3])


def test_internal_topics_of_a_streams_group_are_created_later() -> None:
    own = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}
    broker = broker_with_consumers(config=SWITCHED | own)

    def heartbeat(epoch: int, **said: Any) -> k88.Response:
        request = k88.Request(group_id="app", member_id="a", member_epoch=epoch, endpoint_information_epoch=-1, **said)
        answer: k88.Response = broker.ask(request)
        return answer

    none: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    answer = heartbeat(0, rebalance_timeout_ms=60_000, topology=COUNTING, process_id="a", **none)
    assert (answer.active_tasks, [each.status_code for each in answer.status or ()]) == ([], [MISSING_INTERNAL_TOPICS])
    assert "counts" not in broker.cluster.topics
    broker.clock.advance(CREATION_MS)
    assert "counts" in broker.cluster.topics
    answer = heartbeat(answer.member_epoch)
    assert [each.partitions for each in answer.active_tasks or ()] == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert not answer.status
