"""An answer to a request that failed as a whole has every part of the request, in every API and version."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minibroker.dispatch.context import ConnectionInfo, RequestContext, Services
from minibroker.dispatch.error_answer import ERROR_CODES, error_answer
from minibroker.dispatch.registry import load
from minibroker.errors import UnknownServerError
from minibroker.schemas import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k19_create_topics,
    k21_delete_records,
    k78_share_fetch,
)
from minibroker.wire.api import Api
from minibroker.wire.codec import decode, encode
from tests.golden import Golden, all_golden

CODE = UnknownServerError.code
APIS = load().apis()


def codes_in(value: Any) -> list[int]:
    """Every error_code of a response, at any depth."""
    if isinstance(value, list):
        return [code for element in value for code in codes_in(element)]
    if not hasattr(value, "declared_"):
        return []
    own = [getattr(value, name) for name in value.declared_ if name in ERROR_CODES]
    return own + [code for name in value.declared_ if name not in ERROR_CODES for code in codes_in(getattr(value, name))]


#: Versions whose answers cannot show a failure of the whole request, in Apache Kafka either (DescribeLogDirsRequest.getErrorResponse).
NO_ERROR_CODE = {"DescribeLogDirs": range(3)}
#: Versions whose answers have an error code only inside the request's lists, where some captured requests have empty lists.
EMPTY_LISTS = {
    "Metadata": range(13),
    "CreateAcls": range(1, 4),
    "DeleteAcls": range(1, 4),
    "AlterReplicaLogDirs": range(1, 3),
    "ElectLeaders": range(1),
}


def has_only_empty_lists(request: Any) -> bool:
    """Return whether the request has lists, and none of them has an element that an answer could name."""
    lists = [value for name in request.declared_ if isinstance(value := getattr(request, name), list | None)]
    if hasattr(request, "dirs"):
        lists = [directory.topics for directory in request.dirs]
    return not any(lists)


def answer_of(api: Api, golden: Golden) -> Any:
    """Return the handler's own error answer if it has one, otherwise the generic answer, as the dispatcher does."""
    handler = load().get(api.key)
    assert handler is not None
    if handler.on_error is None:
        return error_answer(api.Response, golden.decode(), UnknownServerError(), golden.version)
    services: Any = Services.__new__(Services)
    services.cluster = None
    ctx = RequestContext(services, ConnectionInfo("PLAINTEXT", "127.0.0.1"), golden.version, correlation_id=1, client_id=None)
    return handler.on_error(ctx, golden.decode(), UnknownServerError())


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_requests_of_real_clients_all_fail_visibly(api: Api) -> None:
    captured = [golden for golden in all_golden().values() if golden.api_key == api.key and golden.direction == "request"]
    served = [golden for golden in captured if api.serves(golden.version)]
    visible = 0
    for golden in served:
        response = answer_of(api, golden)
        data = encode(response, golden.version, flexible=golden.flexible)
        again = decode(api.Response, data, golden.version, flexible=golden.flexible)
        codes = codes_in(again)
        assert set(codes) <= {CODE} | ({0} if "error_code" in api.Response.declared_ else set()), golden.name
        if CODE in codes_in(again):
            visible += 1
        elif golden.version not in NO_ERROR_CODE.get(api.name, ()):
            assert golden.version in EMPTY_LISTS.get(api.name, ()), golden.name
            assert has_only_empty_lists(golden.decode()), golden.name
    assert visible, "no captured request of this API shows that it failed"


def test_topics_and_partitions_are_found_again() -> None:
    partition = k02_list_offsets.Partition(partition_index=3, timestamp=-1)
    request = k02_list_offsets.Request(replica_id=-1, topics=[k02_list_offsets.Topic(name="orders", partitions=[partition])])
    (topic,) = error_answer(k02_list_offsets.Response, request, UnknownServerError(), 5).topics
    assert topic.name == "orders"
    assert topic.partitions == [k02_list_offsets.PartitionResult(partition_index=3, error_code=CODE)]


def test_names_that_differ_between_request_and_response() -> None:
    partition = k00_produce.Partition(index=2, records=None)
    request = k00_produce.Request(acks=1, timeout_ms=1, topic_data=[k00_produce.Topic(name="orders", partition_data=[partition])])
    (topic,) = error_answer(k00_produce.Response, request, UnknownServerError(), 9).responses
    assert (topic.name, topic.partition_responses[0].index, topic.partition_responses[0].error_code) == ("orders", 2, CODE)


def test_a_null_that_a_version_cannot_carry_is_left_out() -> None:
    request = k03_metadata.Request(topics=[k03_metadata.Topic(name=None)])
    (topic,) = error_answer(k03_metadata.Response, request, UnknownServerError(), 10).topics
    assert topic.name == ""


def test_a_null_list_has_no_answers() -> None:
    assert error_answer(k03_metadata.Response, k03_metadata.Request(topics=None), UnknownServerError(), 12).topics == []


def test_error_answer_repeats_only_identifiers() -> None:
    topic = k02_list_offsets.Topic(name="orders", partitions=[k02_list_offsets.Partition(partition_index=3, timestamp=-2)])
    answer = error_answer(k02_list_offsets.Response, k02_list_offsets.Request(replica_id=-1, topics=[topic]), UnknownServerError(), 3)
    (partition,) = answer.topics[0].partitions
    assert (partition.partition_index, partition.timestamp, partition.offset) == (3, -1, -1)


def test_messages_are_passed_on() -> None:
    request = k19_create_topics.Request(
        topics=[k19_create_topics.Topic(name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[])], timeout_ms=1
    )
    (topic,) = error_answer(k19_create_topics.Response, request, UnknownServerError("why"), 7).topics
    assert (topic.name, topic.error_code, topic.error_message) == ("orders", CODE, "why")


def test_delete_records() -> None:
    partition = k21_delete_records.Partition(partition_index=1, offset=5)
    request = k21_delete_records.Request(topics=[k21_delete_records.Topic(name="orders", partitions=[partition])], timeout_ms=1)
    (topic,) = error_answer(k21_delete_records.Response, request, UnknownServerError(), 2).topics
    assert topic.partitions == [k21_delete_records.PartitionResult(partition_index=1, low_watermark=-1, error_code=CODE)]


@pytest.mark.parametrize("schema", [k01_fetch, k78_share_fetch])
def test_topics_that_a_session_forgets_are_not_answered(schema: Any) -> None:
    """As in Kafka's FetchRequest.getErrorResponse, which repeats `topics` alone."""
    forgotten = schema.ForgottenTopic(topic_id=UUID(int=1), partitions=[0])
    fields = {"max_wait_ms": 0, "min_bytes": 0, "topics": [], "forgotten_topics_data": [forgotten]}
    if schema is k78_share_fetch:
        fields |= {"member_id": "m", "share_session_epoch": 1, "max_bytes": 1, "max_records": 1, "batch_size": 1}
    answer = error_answer(schema.Response, schema.Request(**fields), UnknownServerError(), schema.VERSIONS[1])
    assert (answer.error_code, answer.responses) == (UnknownServerError.code, [])
