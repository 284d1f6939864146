"""Parts of requests are refused in every API: nothing is lost, nothing is doubled, and each error stands where a client looks for it."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.dispatch.error_answer import error_answer
from minibroker.dispatch.partition_split import Place, answers_places, join, overlay, places_in, split
from minibroker.dispatch.registry import load
from minibroker.errors import (
    CorruptMessage,
    KafkaError,
    NotLeaderOrFollower,
    OperationNotAttempted,
    UnknownTopicOrPartition,
)
from minibroker.schemas import (
    k00_produce,
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k23_offset_for_leader_epoch,
    k24_add_partitions_to_txn,
    k27_write_txn_markers,
    k28_txn_offset_commit,
    k32_describe_configs,
    k43_elect_leaders,
    k61_describe_producers,
    k68_consumer_group_heartbeat,
    k79_share_acknowledge,
)
from minibroker.wire.api import api_of
from minibroker.wire.codec import decode, encode
from minibroker.wire.schema import NIL_UUID
from tests.golden import all_golden
from tests.support.soak import examples

IDS = [UUID(int=1), UUID(int=2)]
CHOSEN = [NotLeaderOrFollower("elsewhere"), CorruptMessage(), UnknownTopicOrPartition()]

#: API -> (a request of two topics with so many partitions in all, version)
REQUESTS: dict[str, tuple[Any, int]] = {
    "Produce": (
        k00_produce.Request(
            acks=1,
            timeout_ms=1,
            topic_data=[
                k00_produce.Topic(topic_id=each, partition_data=[k00_produce.Partition(index=index, records=b"x") for index in range(3)])
                for each in IDS
            ],
        ),
        13,
    ),
    "ListOffsets": (
        k02_list_offsets.Request(
            replica_id=-1,
            topics=[
                k02_list_offsets.Topic(
                    name=name, partitions=[k02_list_offsets.Partition(partition_index=index, timestamp=-1) for index in range(3)]
                )
                for name in "ab"
            ],
        ),
        6,
    ),
    "OffsetForLeaderEpoch": (
        k23_offset_for_leader_epoch.Request(
            topics=[
                k23_offset_for_leader_epoch.Topic(
                    topic=name, partitions=[k23_offset_for_leader_epoch.Partition(partition=index, leader_epoch=0) for index in range(3)]
                )
                for name in "ab"
            ]
        ),
        4,
    ),
    "DeleteRecords": (
        k21_delete_records.Request(
            timeout_ms=1,
            topics=[
                k21_delete_records.Topic(
                    name=name, partitions=[k21_delete_records.Partition(partition_index=index, offset=0) for index in range(3)]
                )
                for name in "ab"
            ],
        ),
        2,
    ),
    "OffsetCommit": (
        k08_offset_commit.Request(
            group_id="g",
            member_id="",
            topics=[
                k08_offset_commit.Topic(
                    topic_id=each,
                    partitions=[
                        k08_offset_commit.Partition(partition_index=index, committed_offset=1, committed_metadata=None)
                        for index in range(3)
                    ],
                )
                for each in IDS
            ],
        ),
        10,
    ),
    "TxnOffsetCommit": (
        k28_txn_offset_commit.Request(
            transactional_id="t",
            group_id="g",
            producer_id=1,
            producer_epoch=0,
            topics=[
                k28_txn_offset_commit.Topic(
                    name=name,
                    partitions=[
                        k28_txn_offset_commit.Partition(partition_index=index, committed_offset=1, committed_metadata=None)
                        for index in range(3)
                    ],
                )
                for name in "ab"
            ],
        ),
        3,
    ),
    "OffsetFetch v7": (
        k09_offset_fetch.Request(group_id="g", topics=[k09_offset_fetch.Topic(name=name, partition_indexes=[0, 1, 2]) for name in "ab"]),
        7,
    ),
    "OffsetFetch v9": (
        k09_offset_fetch.Request(
            groups=[
                k09_offset_fetch.Group(
                    group_id=group, topics=[k09_offset_fetch.GroupTopic(name=f"{group}{name}", partition_indexes=[0, 1]) for name in "ab"]
                )
                for group in "gh"
            ]
        ),
        9,
    ),
    "WriteTxnMarkers": (
        k27_write_txn_markers.Request(
            markers=[
                k27_write_txn_markers.Marker(
                    producer_id=producer_id,
                    producer_epoch=0,
                    transaction_result=True,
                    coordinator_epoch=0,
                    topics=[k27_write_txn_markers.Topic(name=f"{producer_id}", partition_indexes=[0, 1, 2])],
                )
                for producer_id in (1, 2)
            ]
        ),
        1,
    ),
    "DescribeProducers": (
        k61_describe_producers.Request(topics=[k61_describe_producers.Topic(name=name, partition_indexes=[0, 1, 2]) for name in "ab"]),
        0,
    ),
    "ShareAcknowledge": (
        k79_share_acknowledge.Request(
            group_id="g",
            member_id="m",
            share_session_epoch=1,
            topics=[
                k79_share_acknowledge.Topic(
                    topic_id=each,
                    partitions=[k79_share_acknowledge.Partition(partition_index=index, acknowledgement_batches=[]) for index in range(3)],
                )
                for each in IDS
            ],
        ),
        1,
    ),
    "ElectLeaders": (
        k43_elect_leaders.Request(
            topic_partitions=[k43_elect_leaders.Topic(topic=name, partitions=[0, 1, 2]) for name in "ab"], timeout_ms=1
        ),
        2,
    ),
    "DeleteTopics v5": (k20_delete_topics.Request(topic_names=list("abcdef"), timeout_ms=1), 5),
    "DeleteTopics v6": (
        k20_delete_topics.Request(topics=[k20_delete_topics.Topic(name=name, topic_id=NIL_UUID) for name in "abcdef"], timeout_ms=1),
        6,
    ),
    "CreateTopics": (
        k19_create_topics.Request(
            topics=[
                k19_create_topics.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in "abcdef"
            ],
            timeout_ms=1,
        ),
        7,
    ),
    "Metadata": (k03_metadata.Request(topics=[k03_metadata.Topic(name=name) for name in "abcdef"]), 12),
    "DescribeConfigs": (
        k32_describe_configs.Request(
            resources=[k32_describe_configs.Resource(resource_type=2, resource_name=name, configuration_keys=None) for name in "abcdef"]
        ),
        4,
    ),
}


def errors_in(answer: Any, above: tuple[str, UUID] = ("", NIL_UUID)) -> dict[Place, int]:
    """Every error of an answer by its place, read in this test's own way; an error anywhere else fails."""
    found: dict[Place, int] = {}
    declared = type(answer).declared_
    name = next((getattr(answer, each) for each in ("name", "topic", "topic_name", "resource_name") if each in declared), None)
    topic = (name or "", getattr(answer, "topic_id", NIL_UUID)) if name is not None or "topic_id" in declared else above
    index = next((getattr(answer, each) for each in ("partition_index", "index", "partition", "partition_id") if each in declared), None)
    code = getattr(answer, "partition_error_code", getattr(answer, "error_code", 0))
    if code:
        assert topic != ("", NIL_UUID), f"an error of the whole answer: {answer}"
        found[Place(*topic, index)] = code
    for each in declared:
        value = getattr(answer, each)
        if isinstance(value, list) and value and hasattr(value[0], "declared_"):
            for element in value:
                assert not set(found) & set(errors_in(element, topic)), "an error is there twice"
                found |= errors_in(element, topic)
    return found


