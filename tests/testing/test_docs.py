"""Each example of docs/testing.md and docs/start-tests.md runs unchanged; that of PySpark in tests/spark/test_broker_under_test.py."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp  # noqa: F401  before pytester, which makes this process forget the modules that its suites import
import pytest

pytest_plugins = "pytester"

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
TESTS = [example for example in EXAMPLES if "def test_" in example and "spark" not in example]
PROGRAMS = [example for example in EXAMPLES if "def test_" not in example and "@pytest.fixture" not in example]
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


def test_the_tests(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(**{f"test_example_{number}": text for number, text in enumerate(TESTS)})
    assert len(TESTS) == 6
    pytester.runpytest_inprocess().assert_outcomes(passed=len(TESTS))


def test_the_first_tests(pytester: pytest.Pytester) -> None:
    files = re.findall(r'```python title="(\w+)\.py"\n(.*?)```', (PAGE.parent / "start-tests.md").read_text(), re.DOTALL)
    assert [name for name, _ in files] == ["test_orders", "test_faults"]
    pytester.makeini(INI)
    pytester.makepyfile(**{f"{name}_of_the_page": text for name, text in files})  # other suites in this process have these names
    pytester.runpytest_inprocess().assert_outcomes(passed=2)


def test_the_conftest(pytester: pytest.Pytester) -> None:
    (conftest,) = [example for example in EXAMPLES if "@pytest.fixture" in example]
    pytester.makeini(INI)
    pytester.makeconftest(conftest)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("time", ["first", "second"])
        def test_what_every_test_finds(minibroker, time):
            assert minibroker.topics() == ["prices"]
            assert [(record.key, record.text) for record in minibroker.records("prices")] == [(b"apples", "1.20")]
            minibroker.produce("prices", "1.30", key="apples")
            minibroker.create_topic("orders")
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=2)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_programs(number: int) -> None:
    assert len(PROGRAMS) == 4
    exec(PROGRAMS[number], {})  # noqa: S102  that is what it is for


def test_the_recipe_of_the_security_page() -> None:
    section = (PAGE.parent / "security.md").read_text().partition("## In tests\n")[2]
    (recipe,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    exec(recipe, {})  # noqa: S102  as above


def test_tables_list_all_options_and_methods() -> None:
    from minibroker.testing import BrokerOptions, Surface, plugin

    page = PAGE.read_text()
    methods = re.findall(r"`(\w+)\(", page.partition("## Methods of the broker")[2].partition("## Fixtures")[0])
    assert set(methods) - {"print"} <= {name for name in dir(Surface) if not name.startswith("_")} | {"json"}
    table = page.partition("## Methods of the broker")[2].partition("Errors are one line")[0]
    assert {name for name in dir(Surface) if not name.startswith("_")} - set(re.findall(r"`([a-z_]+)", table)) == {"start", "stop", "close"}
    fixtures = re.findall(r"^\| `(minibroker\w*)` \|", page, re.MULTILINE)
    assert set(fixtures) == {name for name in vars(plugin) if name.startswith("minibroker")}
    arguments = re.findall(r"^\| `(\w+)` \|", page.partition("| argument |")[2], re.MULTILINE)
    assert [*arguments, "ports"] == list(BrokerOptions.__init__.__kwdefaults__ or {})  # those are for children
