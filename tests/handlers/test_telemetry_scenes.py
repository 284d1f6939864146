"""The scenes of tests/golden/telemetry_scenes.py: minibroker answers as the Apache Kafka that was captured."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from minibroker.dispatch.context import ConnectionInfo
from tests.golden import telemetry_scenes
from tests.golden.telemetry_scenes import ANSWERS, MAX_BYTES, Notes, Scenes
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.telemetry import connection


def played(play: Callable[[Scenes], Notes]) -> list[Any]:
    broker = BrokerInMemory(config={"minibroker.telemetry.interval.ms": "0", "telemetry.max.bytes": str(MAX_BYTES)})
    connections: dict[str, ConnectionInfo] = {}

    def ask(client: str, request: Any) -> Any:
        broker.connection = connections.setdefault(client, connection())
        broker.clock.advance(1)
        return broker.ask(request, client_id=client)

    def reconnect(client: str) -> None:
        connections.pop(client).closed()

    notes: list[Any] = json.loads(json.dumps(play(Scenes(ask, reconnect, broker.clock.advance))))
    return notes


def expected(title: str) -> list[Any]:
    notes: list[Any] = json.loads(ANSWERS.read_text())[title]
    return notes


def test_clients_get_what_kafka_answers() -> None:
    ours, kafkas = played(telemetry_scenes.play), expected("with a receiver")
    assert [(number, *pair) for number, pair in enumerate(zip(ours, kafkas, strict=True)) if pair[0] != pair[1]] == []


def test_patterns_that_only_java_has_match_no_client() -> None:
    ours, kafkas = played(telemetry_scenes.play_java_patterns), expected("patterns of Java")
    assert [note[-1] for note in kafkas] == [["x."], [], ["x."], [], ["x."], []]
    assert [note[-1] for note in ours] == [[]] * 6