@pytest.mark.parametrize("name", REQUESTS)
@examples(25)
@given(data=st.data())
def test_refused_and_remaining_partitions_cover_the_request(name: str, data: st.DataObject) -> None:
    request, version = REQUESTS[name]
    api = api_of(load_schema(request))
    places = list(places_in(request))
    assert len(places) in {6, 8}
    chosen: dict[Place, KafkaError] = data.draw(st.dictionaries(st.sampled_from(places), st.sampled_from(CHOSEN)))
    before = repr(request)
    rest, refused = split(api, version, request, lambda *place: chosen.get(Place(*place)))
    assert repr(request) == before, "the request is not touched: its handler may see it again"
    left = list(places_in(rest)) if rest is not None else []
    assert left == [place for place in places if place not in chosen]
    assert (rest is None) == (len(chosen) == len(places))
    if not chosen:
        assert rest is request
        assert refused is None
        return
    wire = encode(refused, version, flexible=api.flexible(version))
    assert errors_in(decode(api.Response, wire, version, flexible=api.flexible(version))) == {
        place: error.code for place, error in chosen.items()
    }
    if rest is not None:
        encode(rest, version, flexible=api.flexible(version))
        others = error_answer(api.Response, rest, CorruptMessage(), version)  # stands for the handler's answer
        for field in ("error_code",):
            if field in type(others).declared_:
                others.error_code = 0
        for group in getattr(others, "groups", []):
            group.error_code = 0
        whole = errors_in(join(others, refused))
        assert whole == {place: chosen[place].code if place in chosen else CorruptMessage.code for place in places}


def load_schema(request: Any) -> Any:
    return sys.modules[type(request).__module__]


def test_a_topic_of_both_is_answered_once() -> None:
    request, version = REQUESTS["ListOffsets"]
    api = api_of(k02_list_offsets)
    found = split(api, version, request, lambda name, _, index: CorruptMessage() if (name, index) == ("a", 1) else None)
    others = error_answer(api.Response, found.rest, NotLeaderOrFollower(), version)
    answer = join(others, found.refused)
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in answer.topics] == [
        ("a", [0, 2, 1]),
        ("b", [0, 1, 2]),
    ]


