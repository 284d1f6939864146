"""ShareGroupDescribe, and share groups as a whole: what Apache Kafka 4.3.1 answered to the same requests."""

from __future__ import annotations

import json

from minibroker.schemas import k57_update_features as k57
from minibroker.schemas import k76_share_group_heartbeat as k76
from tests.golden.captures.share_groups import FILE
from tests.golden.share_scenario import TOPICS, A, alter, beat, describe, forget, offsets, scenario
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.share_groups import CONFIG, share_broker

UNSUPPORTED = 35


def test_answers_match_kafka() -> None:
    broker = share_broker(config={"group.share.heartbeat.interval.ms": "5000"})

    def settle(member_id: str, partition_count: int) -> k76.Response:
        answer = broker.ask(beat(member_id, 0, "t"))
        assert sum(len(each.partitions) for each in answer.assignment.topic_partitions) == partition_count, answer
        return answer  # type: ignore[no-any-return]  # of the codec

    ours = json.loads(json.dumps(scenario(broker.ask, settle)))
    theirs = json.loads(FILE.read_text())["steps"]
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    for (name, answer), (_, expected) in zip(ours, theirs, strict=True):
        assert answer == expected, name


def test_without_a_coordinator() -> None:
    broker = BrokerInMemory(topics=TOPICS, config=CONFIG)
    assert broker.ask(beat(A, 0, "t")).error_code == 16
    assert broker.ask(describe("s")).groups[0].error_code == 16
    assert broker.ask(offsets("s")).groups[0].error_code == 16
    assert broker.ask(alter("s", {"t": {0: 4}})).error_code == 16
    assert broker.ask(forget("s", "t")).error_code == 16


def test_share_version_disabled() -> None:
    broker = share_broker()
    update = k57.FeatureUpdate(feature="share.version", max_version_level=0, upgrade_type=2)
    assert broker.ask(k57.Request(timeout_ms=1, feature_updates=[update], validate_only=False)).error_code == 0
    assert broker.ask(beat(A, 0, "t")).error_code == UNSUPPORTED
    assert broker.ask(describe("s", "x")).groups[1].error_code == UNSUPPORTED
    assert broker.ask(offsets("s")).groups[0].error_code == UNSUPPORTED
    assert broker.ask(alter("s", {"t": {0: 4}})).error_code == UNSUPPORTED
    assert broker.ask(forget("s", "t")).error_code == UNSUPPORTED
