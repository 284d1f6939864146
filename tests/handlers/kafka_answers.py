"""Plays a scenario against a broker in memory, as tests/golden/captures/admin.py played it against Apache Kafka."""

from __future__ import annotations

from typing import Any

from tests.golden.admin_answers import expected, plain
from tests.golden.admin_scenarios import SCENARIOS
from tests.support.broker_in_memory import BrokerInMemory


def broker_of_scenario() -> BrokerInMemory:
    """What each scenario begins with; the stored min.insync.replicas is what Kafka's formatting leaves."""
    broker = BrokerInMemory()
    broker.cluster.configs.alter_broker("", {"min.insync.replicas": "1"})
    broker.cluster.create_topic("one", partition_count=1, configs={"retention.ms": "5000"})
    broker.cluster.create_topic("two", partition_count=2)
    return broker


def differences(stem: str) -> list[tuple[int, Any, Any]]:
    """(step, our answer, Kafka's) wherever they are not equal."""
    broker = broker_of_scenario()
    ours = [plain(broker.ask(request)) for request in SCENARIOS[stem]]
    kafkas = expected(stem)
    assert len(ours) == len(kafkas)
    return [(step, mine, theirs) for step, (mine, theirs) in enumerate(zip(ours, kafkas, strict=True)) if mine != theirs]
