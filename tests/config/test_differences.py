"""The list of deliberate differences is complete: properties, rules of the differential tests, the page."""

from __future__ import annotations

import pytest

from minibroker.config.difference import AREAS, Difference
from minibroker.config.differences import BY_NAME, DIFFERENCES, EFFECTS, KAFKA_DEFAULTS, LIKE_KAFKA_DEFAULTS
from minibroker.wire.api import Api
from tests.config.differences_page import PAGE, page
from tests.differential import allowed as differential
from tests.differential.allowed import CHANCE
from tests.differential.tools import allowed as tools


def test_differences_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.config.differences_page"


def test_each_changed_property_belongs_to_a_difference() -> None:
    assert {name for each in DIFFERENCES for name in each.properties} == KAFKA_DEFAULTS.keys() | EFFECTS.keys()


def test_kafka_defaults_are_switched_with_their_difference() -> None:
    for each in DIFFERENCES:
        defaults = KAFKA_DEFAULTS.keys() & set(each.properties)
        assert defaults <= LIKE_KAFKA_DEFAULTS.keys() if each.is_switched else LIKE_KAFKA_DEFAULTS.keys().isdisjoint(defaults), each.name


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.name)
def test_each_difference_is_complete(difference: Difference) -> None:
    sentences = (difference.kafka, difference.here, difference.reason, difference.remains or "Off.")
    assert all(sentence.endswith(".") for sentence in sentences)
    assert difference.area in AREAS
    assert BY_NAME[difference.name] is difference
    assert difference.is_switched or not difference.apis


@pytest.mark.parametrize("rule", [*differential.RULES, *tools.RULES], ids=lambda rule: rule.reason[:40])
def test_each_rule_names_its_difference_or_chance(rule: differential.Rule | tools.Rule) -> None:
    assert rule.difference == CHANCE or rule.difference in BY_NAME


def test_api_names_match_kafka(apis: list[Api]) -> None:
    assert {name for each in DIFFERENCES for name in each.apis} <= {api.name for api in apis}


@pytest.fixture
def apis() -> list[Api]:
    from minibroker.dispatch.registry import load

    return load().apis()
