"""Names and counts of topics: whatever passes is safe."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.cluster import topic_rules as rules
from minibroker.errors import InvalidPartitions, InvalidReplicationFactor, InvalidTopicException, KafkaError, PolicyViolation
from minibroker.storage.log_file_names import parse_folder_name
from tests.support.opcodes import least_opcodes

NAMES = st.text(st.sampled_from("ab1.-_/ \\\x00é*"), max_size=12) | st.text(max_size=300)


def _similar(existing: Iterable[str]) -> rules.SimilarNames:
    names = rules.SimilarNames()
    for name in existing:
        names.add(name)
    return names


def test_deleted_topic_does_not_collide() -> None:
    names = _similar(["a.b", "a_b", "a-b"])
    names.remove("a.b")
    with pytest.raises(InvalidTopicException, match="existing topic: a_b"):
        names.check_collision("a.b")
    names.remove("a_b")
    names.remove("a-b")
    names.check_collision("a.b")
    with pytest.raises(InvalidTopicException, match="existing topic: a_b"):
        names.check_collision("a.b", ["ab", "a_b"])


def test_collision_check_is_independent_of_the_number_of_topics() -> None:
    few, many = _similar(["a.b"]), _similar([f"topic.{number}" for number in range(1000)])
    assert least_opcodes(lambda: lambda: many.check_collision("a_c")) <= least_opcodes(lambda: lambda: few.check_collision("a_c"))


@given(NAMES, st.integers(0, 10_000))
def test_valid_name_is_a_valid_folder_name(name: str, index: int) -> None:
    try:
        rules.check_name(name)
    except InvalidTopicException:
        return
    folder = f"{name}-{index}"
    assert "/" not in folder
    assert "\x00" not in folder
    assert name not in {".", ".."}
    assert len(folder.encode()) <= 255
    assert parse_folder_name(folder) == (name, index)


@given(st.lists(st.text("ab._", min_size=1, max_size=4), min_size=1), st.text("ab._", min_size=1, max_size=4))
def test_collisions_match_metric_names(existing: list[str], name: str) -> None:
    collides = name.replace(".", "_") in {other.replace(".", "_") for other in existing}
    try:
        _similar(existing).check_collision(name)
        refused = False
    except InvalidTopicException:
        refused = True
    if set(name) & set("._"):
        assert refused == collides
    else:
        assert not refused


@pytest.mark.parametrize(
    ("check", "value", "error"),
    [
        (rules.check_partition_count, 0, InvalidPartitions),
        (rules.check_partition_count, 1, None),
        (rules.check_partition_count, 10_000, None),
        (rules.check_partition_count, 10_001, PolicyViolation),
        (rules.check_replication_factor, -1, None),
        (rules.check_replication_factor, 0, InvalidReplicationFactor),
        (rules.check_replication_factor, 1, None),
        (rules.check_replication_factor, 3, InvalidReplicationFactor),
    ],
)
def test_counts(check: object, value: int, error: type[KafkaError] | None) -> None:
    assert callable(check)
    if error is None:
        check(value)
    else:
        with pytest.raises(error):
            check(value)
