"""How the files of tests are shared among pytest-xdist's workers: all that use the one Spark session go to one of them, first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scheduling import SPARK, TESTS, OneForSpark, rank, shares_spark


def test_no_file_shares_the_session_unseen(request: pytest.FixtureRequest) -> None:
    """Of the tests that were collected: those of the whole suite, in CI."""
    users = {item.path for item in request.session.items if "spark" in getattr(item, "fixturenames", ())}
    assert {path for path in users if not shares_spark(path)} == set(), "name the fixture `spark: Any` in one of its tests"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("tests/spark/test_batch.py", SPARK),
        ("tests/spark/kafka_log/test_connector.py", SPARK),
        ("tests/spark/kafka_log/test_planner.py", "tests/spark/kafka_log/test_planner.py"),  # has no use for a session
        ("tests/spark/test_standalone_cluster.py", "tests/spark/test_standalone_cluster.py"),  # has one of its own
        ("tests/demo/test_demo.py", "tests/demo/test_demo.py"),  # has one of its own
    ],
)
def test_who_goes_with_whom(file: str, expected: str) -> None:
    scheduler = OneForSpark.__new__(OneForSpark)
    assert scheduler._split_scope(f"{file}::Class::test_name[a::b]") == expected


def test_files_that_share_the_session_are_neighbours_and_first() -> None:
    paths: list[Path] = sorted(sorted(TESTS.rglob("test_*.py")), key=rank)
    shared = [shares_spark(path) for path in paths]
    assert shared == sorted(shared, reverse=True)
    assert rank(TESTS / "crash" / "test_sigkill.py") < rank(TESTS / "cli" / "test_main.py") < rank(Path(__file__))