@pytest.mark.parametrize("version", [3, 4])
def test_transaction_adds_all_partitions_or_no_partition(version: int) -> None:
    schema = k24_add_partitions_to_txn
    topics = [schema.Topic(name=name, partitions=[0, 1]) for name in "ab"]
    if version == 4:
        other = schema.Transaction(transactional_id="u", producer_id=2, producer_epoch=0, topics=[schema.Topic(name="c", partitions=[0])])
        one = schema.Transaction(transactional_id="t", producer_id=1, producer_epoch=0, topics=topics)
        request = schema.Request(transactions=[one, other])
    else:
        request = schema.Request(v3_and_below_transactional_id="t", v3_and_below_topics=topics)
    found = split(api_of(schema), version, request, lambda name, _, index: CorruptMessage() if (name, index) == ("a", 1) else None)
    assert errors_in(found.refused) == {
        Place("a", NIL_UUID, 0): OperationNotAttempted.code,
        Place("a", NIL_UUID, 1): CorruptMessage.code,
        Place("b", NIL_UUID, 0): OperationNotAttempted.code,
        Place("b", NIL_UUID, 1): OperationNotAttempted.code,
    }
    if version == 4:
        assert found.rest is not None
        assert [each.transactional_id for each in found.rest.transactions] == ["u"]
    else:
        assert found.rest is None


def test_places_of_real_clients_requests_are_found_in_every_version() -> None:
    counted: Counter[str] = Counter()
    for golden in all_golden().values():
        handler = load().get(golden.api_key)
        if golden.direction != "request" or handler is None or not handler.api.serves(golden.version) or golden.api_key in {1, 78}:
            continue
        request = golden.decode()
        places = list(places_in(request))
        if not places or len(places) != len(set(places)) or not answers_places(handler.api.Response):
            continue
        found = split(handler.api, golden.version, request, lambda *_: CorruptMessage())
        assert found.rest is None or all(each.resource_type != 2 for each in found.rest.resources), golden.name
        assert set(errors_in(found.refused)) == set(places), golden.name
        encode(found.refused, golden.version, flexible=golden.flexible)
        counted[handler.api.name] += 1
    assert {"Produce", "ListOffsets", "OffsetCommit", "OffsetFetch", "DeleteRecords", "AddPartitionsToTxn", "TxnOffsetCommit"} <= set(
        counted
    )


def test_answers_without_a_place_for_it_are_known() -> None:
    assert not answers_places(k68_consumer_group_heartbeat.Response)
    assert answers_places(k00_produce.Response)
    assert answers_places(k03_metadata.Response)


def test_all_topics_are_no_topics() -> None:
    request = k03_metadata.Request(topics=None)
    assert split(api_of(k03_metadata), 12, request, lambda *_: CorruptMessage()) == (request, None)
    offsets = k09_offset_fetch.Request(group_id="g", topics=None)
    assert split(api_of(k09_offset_fetch), 7, offsets, lambda *_: CorruptMessage()) == (offsets, None)


def test_resources_that_are_no_topics_are_served() -> None:
    kinds = [(2, "a"), (4, "1"), (2, "b")]
    resources = [k32_describe_configs.Resource(resource_type=kind, resource_name=name, configuration_keys=None) for kind, name in kinds]
    request = k32_describe_configs.Request(resources=resources)
    found = split(api_of(k32_describe_configs), 4, request, lambda name, *_: CorruptMessage() if name == "a" else None)
    assert found.rest is not None
    assert found.refused is not None
    assert [each.resource_name for each in found.rest.resources] == ["1", "b"]
    assert [(each.resource_name, each.error_code) for each in found.refused.results] == [("a", CorruptMessage.code)]


@pytest.mark.parametrize("name", REQUESTS)
def test_an_overlay_puts_errors_over_an_answer(name: str) -> None:
    request, version = REQUESTS[name]
    api = api_of(load_schema(request))
    places = list(places_in(request))
    answer = error_answer(api.Response, request, CorruptMessage(), version)
    for each in ("error_code",):
        if each in type(answer).declared_:
            answer.error_code = 0
    for group in getattr(answer, "groups", []):
        group.error_code = 0
    failed = dict.fromkeys(places[::2], NotLeaderOrFollower("later"))
    result = errors_in(overlay(answer, lambda *place: failed.get(Place(*place)), version))
    assert result == {place: NotLeaderOrFollower.code if place in failed else CorruptMessage.code for place in places}


def test_overlays_replace_topics_or_partitions() -> None:
    def answer() -> k03_metadata.Response:
        partitions = [
            k03_metadata.PartitionResult(error_code=0, partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            for index in range(2)
        ]
        topics = [k03_metadata.TopicResult(error_code=0, name=name, partitions=list(partitions)) for name in "ab"]
        return k03_metadata.Response(brokers=[], controller_id=1, topics=topics)

    whole = overlay(answer(), lambda name, _, index: CorruptMessage() if (name, index) == ("a", None) else None, 9)
    assert [(each.error_code, len(each.partitions)) for each in whole.topics] == [(CorruptMessage.code, 0), (0, 2)]
    one = overlay(answer(), lambda name, _, index: CorruptMessage() if (name, index) == ("a", 1) else None, 9)
    assert [[each.error_code for each in topic.partitions] for topic in one.topics] == [[0, CorruptMessage.code], [0, 0]]
    assert one.topics[0].partitions[1].leader_id == -1
