"""StreamsGroupDescribe: for a group in the log of Apache Kafka 4.3.1 the answer is that of Apache Kafka, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch
from minibroker.schemas import k89_streams_group_describe as schema
from minibroker.schemas.internal.streams_group_records import StreamsGroupMetadataKey
from minibroker.storage.record_frame import CONSUMER_OFFSETS
from tests.golden import Golden, Provenance, golden
from tests.golden.captures.streams import LOGS
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.committed_offsets import TOPIC, broker_with_groups
from tests.support.golden_exchange import kafka_answer, serve

TOPICS = {"lines": 3, "word-count-words-repartition": 3, "word-count-counts-changelog": 3}
CLIENT = "k89_streams_group_describe_v0_request_java_4.3.1_streams"


def kafkas_log() -> Iterator[tuple[RecordBatch, list[Any]]]:
    """Its batches of streams groups, with their records."""
    for segment in json.loads(LOGS.read_text())["segments"].values():
        for batch in split_batches(bytes.fromhex(segment["segment"])):
            found = [] if batch.is_control else [CONSUMER_OFFSETS.decode(each.key, each.value) for each in decode_records(batch)]
            records = [each for each in found if each is not None and type(each.key).__name__.startswith("StreamsGroup")]
            if records:
                yield batch, records


def broker_at(epoch: int) -> BrokerInMemory:
    """A broker whose log is Kafka's as long as the group had that epoch, and before."""
    broker = broker_with_groups(TOPICS)
    for batch, records in kafkas_log():
        epochs = [each.value and each.value.epoch for each in records if isinstance(each.key, StreamsGroupMetadataKey)]
        if any(each is None or each > epoch for each in epochs):
            break
        broker.cluster.partition(TOPIC, 0).append_own(bytearray(batch.data))
    return broker


def by_member(data: bytes) -> schema.Response:
    """The answer with its members in one order; Kafka's is that of a hash table."""
    answer: schema.Response = Golden("", "k89_streams_group_describe", 89, 0, "response", data, Provenance("", "", "")).decode()
    for group in answer.groups:
        group.members.sort(key=lambda member: member.member_id)
    return answer


def test_active_group() -> None:
    assert by_member(serve(broker_at(4), golden(CLIENT))) == by_member(kafka_answer(golden(CLIENT)))


def test_group_without_members() -> None:
    assert serve(broker_at(6), golden(f"{CLIENT}_tools")) == kafka_answer(golden(f"{CLIENT}_tools"))


def test_unknown_group() -> None:
    assert serve(broker_with_groups(), golden(f"{CLIENT}_small")) == kafka_answer(golden(f"{CLIENT}_small"))


@pytest.mark.parametrize(("is_asked", "operations"), [(True, 3400), (False, -(2**31))])
def test_authorized_operations(is_asked: bool, operations: int) -> None:
    request = schema.Request(group_ids=["word-count", "", "absent"], include_authorized_operations=is_asked)
    known, empty, absent = broker_at(6).ask(request).groups
    assert known.authorized_operations == operations
    assert (empty.error_code, absent.error_code) == (24, 69)
