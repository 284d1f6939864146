"""Capture the answers of an Apache Kafka to the scenario of share groups.

Writes share_groups_kafka_4.3.1.json: provenance, and the steps with their answers.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k10_find_coordinator as k10
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k76_share_group_heartbeat as k76
from tests.golden.captures.admin import ask
from tests.golden.share_scenario import MAX_SIZE, TOPICS, beat, scenario
from tests.support.kafka_process import KafkaProcess

FILE = Path(__file__).parents[1] / "share_groups_kafka_4.3.1.json"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.max.size": str(MAX_SIZE),
    "group.share.assignment.interval.ms": "0",
}
PATIENCE = 100


def prepare(port: int) -> None:
    """The topics, and a coordinator for groups and for states."""
    topics = [
        k19.Topic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[]) for name, count in TOPICS.items()
    ]
    ask(port, k19.Request(topics=topics, timeout_ms=10_000, validate_only=False))
    for key_type, key in ((0, "s"), (2, "s:AAAAAAAAAAAAAAAAAAAAAQ:0")):
        for _ in range(PATIENCE):
            if ask(port, k10.Request(coordinator_keys=[key], key_type=key_type)).coordinators[0].error_code == 0:
                break
            time.sleep(0.2)
    for _ in range(PATIENCE):
        if ask(port, beat("x", -1)).error_code != 16 and not any(t.error_code for t in ask(port, k03.Request(topics=None)).topics):
            return
        time.sleep(0.2)


def settle(port: int, member_id: str, partition_count: int) -> k76.Response:
    answer = None
    for _ in range(PATIENCE):
        answer = ask(port, beat(member_id, 0, "t"))
        if answer.assignment is not None and sum(len(each.partitions) for each in answer.assignment.topic_partitions) == partition_count:
            return answer  # type: ignore[no-any-return]  # of the codec
        time.sleep(0.3)
    raise AssertionError(answer)


def capture() -> None:
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), settings=SETTINGS) as kafka:
        prepare(kafka.port)

        def slowly(request: Any) -> Any:
            time.sleep(0.2)
            return ask(kafka.port, request)

        result = scenario(slowly, lambda member_id, count: settle(kafka.port, member_id, count))
    provenance = "Apache Kafka 4.3.1, one KRaft node; asked by python -m tests.golden capture share_groups"
    FILE.write_text(json.dumps({"broker": provenance, "settings": SETTINGS, "steps": result}, indent=1) + "\n")
