"""How records come to the task of their target partition, as far as it needs no Spark: keys, tasks, pace, names."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from minibroker.client import producer
from minibroker.spark.failures import ReplayError
from minibroker.spark.replay.begin import Beginning, check_sources
from minibroker.spark.replay.encode import narrow
from minibroker.spark.replay.frame import ScannedPartition, check_targets, hash_int, spread_numbers
from minibroker.spark.replay.ledger import Ledger, OffsetRun, Run, WrittenRanges, check_name, transactional_id
from minibroker.spark.replay.targets import KeyPartitioner, murmur2
from minibroker.spark.replay.task import Pace


def test_murmur2_of_many_keys_is_that_of_each() -> None:
    chance = random.Random(3)
    keys = [chance.randbytes(chance.randrange(20)) for _ in range(500)] + [chance.randbytes(1000)]
    array = pa.array(keys, pa.binary())
    assert murmur2(array).tolist() == [producer.murmur2(key) for key in keys]
    assert murmur2(array.slice(5, 30)).tolist() == [producer.murmur2(key) for key in keys[5:35]]
    assert murmur2(array.slice(0, 0)).tolist() == []
    assert murmur2(narrow(array.cast(pa.large_binary()))).tolist() == murmur2(array).tolist()


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_keys_meet_those_of_other_producers_and_the_rest_takes_turns(kind: pa.DataType) -> None:
    keys = [b"a", None, b"b", None, b""]
    topics = ["t", "t", "u", "u", "t"]
    batch = pa.RecordBatch.from_pydict(
        {"topic": topics, "partition": pa.nulls(5, pa.int32()), "offset": [0, 1, 2, 3, 4], "key": pa.array(keys, kind)},
    )
    (found,) = KeyPartitioner({"t": 6, "u": 2})([batch])
    counts = [6, 6, 2, 2, 6]
    expected = [
        offset % count if key is None else producer.Partitioner(count, 1).partition_of(key, 1)
        for offset, (key, count) in enumerate(zip(keys, counts, strict=True))
    ]
    assert found.column("partition").to_pylist() == expected
    assert found.schema.names == batch.schema.names


@pytest.mark.parametrize("tasks", [1, 2, 7, 200])
def test_each_number_goes_to_a_task_of_its_own(tasks: int) -> None:
    numbers = spread_numbers(tasks)
    assert len(set(numbers)) == tasks
    assert sorted(hash_int(number) % tasks for number in numbers) == list(range(tasks))


def test_pace() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(50, now_s=lambda: now[0], sleep=sleep)
    assert pace.burst_records == 50
    for _ in range(4):
        pace.wait(25)
    assert slept == [0.5, 0.5, 0.5]
    now[0] += 60  # a source that was slow is not made up for
    pace.wait(25)
    pace.wait(25)
    assert slept == [0.5, 0.5, 0.5, 0.5]
    assert Pace(0.5).burst_records == 1
    Pace(None, sleep=sleep).wait(10**9)
    assert len(slept) == 4


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 201, "ü"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(ReplayError, match="the replay's name must be"):
        check_name(name)


def test_transactional_ids_are_those_of_one_replay() -> None:
    """However its name, and the names of topics, are put together."""
    ids = {transactional_id(name, topic, 0) for name, topic in (("a", "b-c"), ("a-b", "c"), ("a", "b"), ("a-b-c", ""))}
    assert len(ids) == 4
    assert transactional_id("a", "b", 1).startswith(transactional_id("a"))
    assert not transactional_id("a-b", "c", 1).startswith(transactional_id("a"))


def scanned(source_topic: str, topic: str) -> ScannedPartition:
    return ScannedPartition(source_topic, topic, 0, records=5, old_first=0, old_last=4)


def test_a_target_has_one_source_in_all_runs() -> None:
    check_targets([scanned("a", "one"), scanned("b", "two")], {"one": "a"})
    with pytest.raises(ReplayError, match="records of b would go to one, where earlier runs of this replay put those of a"):
        check_targets([scanned("b", "one")], {"one": "a"})


def test_a_source_topic_that_was_created_anew() -> None:
    """Its offsets begin again: what is behind those of the old one must not be passed over."""
    ledger = Ledger()
    for number, sources in enumerate(({"a": "id-1", "b": "id-5"}, {}), 1):
        ledger.runs.append(Run(number, "run", 0, "/archive", resumable=True, selection={}, topics={}, sources=sources))
    transaction: Any = None
    beginning = Beginning("again", transaction, ledger)
    check_sources(beginning, {"a": "id-2"})  # nothing of it was replayed
    ledger.note(WrittenRanges(1, ("target", 0), ("a", 0), 5, 100, [OffsetRun(0, 0, 5)]))
    for same in ({"a": "id-1", "b": "id-6"}, {"a": ""}, {}):
        check_sources(beginning, same)
    with pytest.raises(ReplayError, match=r"a topic a that was deleted and recreated since \(it was id-1, the source has id-2\)"):
        check_sources(beginning, {"a": "id-2"})
