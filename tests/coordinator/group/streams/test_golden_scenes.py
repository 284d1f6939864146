"""Scenes of streams groups (tests/golden/streams_scenes.py): minibroker says what Apache Kafka 4.3.1 said.

But for one thing: a member that says it owns something else than it was given is told its tasks again here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.golden.streams_scenes import GOLDEN, PARTITION_COUNTS, SCENES, SETTINGS, Scene, play
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.committed_offsets import groups_of

KAFKA_SAID = json.loads(GOLDEN.read_text())["scenes"]


class InMemory:
    """A broker in memory, as an Exchange."""

    def __init__(self) -> None:
        self._broker = BrokerInMemory(topics=PARTITION_COUNTS, config=SETTINGS)
        groups_of(self._broker)

    def send(self, sender: str, schema: Any, request: Any, version: int) -> Pending:
        return self._broker.begin(request, version)

    def let_pass(self, milliseconds: int) -> None:
        self._broker.clock.advance(milliseconds)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_answers_match_kafka(scene: Callable[[Scene], None]) -> None:
    ours, theirs = play(scene, InMemory()), KAFKA_SAID[scene.__name__]
    assert [kafka if is_told_again(kafka, line) else line for kafka, line in zip(theirs, ours, strict=True)] == theirs


def is_told_again(kafka: str, ours: str) -> bool:
    """Whether a member sent its tasks, and our answer has tasks where that of Kafka has none."""
    before, nothing, after = kafka.partition(") - - - ")
    says_what_it_owns = "+" in before.partition(" (")[0]
    return bool(nothing) and says_what_it_owns and ours.startswith(f"{before}) ") and ours.endswith(f" {after}")
