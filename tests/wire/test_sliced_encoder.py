"""Arrays that are encoded in slices give the bytes of the whole message."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.schemas import k03_metadata as k03
from minibroker.schemas import k16_list_groups as k16
from minibroker.schemas import k35_describe_log_dirs as k35
from minibroker.wire.codec import EncodedArray, encode, encode_chunks
from minibroker.wire.sliced_encoder import LONG, STEP, encode_arrays, is_long


def groups(count: int) -> k16.Response:
    return k16.Response(
        error_code=0,
        groups=[
            k16.Group(group_id=f"g{number}", protocol_type="consumer", group_state="Empty", group_type="classic") for number in range(count)
        ],
    )


def metadata(*partition_counts: int) -> k03.Response:
    topics = [
        k03.TopicResult(
            error_code=0,
            name=f"topic-{count}",
            partitions=[
                k03.PartitionResult(
                    error_code=0,
                    partition_index=index,
                    leader_id=1,
                    leader_epoch=3,
                    replica_nodes=[1, 2],
                    isr_nodes=[1],
                    offline_replicas=[],
                )
                for index in range(count)
            ],
        )
        for count in partition_counts
    ]
    return k03.Response(brokers=[k03.Broker(node_id=1, host="h", port=9)], cluster_id="c", controller_id=1, topics=topics)


def log_dirs(*partition_counts: int) -> k35.Response:
    topics = [
        k35.TopicResult(
            name=f"topic-{count}",
            partitions=[
                k35.PartitionResult(partition_index=index, partition_size=index, offset_lag=0, is_future_key=False)
                for index in range(count)
            ],
        )
        for count in partition_counts
    ]
    return k35.Response(results=[k35.LogDirResult(error_code=0, log_dir=each, topics=topics) for each in ("/a",)])


@pytest.mark.parametrize(("version", "flexible"), [(1, False), (4, True)])
@pytest.mark.parametrize(
    "response",
    [groups(0), groups(1), groups(STEP), groups(5 * STEP + 3), metadata(1, 0, 3 * STEP, 1), log_dirs(0, 4 * STEP, 1, STEP, 7)],
    ids=["none", "one", "a_step", "many", "a_long_topic", "three_levels"],
)
def test_sliced_encoding_equals_whole_encoding(response: Any, version: int, flexible: bool) -> None:
    if type(response) is k03.Response:
        version = 13 if flexible else 7
    whole = encode(response, version, flexible=flexible)
    for _ in encode_arrays(response, version, flexible=flexible):
        pass
    assert b"".join(encode_chunks(response, version, flexible=flexible)) == whole


@pytest.mark.parametrize(
    "response", [groups(10 * STEP), metadata(10 * STEP), log_dirs(*[1] * 5 * STEP)], ids=["flat", "nested", "small_arrays"]
)
def test_encoder_pauses_after_each_step(response: Any) -> None:
    version = 13 if type(response) is k03.Response else 5
    assert sum(1 for _ in encode_arrays(response, version, flexible=True)) >= 10


def test_already_encoded_array_is_kept() -> None:
    response = groups(0)
    before = EncodedArray(2, [b"xy"])
    response.groups = before  # type: ignore[misc,assignment]
    assert list(encode_arrays(response, 5, flexible=True)) == []
    assert response.groups is before  # type: ignore[comparison-overlap]


def test_elements_are_freed_as_they_are_encoded() -> None:
    response = groups(3 * STEP)
    elements = response.groups
    next(encode_arrays(response, 5, flexible=True))
    assert [each is None for each in elements] == [True] * STEP + [False] * 2 * STEP


def test_is_long_counts_structs_of_all_levels() -> None:
    assert not is_long(groups(LONG), 5)
    assert is_long(groups(LONG + 1), 5)
    assert not is_long(metadata(LONG // 2 - 2, LONG // 2 - 2), 13)
    assert is_long(metadata(LONG // 2, LONG // 2 + 1), 13)
