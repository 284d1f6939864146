"""InitializeShareGroupState: golden frames; its effects are in the scene `states` of tests/golden/share_scenes.py."""

from __future__ import annotations

import pytest

from minibroker.schemas import k83_initialize_share_group_state as k83
from tests.golden import Golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.share_states import answers_as_kafka, broker_for, requests_of


@pytest.mark.parametrize("request_frame", requests_of("k83_initialize_share_group_state"))
def test_answers_match_kafka(request_frame: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers_as_kafka(broker_for(request_frame, monkeypatch, is_initialized=False), request_frame)


def test_empty_request_gets_an_empty_answer() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    topic = k83.Topic(topic_id=broker.cluster.topics["orders"].topic_id, partitions=[])
    partition = k83.Partition(partition=0, state_epoch=1, start_offset=0)
    full = k83.Topic(topic_id=topic.topic_id, partitions=[partition])
    assert broker.ask(k83.Request(group_id="", topics=[full])).results == []
    assert broker.ask(k83.Request(group_id="g", topics=[])).results == []
    assert broker.ask(k83.Request(group_id="g", topics=[full, topic])).results == []


def test_initialization_is_answered_after_the_sync() -> None:
    broker = BrokerInMemory(topics={"orders": 1}, config={"log.flush.interval.messages": "1"})
    topic = k83.Topic(
        topic_id=broker.cluster.topics["orders"].topic_id, partitions=[k83.Partition(partition=0, state_epoch=1, start_offset=0)]
    )
    pending = broker.begin(k83.Request(group_id="g", topics=[topic]))
    assert not pending.is_done
    broker.clock.advance(0)
    assert pending.answer().results[0].partitions[0].error_code == 0
