"""Brokers in memory with the state of share groups that golden requests ask for."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minibroker.coordinator.share_state.persister import Persister
from minibroker.coordinator.share_state.records import InitialState, StateBatch, StateKey, StateUpdate
from tests.golden import Golden, all_golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answers, kafka_like, serve, topic_ids

SETTINGS = {"share.coordinator.state.topic.num.partitions": "1"}


def requests_of(stem: str) -> list[Any]:
    """Golden requests of one of the APIs that brokers alone use."""
    found = sorted((name, each) for name, each in all_golden().items() if each.stem == stem and each.direction == "request")
    assert found
    return [pytest.param(each, id=name) for name, each in found]


def persister_of(broker: BrokerInMemory) -> Persister:
    return broker.services.coordinators.share_persister


def broker_for(request: Golden, monkeypatch: pytest.MonkeyPatch, *, is_initialized: bool, state_epoch: int = 1) -> BrokerInMemory:
    """With the topic that `request` speaks of, and its share partition, if it is to be known."""
    value = request.decode()
    topic_ids(monkeypatch, [value.topics[0].topic_id, UUID(int=1)])
    broker = kafka_like({"golden": 2}, SETTINGS)
    persister = persister_of(broker)
    persister.ensure_topic()
    if is_initialized:
        partition = value.topics[0].partitions[0].partition
        persister.initialize(value.group_id, [InitialState(value.topics[0].topic_id, partition, state_epoch, -1)])
    return broker


def write_as_franz_go_did(broker: BrokerInMemory, request: Golden) -> None:
    value = request.decode()
    key = StateKey(value.group_id, value.topics[0].topic_id, 0)
    persister_of(broker).write(key, StateUpdate(1, 0, 3, 4, [StateBatch(3, 6, 2, 1)]))


def answers_as_kafka(broker: BrokerInMemory, request: Golden) -> bool:
    """To the byte, to this request or to another of this client's at this version."""
    return serve(broker, request) in kafka_answers(request)
