"""Each example of docs/faults.md runs as it stands there, and its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp  # noqa: F401  before pytester, which makes this process forget the modules that its suites import
import pytest

from minibroker.testing.faults.rule import LOGIN_PARAMETERS, PROBLEMS, FaultRule, rule_of
from minibroker.testing.lab.phrases import FaultPhrases, Phrase
from minibroker.testing.options import BrokerError

pytest_plugins = "pytester"

PAGE = (Path(__file__).parents[2] / "docs" / "faults.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TESTS = [example for example in EXAMPLES if "def test_" in example]
PROGRAMS = [example for example in EXAMPLES if "def test_" not in example]


def test_the_tests(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(**{f"test_example_{number}": text for number, text in enumerate(TESTS)})
    assert len(TESTS) == 5
    pytester.runpytest_inprocess().assert_outcomes(passed=len(TESTS))


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_programs(number: int) -> None:
    assert len(PROGRAMS) == 3
    exec(PROGRAMS[number], {})  # noqa: S102  that is what it is for


def test_tables_list_all_faults() -> None:
    happens = PAGE.partition("## What happens")[2].partition("`api` is")[0]
    logins = PAGE.partition("## Logins")[2].partition("The last call")[0]
    registry = PAGE.partition("## Schema registry")[2].partition("The scope")[0]
    found = [re.findall(r"^\| `(\w+)\(", each, re.MULTILINE) for each in (happens, logins, registry)]
    assert {*found[0], *found[1], *found[2], "storage"} == {name for name in vars(FaultPhrases) if not name.startswith("_")}
    assert set(found[1]) == set(LOGIN_PARAMETERS)
    assert all(f"`{problem}`" in logins for problem in PROBLEMS)
    scope = PAGE.partition("| argument |")[2].partition("The last call")[0]
    assert set(re.findall(r"`(topic|partition|client_id|group|transactional_id|node)`", scope)) <= set(FaultRule.__slots__)
    often = PAGE.partition("The last call")[2].partition("It returns")[0]
    assert set(re.findall(r"`\.(\w+)\(", often)) == {name for name in vars(Phrase) if not name.startswith("_")}


def test_the_words_of_a_refusal() -> None:
    with pytest.raises(BrokerError) as refused:
        rule_of({"kind": "error", "api": "Produce", "error": "NOT_LEADER"})
    assert f"`{refused.value}`" in PAGE
