"""Every API and every kind of refusal: the same outcome as Apache Kafka's (python -m tests.golden capture authorization)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from uuid import UUID

import pytest

from minibroker.dispatch import registry
from minibroker.dispatch.authorization.enforcement import SPECIAL
from minibroker.wire.authorization import UNRESTRICTED, Special
from tests.support.authorized_requests import CASES, Case, Setting
from tests.support.authorized_twins import Minibroker, walk

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "authorization_kafka_4.3.1.json").read_text())

#: the handler decides, or no client is asked; their own tests cover them
ELSEWHERE = {17, 36, 38, 39, 40, 41}


#: Apache Kafka answers -1 where a topic is refused
FAILS_IN_KAFKA = "ShareFetch"
#: Apache Kafka shows ids of topics that it refuses
SHOWS_IDS = "AlterShareGroupOffsets"


@cache
def outcomes() -> dict[str, dict[str, list[str]]]:
    return walk(Minibroker())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_outcome_is_that_of_kafka(case: Case) -> None:
    ours, kafkas = (_by_set(each[case.name]) for each in (outcomes(), GOLDEN))
    if not same(case, ours, kafkas):
        assert ours == kafkas


def same(case: Case, ours: dict[str, str], kafkas: dict[str, str]) -> bool:
    """Compare outcomes by set, with the differences that are allowed."""
    if case.name.startswith(FAILS_IN_KAFKA):
        kafkas = {name: outcome for name, outcome in kafkas.items() if outcome != "error_code=-1"}
        ours = {name: outcome for name, outcome in ours.items() if name in kafkas}
    if case.name.startswith(SHOWS_IDS):
        ours, kafkas = ({name: _without_ids(outcome) for name, outcome in each.items()} for each in (ours, kafkas))
    return ours == kafkas


def _by_set(outcomes: dict[str, list[str]]) -> dict[str, str]:
    return {name: outcome for outcome, names in outcomes.items() for name in names}


def _without_ids(outcome: str) -> str:
    return " ".join(sorted(each for each in outcome.split() if "topic_id" not in each))


def test_every_api_is_covered() -> None:
    setting = Setting(dict.fromkeys(("seen", "secret", "seen-lost", "secret-lost"), UUID(int=5)), 0)
    requested = {int(type(case.request(setting)).__module__.rpartition(".")[2][1:3]) for case in CASES}
    served = {api.key for api in registry.load().apis() if api.authorizes != UNRESTRICTED}
    assert served - requested <= ELSEWHERE


def test_every_special_rule_has_its_function() -> None:
    special = {api.key for api in registry.load().apis() if any(isinstance(rule, Special) for rule in api.authorizes)}
    assert special - SPECIAL.keys() == set()
