"""Requests about delegation tokens of many users: minibroker answers as Apache Kafka 4.3.1 (tests/golden/token_scenes.py)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden import token_scenes
from tests.golden.token_scenes import ACLS, ANSWERS, Scenes
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.token_users import ask_as, broker_with_tokens

KAFKA = json.loads(ANSWERS.read_text())


def scenes_of(broker: BrokerInMemory) -> Scenes:
    return Scenes(lambda user, request, version: ask_as(broker, user, request, version), lambda *_: None, broker.clock.advance)


def as_json(notes: list[list[Any]]) -> Any:
    return json.loads(json.dumps(notes))


@pytest.mark.parametrize("title, key", [("with a key", token_scenes.SECRET), ("without a key", "")])
def test_answers_match_kafka_for_every_user(title: str, key: str) -> None:
    broker = broker_with_tokens({"delegation.token.secret.key": key}, ACLS)
    play = token_scenes.play if key else token_scenes.play_without_key
    assert as_json(play(scenes_of(broker))) == KAFKA[title]


def test_owners_are_users() -> None:
    """Apache Kafka issues these tokens, which then log in as the user of that name: `Group:alice` would become `User:alice`."""
    notes = as_json(token_scenes.play_odd_owners(scenes_of(broker_with_tokens(acls=ACLS))))
    codes = [(note[:6], note[6]) for note in notes]
    assert codes == [(note[:6], 67) for note in KAFKA["odd owners"]]
    assert {note[6] for note in KAFKA["odd owners"]} == {0}
