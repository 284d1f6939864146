"""Partitions as the Java client chooses them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as theirs

from minibroker.client.producer import Partitioner, murmur2
from tests.support.soak import examples

# org.apache.kafka.common.utils.UtilsTest of Kafka 4.3.1, signed there.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hashed"), JAVA.items())
def test_hashes_as_java(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@examples(200)
@given(st.binary(max_size=40))
def test_hashes_as_another_client(key: bytes) -> None:
    assert murmur2(key) == theirs(key) & 0xFFFFFFFF


def test_key_selects_the_partition_by_its_hash() -> None:
    partitioner = Partitioner(7, 1000)
    assert {partitioner.partition_of(b"foobar", 10) for _ in range(20)} == {(-790332482 & 0x7FFFFFFF) % 7}


def test_an_empty_key_is_a_key() -> None:
    partitioner = Partitioner(7, 1)
    assert {partitioner.partition_of(b"", 10) for _ in range(50)} == {(murmur2(b"") & 0x7FFFFFFF) % 7}


def test_records_without_a_key_stay_together_for_a_batch_and_then_move() -> None:
    partitioner = Partitioner(50, 100)
    batches = [{partitioner.partition_of(None, 10) for _ in range(10)} for _ in range(40)]
    assert all(len(batch) == 1 for batch in batches)
    assert len(set.union(*batches)) > 5
