"""How the files of tests are given to pytest-xdist's workers: what takes long to start is started once, by one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scheduling import LONG, TESTS, TogetherOrByFile, rank, shared_by


@pytest.mark.parametrize(("folder", "fixture"), [("spark", "spark"), ("cli", "cluster")])
def test_no_file_shares_unseen(folder: str, fixture: str, request: pytest.FixtureRequest) -> None:
    """Of the tests that were collected: those of the whole suite, in CI."""
    users = {item.path for item in request.session.items if fixture in getattr(item, "fixturenames", ())}
    unseen = {path for path in users if path.is_relative_to(TESTS / folder) and shared_by(path) != folder}
    assert unseen == set(), f"name a fixture in one of its tests as tests/support/scheduling.py looks for it: {folder}"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("tests/spark/test_batch.py", "spark"),
        ("tests/spark/kafka_log/test_connector.py", "spark"),
        ("tests/spark/kafka_log/test_planner.py", None),  # has no use for a session
        ("tests/spark/test_standalone_cluster.py", None),  # has one of its own
        ("tests/demo/test_demo.py", None),  # likewise
        ("tests/cli/test_topics.py", "cli"),
        ("tests/cli/test_records.py", None),
    ],
)
def test_grouping_of_tests(file: str, expected: str | None) -> None:
    scheduler = TogetherOrByFile.__new__(TogetherOrByFile)
    assert scheduler._split_scope(f"{file}::Class::test_name[a::b]") == (expected or file)


def test_spark_tests_run_first_and_short_ones_last() -> None:
    paths: list[Path] = sorted(sorted(TESTS.rglob("test_*.py")), key=rank)
    is_of_spark = [shared_by(path) == "spark" for path in paths]
    assert is_of_spark == sorted(is_of_spark, reverse=True)
    assert rank(TESTS / "crash" / "test_sigkill.py") < rank(TESTS / "cli" / "test_main.py") < rank(Path(__file__))


def test_prioritized_paths_exist() -> None:
    """But for folders that are still to come, a name that leads nowhere is one that was not changed with its file."""
    assert [name for name in LONG if name.endswith(".py") and not (TESTS / name).exists()] == []
    assert (
        rank(TESTS / "spark" / "archive" / "test_delta.py")
        < rank(TESTS / "crash" / "test_archive.py")
        < rank(TESTS / "spark" / "test_session.py")
    )
