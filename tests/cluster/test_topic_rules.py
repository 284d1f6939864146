"""Names and counts of topics: whatever passes is safe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.cluster import topic_rules as rules
from minibroker.errors import InvalidPartitions, InvalidReplicationFactor, InvalidTopicException, KafkaError, PolicyViolation
from minibroker.storage.log_file_names import parse_folder_name

NAMES = st.text(st.sampled_from("ab1.-_/ \\\x00é*"), max_size=12) | st.text(max_size=300)


@given(NAMES, st.integers(0, 10_000))
def test_a_name_that_passes_is_one_folder_that_reads_back(name: str, index: int) -> None:
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
def test_names_collide_exactly_when_metrics_cannot_tell_them_apart(existing: list[str], name: str) -> None:
    collides = name.replace(".", "_") in {other.replace(".", "_") for other in existing}
    try:
        rules.check_collision(name, existing)
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
