"""Names of client certificates and mapping rules, compared with what Java and Kafka answer (tests/golden/captures/principals.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minibroker.errors import InvalidConfig
from minibroker.security.principals import MappingRules, NoPrincipal, name_of_der

ANSWERS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "principals_kafka_4.3.1.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("case", "der", "answer"), ANSWERS["names"], ids=lambda each: str(each)[:20])
def test_a_name_is_spelled_as_java_spells_it(case: str, der: str, answer: str) -> None:
    assert "ok " + name_of_der(bytes.fromhex(der)).replace("\n", "\\n").replace("\r", "\\r") == answer


@pytest.mark.parametrize(("rules", "name", "answer"), ANSWERS["rules"])
def test_rules_map_as_kafkas(rules: str, name: str, answer: str) -> None:
    if answer.startswith("ok "):
        assert MappingRules(rules).principal(name) == answer.removeprefix("ok ")
    elif "Invalid rule" in answer:
        with pytest.raises(InvalidConfig) as refused:
            MappingRules(rules)
        assert answer.partition(": ")[2] in str(refused.value)
    else:
        assert "NoMatchingRule" in answer
        with pytest.raises(NoPrincipal):
            MappingRules(rules).principal(name)


def test_a_pattern_that_re2_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="not a regular expression of RE2"):
        MappingRules("RULE:(?=x)x/y/", "listener.name.a.ssl.principal.mapping.rules")
